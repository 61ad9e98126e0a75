//! The builder: takes entries, and writes the contents that come with them.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use uext4_device::{Access, BlockDevice, FileDevice, NewFile};
use uext4_format::{Feature, FileType, Geometry};
use uext4_mkfs::{DeviceContents, Draft, Plan};
use uext4_num::{clamp_u32, u64_of, usize_of};

use crate::attributes::{InlineData, LargeValues, Limits};
use crate::bump::Bump;
use crate::contents::{Batch, PIECE_BYTES, digest, whole_clusters};
use crate::implicit::Describe;
use crate::key::{Key, Keys};
use crate::layers::Spot;
use crate::output::{Output, Write};
use crate::places::{Placed, Places};
use crate::scatter::{Scatter, Wanted};
use crate::spool::{Spool, Spooled};
use crate::streams::{Stream, are_sound, is_full};
use crate::tree::{FileId, Later, Piece, Place, Tree};
use crate::{
    BuildOptions, Content, Data, Entry, Error, Node, PlaceRule, Progress, Report, Result, Sink,
    Size, Tables, inline, sizing, stable,
};

/// Features without which it makes nothing.
const NEEDED: [Feature; 2] = [Feature::EXTENTS, Feature::FLEX_BG];
/// Logical blocks that a file can have.
const FILE_BLOCKS_MAX: u64 = uext4_format::extent::LOGICAL_BLOCKS;

/// Entries without contents between two calls of the callback.
const ENTRIES_UNWATCHED: u64 = 4096;

/// A callback that learns of progress and may end the build.
type Watch = Box<dyn FnMut(Progress) -> ControlFlow<()> + Send>;

/// Takes the entries of sources, and makes the image of them.
pub struct Builder {
    pub(crate) options: BuildOptions,
    /// Numbers before the size is known.
    pub(crate) plan: Plan,
    pub(crate) tree: Tree,
    pub(crate) places: Places,
    /// The file system without contents, where their places follow from paths.
    pub(crate) early: Option<Draft>,
    pub(crate) output: Output,
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) image: Option<Arc<NewFile>>,
    pub(crate) progress: Progress,
    pub(crate) describe: Option<Describe>,
    spool: Spool,
    gathered: Batch,
    watch: Option<Watch>,
    /// Entries so far.
    entries: u64,
    state: State,
}

/// Whether it takes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// A step has failed: the tree is not what the sources say.
    Failed,
}

impl Builder {
    /// A builder of an image at this path: a new file, which gets its name at the end and replaces
    /// one of that name, or a block device, which is written at once.
    ///
    /// # Errors
    /// Options that make no image, or a path that cannot be written.
    pub fn create(path: &Path, options: BuildOptions) -> Result<Builder> {
        let failed = |error| Error::Image {
            path: path.display().to_string(),
            error,
        };
        let there = std::fs::metadata(path).ok();
        if let Some(there) = there.filter(|there| !there.is_file()) {
            uext4_device::refuse_planted(path).map_err(failed)?;
            let device = FileDevice::open(path, Access::ReadWrite)?;
            uext4_device::refuse_swapped(path, &there, &device).map_err(failed)?;
            return Builder::on(Arc::new(device), options);
        }
        let mut options = options;
        options.format.contents = DeviceContents::Zeroed;
        let (plan, blocks) = check(&mut options)?;
        let limit = blocks << (10 + plan.superblock.log_block_size);
        let image = NewFile::create(path, limit).map_err(failed)?;
        let image = Arc::new(image);
        let mut builder = Builder::start(image.clone(), Some(image), options, (plan, blocks))?;
        builder.spool.beside(path);
        Ok(builder)
    }

    /// A builder of an image on a device of any contents. The size of the options is at most the
    /// device's. The device has no superblock from now on until [`Builder::finish`] writes it last.
    ///
    /// # Errors
    /// As [`Builder::create`].
    pub fn on(device: Arc<dyn BlockDevice>, options: BuildOptions) -> Result<Builder> {
        let mut options = options;
        options.format.contents = DeviceContents::Unknown;
        if let Size::Bytes(bytes) = options.size
            && bytes > device.size_bytes()
        {
            return Err(uext4_mkfs::Error::TooSmall.into());
        }
        let (plan, blocks) = check(&mut options)?;
        let blocks = blocks.min(device.size_bytes() >> (10 + plan.superblock.log_block_size));
        let block_size = 1024 << plan.superblock.log_block_size;
        let builder = Builder::start(device.clone(), None, options, (plan, blocks))?;
        uext4_mkfs::wipe(&*device, blocks * u64::from(block_size), block_size)?;
        Ok(builder)
    }

    /// A builder of an image on a device that reads as zeroes everywhere, such as a new file. The
    /// device may be larger than the image; [`Report::geometry`] tells the size.
    ///
    /// # Errors
    /// Options that make no image, or one larger than the device.
    pub fn blank(device: Arc<dyn BlockDevice>, options: BuildOptions) -> Result<Builder> {
        let mut options = options;
        options.format.contents = DeviceContents::Zeroed;
        let (plan, blocks) = check(&mut options)?;
        let bits = 10 + plan.superblock.log_block_size;
        if matches!(options.size, Size::Bytes(_)) && blocks << bits > device.size_bytes() {
            return Err(uext4_mkfs::Error::TooSmall.into());
        }
        let blocks = blocks.min(device.size_bytes() >> bits);
        Builder::start(device, None, options, (plan, blocks))
    }

    fn start(
        device: Arc<dyn BlockDevice>,
        image: Option<Arc<NewFile>>,
        mut options: BuildOptions,
        (plan, blocks): (Plan, u64),
    ) -> Result<Builder> {
        let (plan, early) = match options.places {
            PlaceRule::Packed => (plan, None),
            PlaceRule::DiffFriendly => {
                let (plan, draft) = stable::begin(&mut options)?;
                (plan, Some(draft))
            }
        };
        let geometry = plan
            .superblock
            .geometry()
            .map_err(uext4_mkfs::Error::from)?;
        let fields = usize_of(128 + u32::from(uext4_format::KNOWN_EXTRA_BYTES));
        let limits = Limits {
            tail_bytes: usize::from(geometry.inode_size).saturating_sub(fields),
            block_bytes: usize_of(geometry.block_size()),
            cluster_bytes: uext4_num::clamp_usize(geometry.cluster_size()),
            large: match options.format.features.has(Feature::EA_INODE) {
                true => LargeValues::Inodes,
                false => LargeValues::Refused,
            },
            inline: match options.format.features.has(Feature::INLINE_DATA) {
                true => InlineData::Used,
                false => InlineData::Unused,
            },
        };
        let mut tree = Tree::new(options.format.root_owner, limits)?;
        let places = match &early {
            Some(draft) => {
                tree.keys = Keys::used();
                Places::Scattered(Scatter::new(&geometry, draft.end().0))
            }
            None => Places::Ascending(bump(&options, geometry, blocks)?),
        };
        Ok(Builder {
            tree,
            places,
            early,
            output: Output::new(device.clone()),
            device,
            image,
            options,
            plan,
            progress: Progress {
                bytes: 0,
                files: 0,
                total_files: None,
            },
            describe: None,
            spool: Spool::default(),
            gathered: Batch::default(),
            watch: None,
            entries: 0,
            state: State::Open,
        })
    }

    /// Calls `watch` as the build goes on, at least once a MiB of contents and once every 4096
    /// entries; `Break` ends it with [`Error::Cancelled`].
    pub fn watch(&mut self, watch: impl FnMut(Progress) -> ControlFlow<()> + Send + 'static) {
        self.watch = Some(Box::new(watch));
    }

    /// Calls `describe` at the end for each directory that no source has: lost+found, the root and
    /// those above files. It gets the path and what the directory has without it: mode 0755, or
    /// 0700 for lost+found; owner 0, or that of the options for the root. The time is the image's.
    pub fn describe(
        &mut self,
        describe: impl FnMut(&[u8], &mut crate::Attributes) + Send + 'static,
    ) {
        self.describe = Some(Box::new(describe));
    }

    /// Names the file of the image, if it was not given to [`Builder::create`]: temporary files go
    /// beside it where `TMPDIR` and `/var/tmp` take none.
    pub fn spool_beside(&mut self, image: &Path) {
        self.spool.beside(image);
    }

    /// Adds a regular file of these bytes.
    ///
    /// # Errors
    /// As [`Sink::add`].
    pub fn file(&mut self, path: &[u8], bytes: &[u8], attributes: crate::Attributes) -> Result<()> {
        let mut reader = bytes;
        let size = u64_of(bytes.len());
        let whole = 0..size;
        self.add(Entry {
            path: path.to_vec(),
            attributes,
            node: Node::File(Content {
                size,
                data: Data::Stream {
                    ranges: vec![whole],
                    reader: &mut reader,
                },
            }),
        })
    }

    /// Writes what is left for the end, and makes the image.
    ///
    /// # Errors
    /// As [`Sink::add`]; then no file has the final name.
    pub fn finish(self) -> Result<Report> {
        match self.state {
            State::Open => crate::finish::finish(self),
            State::Failed => Err(Error::Ended),
        }
    }

    /// Whether it has taken an entry.
    pub(crate) fn has_entries(&self) -> bool {
        self.entries > 0
    }

    /// A step of a source, unless one has failed before.
    fn step(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.state == State::Failed {
            return Err(Error::Ended);
        }
        step(self).inspect_err(|_| self.state = State::Failed)
    }

    fn take(&mut self, mut entry: Entry<'_>) -> Result<()> {
        self.entries += 1;
        if self.entries.is_multiple_of(ENTRIES_UNWATCHED) {
            self.report()?;
        }
        let path = std::mem::take(&mut entry.path);
        let mtime = entry.attributes.mtime;
        let spot = self.tree.spot(&path)?;
        if let Some(file) = self.add_node(&path, &spot, entry)? {
            let file = self.tree.file_mut(file);
            (file.seconds, file.nanoseconds) = (mtime.seconds, mtime.nanoseconds);
        }
        Ok(())
    }

    pub(crate) fn block_size(&self) -> u32 {
        1024 << self.plan.superblock.log_block_size
    }

    /// Blocks of a cluster.
    fn cluster_blocks(&self) -> u32 {
        let superblock = &self.plan.superblock;
        1 << (superblock.log_cluster_size - superblock.log_block_size)
    }

    fn add_content(&mut self, file: FileId, path: &[u8], content: Content<'_>) -> Result<()> {
        let size = content.size;
        let max = FILE_BLOCKS_MAX.saturating_mul(u64::from(self.block_size()));
        if size > max {
            let problem = format!("the file has {size} bytes, and at most {max} are possible");
            return Err(Error::refused(path, problem, "use larger blocks"));
        }
        self.tree.file_mut(file).size = size;
        let (Data::Stream { ranges, .. } | Data::Later { ranges, .. }) = &content.data;
        if !are_sound(ranges, size) {
            let problem = "its ranges of data are not in order, or not inside the file";
            return Err(Error::refused(
                path,
                problem,
                "this is an error of the source",
            ));
        }
        match content.data {
            Data::Later { ranges, file: from } => self.add_later(file, size, ranges, from),
            Data::Stream { ranges, reader } => {
                if self.tree.is_covered(path) {
                    let spooled = self.spool(path, &ranges, reader)?;
                    return self.add_later(file, size, ranges, Box::new(spooled));
                }
                self.tree.keys.set(file, || Key::of_path(path));
                let stream = Stream {
                    file,
                    size,
                    ranges,
                    reader,
                };
                self.add_stream(path, stream)
            }
        }
    }

    fn add_later(
        &mut self,
        file: FileId,
        size: u64,
        ranges: Vec<std::ops::Range<u64>>,
        from: Box<dyn crate::ReadAt>,
    ) -> Result<()> {
        if ranges.is_empty() {
            return Ok(());
        }
        let is_whole = ranges.len() == 1 && ranges[0] == (0..size);
        let at = clamp_u32(self.tree.laters.len());
        self.tree.laters.push(Later {
            file: from,
            ranges: (!is_whole).then(|| ranges.into()),
        });
        self.tree.file_mut(file).place = Place::Later(at);
        Ok(())
    }

    /// Keeps the contents of a file that upper layers seem to hide in a temporary file: another
    /// name may keep the file in the image.
    fn spool(
        &mut self,
        path: &[u8],
        ranges: &[std::ops::Range<u64>],
        reader: &mut dyn std::io::Read,
    ) -> Result<Spooled> {
        let mut spool = std::mem::take(&mut self.spool);
        let mut writer = spool.begin(path)?;
        let mut left: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        while left > 0 {
            left -= writer.copy(reader, left)?;
            self.report()?;
        }
        let spooled = writer.finish(ranges);
        self.spool = spool;
        spooled
    }

    fn add_stream(&mut self, path: &[u8], mut stream: Stream<'_>) -> Result<()> {
        let block_size = self.block_size();
        let pieces = stream.pieces();
        for (at, offset) in pieces.iter().enumerate() {
            let is_last = at + 1 == pieces.len();
            let read = stream.read(&mut self.gathered, *offset, block_size, is_last);
            read.map_err(|error| Error::Source {
                source_name: crate::error::shown(path),
                error,
            })?;
            if is_full(&self.gathered) {
                self.flush_gathered()?;
            }
        }
        Ok(())
    }

    /// Writes the small files that were gathered.
    pub(crate) fn flush_gathered(&mut self) -> Result<()> {
        let next = Batch::with_buffer(self.output.spent().unwrap_or_default());
        let batch = std::mem::replace(&mut self.gathered, next);
        self.write_batch(batch)
    }

    /// Allocates the blocks of a batch and hands it to the writer.
    pub(crate) fn write_batch(&mut self, batch: Batch) -> Result<()> {
        let bits = self.block_size().ilog2();
        let Batch { bytes, parts, .. } = batch;
        let bytes = Arc::new(bytes);
        let mut write = Write {
            at: 0,
            bytes: bytes.clone(),
            ranges: Vec::new(),
        };
        let mut next = 0;
        for part in &parts {
            let file = self.tree.file_mut(part.file);
            if let Some(crc) = part.crc {
                file.digest = digest(file.digest, part.offset, crc);
            }
            self.progress.bytes += u64_of(part.range.len());
            self.progress.files += u64::from(part.is_last);
            if inline::is_inline(&self.tree, part.file) {
                if part.crc.is_some() {
                    let place = self.tree.keep(&bytes[part.range.clone()])?;
                    self.tree.file_mut(part.file).place = place;
                }
                continue;
            }
            let wanted = Wanted {
                key: self.tree.keys.get(part.file),
                file_blocks: self.tree.file(part.file).size.div_ceil(1 << bits),
                first: clamp_u32(part.offset >> bits),
                blocks: clamp_u32(u64_of(part.range.len()).div_ceil(1 << bits)),
            };
            let start = clamp_u32(part.range.start >> bits);
            let data = whole_clusters(&part.data, self.cluster_blocks(), wanted.blocks);
            for Placed { at, run } in self.places.place(&wanted, &data)? {
                let piece = Piece {
                    logical: wanted.first + at,
                    blocks: run.len_blocks,
                    start: run.start,
                };
                self.tree.append(part.file, piece);
                if next != run.start.0 {
                    self.hand_over(&mut write, run.start.0 << bits)?;
                }
                let (from, to) = (start + at, start + at + run.len_blocks);
                write.push(usize_of(from) << bits..usize_of(to) << bits);
                next = run.start.0 + u64::from(run.len_blocks);
            }
        }
        self.hand_over(&mut write, 0)?;
        self.report()
    }

    /// Hands over what a write has, and begins the next one at an offset.
    fn hand_over(&mut self, write: &mut Write, at: u64) -> Result<()> {
        let bytes = write.bytes.clone();
        let done = std::mem::replace(
            write,
            Write {
                at,
                bytes,
                ranges: Vec::new(),
            },
        );
        if done.ranges.is_empty() {
            return Ok(());
        }
        Ok(self.output.write(done)?)
    }

    pub(crate) fn report(&mut self) -> Result<()> {
        let progress = self.progress;
        match self.watch.as_mut().map(|watch| watch(progress)) {
            Some(ControlFlow::Break(())) => Err(Error::Cancelled),
            _ => Ok(()),
        }
    }

    fn add_node(
        &mut self,
        path: &[u8],
        spot: &Spot<'_>,
        entry: Entry<'_>,
    ) -> Result<Option<FileId>> {
        let mut entry = entry;
        if matches!(entry.node, Node::Symlink(_)) {
            entry.attributes.permissions = 0o777; // the only ones that Linux shows
        }
        let attributes = self.tree.attributes.intern(path, &entry.attributes)?;
        let kind = match &entry.node {
            Node::Directory => {
                return self.tree.add_directory(path, spot, attributes).map(Some);
            }
            Node::Link(target) => {
                self.tree.add_link(path, spot, target)?;
                return Ok(None);
            }
            Node::File(_) => FileType::Regular,
            Node::Symlink(_) => FileType::Symlink,
            Node::CharDevice(_) => FileType::CharDevice,
            Node::BlockDevice(_) => FileType::BlockDevice,
            Node::Fifo => FileType::Fifo,
            Node::Socket => FileType::Socket,
        };
        let file = self.tree.add_file(path, spot, kind, attributes)?;
        match entry.node {
            Node::File(content) => self.add_content(file, path, content)?,
            Node::Symlink(target) => self.add_target(file, path, &target)?,
            Node::CharDevice(device) | Node::BlockDevice(device) => {
                let number = u64::from(device.major) << 32 | u64::from(device.minor);
                self.tree.file_mut(file).size = number;
            }
            _ => {}
        }
        Ok(Some(file))
    }

    fn add_target(&mut self, file: FileId, path: &[u8], target: &[u8]) -> Result<()> {
        let max = usize_of(self.block_size()).min(4096) - 1;
        if target.is_empty() || target.len() > max || target.contains(&0) {
            let problem = format!("the target of the symbolic link has not 1 to {max} bytes");
            return Err(Error::refused(
                path,
                problem,
                "use a shorter link, or larger blocks",
            ));
        }
        let place = self.tree.keep(target)?;
        let file = self.tree.file_mut(file);
        (file.place, file.size) = (place, u64_of(target.len()));
        Ok(())
    }
}

impl Sink for Builder {
    fn next_layer(&mut self) -> Result<()> {
        self.step(|builder| builder.tree.next_layer())
    }

    fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        self.step(|builder| builder.take(entry))
    }

    fn hide(&mut self, path: &[u8]) -> Result<()> {
        self.step(|builder| builder.tree.hide(path))
    }

    fn hide_below(&mut self, path: &[u8]) -> Result<()> {
        self.step(|builder| builder.tree.hide_below(path))
    }
}

/// Blocks one after the other, around those that are placed before.
fn bump(options: &BuildOptions, geometry: Geometry, blocks: u64) -> Result<Bump> {
    let mut bump = Bump::new(geometry, blocks);
    if options.tables == Tables::Front {
        bump.skip_to(sizing::tables_end(options)?);
    }
    Ok(bump)
}

/// Checks the options, and computes the first numbers and the most blocks.
fn check(options: &mut BuildOptions) -> Result<(Plan, u64)> {
    let format = &mut options.format;
    format.placement = uext4_mkfs::Placement::Packed;
    let features = format.features;
    for feature in NEEDED {
        if !features.has(feature) {
            let problem = format!("the feature {feature} is off");
            return Err(Error::Refused {
                source_name: "the options".to_owned(),
                problem,
                advice: "leave it on: images need it",
            });
        }
    }
    if features.has(Feature::EA_INODE) && features.has(Feature::QUOTA) {
        return Err(Error::Refused {
            source_name: "the options".to_owned(),
            problem: "quota and ea_inode are both on".to_owned(),
            advice: "leave one out: attributes in inodes are not counted for their owners",
        });
    }
    if format.external_journal.is_some() {
        return Err(Error::Refused {
            source_name: "the options".to_owned(),
            problem: "an image has no journal on another device".to_owned(),
            advice: "build without a journal and add it later",
        });
    }
    let (plan, blocks) = sizing::first_plan(options.size, format)?;
    let cluster_bytes = 1024_u64 << plan.superblock.log_cluster_size;
    if cluster_bytes > PIECE_BYTES {
        return Err(Error::Refused {
            source_name: "the options".to_owned(),
            problem: format!("a cluster has {cluster_bytes} bytes"),
            advice: "images have clusters of up to 1 MiB",
        });
    }
    Ok((plan, blocks))
}
