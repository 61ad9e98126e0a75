//! The builder: takes entries of sources, and makes the image of them.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use uext4_device::{Access, BlockDevice, FileDevice, NewFile};
use uext4_mkfs::{DeviceContents, Plan};
use uext4_num::u64_of;

use crate::content::output::Output;
use crate::content::writer::ContentWriter;
use crate::error::{Error, Result};
use crate::finish::finish;
use crate::image::Image;
use crate::layout::block_allocator::BlockAllocator;
use crate::layout::diff_friendly;
use crate::layout::option_checks::check;
use crate::options::{BuildOptions, PlacementRule, Size};
use crate::progress::Progress;
use crate::report::BuildReport;
use crate::sources::collector::Collector;
use crate::sources::entry::{Attributes, Content, Data, Entry, Node};
use crate::sources::host::directory::Host;
use crate::sources::sink::Sink;
use crate::tree::arena::Tree;
use crate::tree::implicit::Describe;
use crate::tree::keys::Keys;
use crate::tree::limits::Limits;

/// Takes the entries of sources, and makes the image of them.
pub struct Builder {
    image: Image,
    collector: Collector,
    describe: Option<Describe>,
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
        builder.collector.spool.beside(path);
        Ok(builder)
    }

    /// A builder of an image on a device of any contents. The size of the options is at most the
    /// device's. The device has no superblock from now on until [`Builder::finish`] writes it last.
    ///
    /// # Errors
    /// As [`Builder::create`].
    pub fn on(device: Arc<dyn BlockDevice>, mut options: BuildOptions) -> Result<Builder> {
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
    /// device may be larger than the image; [`BuildReport::geometry`] tells the size.
    ///
    /// # Errors
    /// Options that make no image, or one larger than the device.
    pub fn blank(device: Arc<dyn BlockDevice>, mut options: BuildOptions) -> Result<Builder> {
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
        file: Option<Arc<NewFile>>,
        mut options: BuildOptions,
        (plan, blocks): (Plan, u64),
    ) -> Result<Builder> {
        let (plan, early) = match options.places {
            PlacementRule::Packed => (plan, None),
            PlacementRule::DiffFriendly => {
                let (plan, draft) = diff_friendly::begin(&mut options)?;
                (plan, Some(draft))
            }
        };
        let geometry = plan.superblock.geometry();
        let geometry = geometry.map_err(uext4_mkfs::Error::from)?;
        let limits = Limits::new(&geometry, options.format.features);
        let mut tree = Tree::new(options.format.root_owner, limits)?;
        if early.is_some() {
            tree.keys = Keys::used();
        }
        let allocator = BlockAllocator::new(&options, early.as_ref(), geometry, blocks)?;
        let writer = ContentWriter::new(allocator, Output::new(device.clone()), &geometry);
        Ok(Builder {
            collector: Collector::new(tree, writer),
            image: Image {
                options,
                plan,
                early,
                device,
                file,
            },
            describe: None,
            state: State::Open,
        })
    }

    /// Adds a directory of the host and everything in it, at a path of the image. After an error
    /// the builder takes nothing more, because a part of the directory may be in it.
    ///
    /// # Errors
    /// As [`Host::feed`].
    pub fn directory(&mut self, host: &Path, at: &[u8]) -> Result<()> {
        let host = Host::open(host)?;
        let mut host = host.with_threads(self.image.options.threads);
        let fed = host.feed(at, self);
        if fed.is_err() {
            self.state = State::Failed;
        }
        fed
    }

    /// Adds directories of the host as layers, in the order in which `uext4 build` takes them: a
    /// later one hides what earlier ones have at the same path. They come below what the builder
    /// has already.
    ///
    /// # Errors
    /// As [`Host::feed`].
    pub fn directories(&mut self, hosts: &[impl AsRef<Path>], at: &[u8]) -> Result<()> {
        for (nr, host) in hosts.iter().rev().enumerate() {
            if nr > 0 || self.collector.entries > 0 {
                self.next_layer()?;
            }
            self.directory(host.as_ref(), at)?;
        }
        Ok(())
    }

    /// Calls `watch` as the build goes on, at least once a MiB of contents and once every 4096
    /// entries; `Break` ends it with [`Error::Cancelled`].
    pub fn watch(&mut self, watch: impl FnMut(Progress) -> ControlFlow<()> + Send + 'static) {
        self.collector.writer.reporter.watch = Some(Box::new(watch));
    }

    /// Calls `describe` at the end for each directory that no source has: lost+found, the root and
    /// those above files. It gets the path and what the directory has without it: mode 0755, or
    /// 0700 for lost+found; owner 0, or that of the options for the root. The time is the image's.
    pub fn describe(&mut self, describe: impl FnMut(&[u8], &mut Attributes) + Send + 'static) {
        self.describe = Some(Box::new(describe));
    }

    /// Names the file of the image, if it was not given to [`Builder::create`]: temporary files go
    /// beside it where `TMPDIR` and `/var/tmp` take none.
    pub fn spool_beside(&mut self, image: &Path) {
        self.collector.spool.beside(image);
    }

    /// Adds a regular file of these bytes.
    ///
    /// # Errors
    /// As [`Sink::add`].
    pub fn file(&mut self, path: &[u8], bytes: &[u8], attributes: Attributes) -> Result<()> {
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
    pub fn finish(self) -> Result<BuildReport> {
        match self.state {
            State::Open => finish(self.image, self.collector, self.describe),
            State::Failed => Err(Error::Ended),
        }
    }

    /// A step of a source, unless one has failed before.
    fn step(&mut self, step: impl FnOnce(&mut Collector) -> Result<()>) -> Result<()> {
        if self.state == State::Failed {
            return Err(Error::Ended);
        }
        step(&mut self.collector).inspect_err(|_| self.state = State::Failed)
    }
}

impl Sink for Builder {
    fn next_layer(&mut self) -> Result<()> {
        self.step(|collector| collector.tree.next_layer())
    }

    fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        self.step(|collector| collector.add(entry))
    }

    fn hide(&mut self, path: &[u8]) -> Result<()> {
        self.step(|collector| collector.tree.hide(path))
    }

    fn hide_below(&mut self, path: &[u8]) -> Result<()> {
        self.step(|collector| collector.tree.hide_below(path))
    }
}
