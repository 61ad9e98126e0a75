//! The end of a build, in order: contents read late, identity, directories, maps, size, metadata.

use std::convert::Infallible;
use std::sync::Arc;

use uext4_format::{BlockNr, Checksums, Feature, FileType, Geometry, InodeNr, Seed};
use uext4_mkfs::{Contents, Draft};
use uext4_num::{clamp_u32, nonnegative, usize_of};

use crate::attribute_blocks::AttributeBlocks;
use crate::bump::cluster_end;
use crate::contents::Batch;
use crate::directories::{Blocks, Format, Item, Owner, Packing};
use crate::inodes::{self, DeepMaps};
use crate::numbers::Numbers;
use crate::output::Gather;
use crate::places::Placed;
use crate::readers::{Job, Readers};
use crate::sizing::{Needs, Report};
use crate::sorting::{self, Sorted, path_of};
use crate::tree::{File, FileId, Origin, Piece, Place, Tree};
use crate::usage::Usage;
use crate::{Builder, Error, PlaceRule, Result, implicit, inline, manifest, values};

/// Most bytes of a symbolic link in its inode.
const SHORT_TARGET_MAX: u64 = 59;
/// Fewest bytes of lost+found, so that a checker need not allocate.
const LOST_FOUND_BYTES: u32 = 16 << 10;

/// What the tree determines.
pub(crate) struct Identity {
    pub(crate) uuid: [u8; 16],
    pub(crate) hash_seed: [u8; 16],
    /// Seconds since 1970.
    pub(crate) time: u64,
    /// Sizes, with the largest possible or the given number of blocks.
    pub(crate) geometry: Geometry,
    pub(crate) checksums: Checksums,
}

impl Identity {
    /// The seed of a file's checksums.
    pub(crate) fn seed(&self, file: &File) -> Option<Seed> {
        self.checksums.inode_seed(file.ino, 0)
    }
}

/// See [`Builder::finish`].
pub(crate) fn finish(mut build: Builder) -> Result<Report> {
    build.flush_gathered()?;
    let followed = build.merge_layers()?;
    let lost_found = implicit::add_lost_found(&mut build.tree)?;
    let mut numbers = numbers(&build.early);
    let mut sorted = sorting::sort(&mut build.tree, &mut numbers)?;
    let time = build.options.format.time;
    let time = time.unwrap_or_else(|| latest(&build.tree, &sorted));
    implicit::date(&mut build.tree, time);
    if let Some(describe) = &mut build.describe {
        implicit::describe(&mut build.tree, &sorted, describe)?;
    }
    values::number(&mut build.tree, &mut sorted, &mut numbers, time)?;
    read_later(&mut build, &sorted)?;
    values::write(&mut build)?;
    let identity = identify(&mut build, &sorted, time)?;
    values::seal(&mut build.tree, build.plan.superblock.seed());
    place_targets(&mut build, &sorted)?;
    write_directories(&mut build, &sorted, &identity, lost_found)?;
    let Builder {
        tree,
        places,
        output,
        ..
    } = &mut build;
    let blocks = AttributeBlocks::write(tree, &sorted.order, &identity, places, output)?;
    let maps = DeepMaps::write(tree, &sorted, &identity, places, output)?;
    output.finish()?;
    let report = write_metadata(&mut build, &sorted, &identity, blocks, &maps)?;
    Ok(Report { followed, ..report })
}

fn numbers(early: &Option<Draft>) -> Numbers {
    match early {
        None => Numbers::Ascending(sorting::LOST_FOUND.0 + 1),
        Some(draft) => {
            Numbers::scattered(draft.after_hidden_files(), draft.superblock.inodes_count)
        }
    }
}

/// The latest change in the tree, in seconds.
fn latest(tree: &Tree, sorted: &Sorted) -> u64 {
    let files = sorted.order.iter().map(|id| tree.file(*id));
    let entries = files.filter(|file| file.origin == Origin::Entry);
    entries
        .map(|file| nonnegative(file.seconds))
        .max()
        .unwrap_or(0)
}

/// Reads and writes the contents that were left, in the order of the image.
fn read_later(build: &mut Builder, sorted: &Sorted) -> Result<()> {
    let mut jobs = Vec::new();
    for id in &sorted.order {
        let Place::Later(later) = build.tree.file(*id).place else {
            continue;
        };
        let file = build.tree.file_mut(*id);
        file.place = Place::None;
        jobs.push(Job {
            file: *id,
            size: file.size,
            later,
        });
    }
    let files = std::mem::take(&mut build.tree.laters);
    build.progress.total_files = Some(build.progress.files + uext4_num::u64_of(jobs.len()));
    let mut readers = Readers::new(jobs, files, build.options.threads, build.block_size());
    while let Some(outcome) = readers.next() {
        let batch = outcome.map_err(|(file, error)| Error::Source {
            source_name: crate::error::shown(&path_of(&build.tree, file)),
            error,
        })?;
        build.write_batch(batch)?;
        if let Some(buffer) = build.output.spent() {
            readers.reuse(buffer);
        }
    }
    Ok(())
}

fn identify(build: &mut Builder, sorted: &Sorted, time: u64) -> Result<Identity> {
    let options = &build.options.format;
    let (uuid, hash_seed) = match (options.uuid, options.hash_seed) {
        (Some(uuid), Some(hash_seed)) => (uuid, hash_seed),
        (uuid, hash_seed) => {
            let own = manifest::identify(&build.tree, sorted);
            (uuid.unwrap_or(own.0), hash_seed.unwrap_or(own.1))
        }
    };
    build.plan.identify(options, uuid, hash_seed, time)?;
    let superblock = &build.plan.superblock;
    Ok(Identity {
        uuid,
        hash_seed,
        time,
        geometry: superblock.geometry().map_err(uext4_mkfs::Error::from)?,
        checksums: superblock.checksums(),
    })
}

/// Writes the targets of symbolic links that do not fit into their inodes.
fn place_targets(build: &mut Builder, sorted: &Sorted) -> Result<()> {
    let block_size = build.block_size();
    let mut batch = Batch::default();
    for id in &sorted.order {
        let file = build.tree.file(*id);
        let Place::Kept(at) = file.place else {
            continue;
        };
        if file.kind != FileType::Symlink || file.size <= SHORT_TARGET_MAX {
            continue;
        }
        let target = build.tree.kept(at, file.size);
        let whole = 0..file.size;
        let piece = (0, target.len());
        let copied = batch.fill::<Infallible>(piece, block_size, &[whole], |_, bytes| {
            bytes.copy_from_slice(target);
            Ok(())
        });
        let Ok(range) = copied;
        batch.complete(*id, 0, range, block_size, false);
        build.tree.take_place(*id);
        if crate::streams::is_full(&batch) {
            build.write_batch(std::mem::take(&mut batch))?;
        }
    }
    build.write_batch(batch)
}

fn write_directories(
    build: &mut Builder,
    sorted: &Sorted,
    identity: &Identity,
    lost_found: Option<FileId>,
) -> Result<()> {
    let geometry = &identity.geometry;
    let format = Format::new(
        geometry.features,
        geometry.block_size(),
        build.plan.superblock.hash_seed,
        match build.options.places {
            PlaceRule::Packed => Packing::Full,
            PlaceRule::DiffFriendly => Packing::ByHash,
        },
    );
    let mut gather = Gather::new(geometry.block_bits);
    let mut parents = vec![(build.tree.root, InodeNr::ROOT)];
    while let Some((id, parent)) = parents.pop() {
        let file = *build.tree.file(id);
        let is_lost_found = lost_found == Some(id);
        let owner = Owner {
            inode: file.ino,
            parent,
            seed: identity.seed(&file),
            blocks_min: match is_lost_found {
                true => (LOST_FOUND_BYTES / geometry.block_size()).clamp(2, 12),
                false => 1,
            },
        };
        let children = sorted.children(file.place);
        let made = {
            let items: Vec<Item<'_>> = children
                .iter()
                .map(|name| item(&build.tree, &format, *name))
                .collect();
            make(&build.tree, id, &format, owner, &items)?
        };
        check_subdirectories(build, id)?;
        let below = children
            .iter()
            .rev()
            .map(|name| build.tree.names.get(*name).file);
        let below = below.filter(|child| build.tree.file(*child).is_directory());
        parents.extend(below.map(|child| (child, file.ino)));
        build.tree.take_place(id);
        let directory = build.tree.file_mut(id);
        directory.size = uext4_num::u64_of(made.bytes().len());
        match made {
            Made::Inline(bytes) => {
                let place = build.tree.keep(&bytes)?;
                build.tree.file_mut(id).place = place;
            }
            Made::Blocks(blocks) => {
                directory.digest = u64::from(blocks.is_indexed);
                write_whole(build, id, &blocks.bytes, &mut gather)?;
            }
        }
    }
    Ok(gather.finish(&mut build.output)?)
}

/// Contents of a directory.
enum Made {
    /// For its inode.
    Inline(Vec<u8>),
    Blocks(Blocks),
}

impl Made {
    fn bytes(&self) -> &[u8] {
        match self {
            Made::Inline(bytes) | Made::Blocks(Blocks { bytes, .. }) => bytes,
        }
    }
}

fn make(
    tree: &Tree,
    id: FileId,
    format: &Format,
    owner: Owner,
    items: &[Item<'_>],
) -> Result<Made> {
    let inline_max = tree.attributes.get(tree.file(id).attributes).inline_max;
    if let Some(bytes) = inline_max.and_then(|max| inline::directory(owner, items, max)) {
        return Ok(Made::Inline(bytes));
    }
    format.build(owner, items).map(Made::Blocks).map_err(|_| {
        let problem = "the directory has too many names for its index";
        Error::refused(&path_of(tree, id), problem, "use the feature large_dir")
    })
}

/// Places and writes all blocks of a file.
fn write_whole(build: &mut Builder, id: FileId, bytes: &[u8], gather: &mut Gather) -> Result<()> {
    let block_size = build.block_size();
    let count = clamp_u32(bytes.len() >> block_size.ilog2());
    let key = build.tree.keys.get(id);
    let mut left = bytes;
    for Placed { at, run } in build.places.place_whole(key, count)? {
        let piece = Piece {
            logical: at,
            blocks: run.len_blocks,
            start: run.start,
        };
        build.tree.append(id, piece);
        for nr in (run.start.0..).take(usize_of(run.len_blocks)) {
            let (block, rest) = left.split_at(usize_of(block_size));
            gather.append(BlockNr(nr), block, &mut build.output)?;
            left = rest;
        }
    }
    Ok(())
}

fn item<'a>(tree: &'a Tree, format: &Format, name: crate::names::NameId) -> Item<'a> {
    let file = tree.file(tree.names.get(name).file);
    Item {
        name: tree.names.bytes(name),
        inode: file.ino,
        kind: format.kind(file.kind),
    }
}

fn check_subdirectories(build: &Builder, id: FileId) -> Result<()> {
    let many = build.tree.file(id).links > 65_000;
    if many && !build.plan.superblock.features().has(Feature::DIR_NLINK) {
        let problem = "the directory has more than 64998 directories";
        let advice = "use the feature dir_nlink";
        return Err(Error::refused(&path_of(&build.tree, id), problem, advice));
    }
    Ok(())
}

/// Chooses the size, and writes inodes, tables and superblocks.
fn write_metadata(
    build: &mut Builder,
    sorted: &Sorted,
    identity: &Identity,
    mut blocks: AttributeBlocks,
    maps: &DeepMaps,
) -> Result<Report> {
    let early = build.early.take();
    let tree = &build.tree;
    let used = build
        .places
        .used_without(replaced(tree, &identity.geometry));
    let usage = match build.options.format.features.has(Feature::QUOTA) {
        true => Usage::count(tree, sorted, identity, blocks.clone(), maps)?,
        false => Usage::default(),
    };
    let with_blocks = sorted.order.iter().map(|id| (*id, blocks.next(tree, *id)));
    let mut files: Vec<(FileId, BlockNr)> = with_blocks.collect();
    files.sort_by_key(|(id, _)| tree.file(*id).ino);
    let contents = contents(tree, &files);
    let needs = Needs {
        size: build.options.size,
        tables: build.options.tables,
        options: &build.options.format,
        identity,
        used: &used,
        last: files
            .last()
            .map_or(sorting::LOST_FOUND, |(id, _)| tree.file(*id).ino),
        contents: &contents,
        usages: &|kind| usage.of(kind),
    };
    let mut draft = match early {
        None => needs.draft()?,
        Some(draft) => completed(draft, &used, &contents),
    };
    let mut failure = None;
    let own = files.iter().map_while(|(id, block)| {
        match inodes::inode(tree, *id, identity, maps, *block) {
            Ok(inode) => Some((tree.file(*id).ino, inode)),
            Err(error) => {
                failure = Some(error);
                None
            }
        }
    });
    draft.write(&*build.device, own)?;
    if let Some(error) = failure {
        return Err(error);
    }
    keep(&build.image, draft.geometry.size_bytes())?;
    let files = files.len() - build.tree.attributes.values.count();
    Ok(Report::new(draft, uext4_num::u64_of(files)))
}

/// The early draft of a diff-friendly image with the contents.
fn completed(mut draft: Draft, used: &[(u64, u64)], contents: &Contents) -> Draft {
    for (start, end) in used {
        draft.occupy(BlockNr(*start), BlockNr(*end));
    }
    draft.use_inodes(contents.clone());
    draft
}

/// The inodes of files in the order of their numbers.
fn contents(tree: &Tree, files: &[(FileId, BlockNr)]) -> Contents {
    let mut contents = Contents::default();
    for (id, _) in files {
        let file = tree.file(*id);
        if file.is_directory() {
            contents.directories.push(file.ino);
        }
        match contents.inodes.last_mut() {
            _ if file.ino < sorting::LOST_FOUND => {}
            Some(run) if run.end == file.ino.0 => run.end += 1,
            _ => contents.inodes.push(file.ino.0..file.ino.0 + 1),
        }
    }
    contents
}

/// The clusters of files that later entries of their layer replaced.
fn replaced(tree: &Tree, geometry: &Geometry) -> Vec<(u64, u64)> {
    let mut runs = Vec::new();
    for file in tree.files.iter().filter(|file| file.links == 0) {
        let one = match file.place {
            Place::One(piece) => Some(piece),
            _ => None,
        };
        for piece in tree.pieces_of(file).iter().copied().chain(one) {
            let start = piece.start.0;
            let end = cluster_end(geometry, start + u64::from(piece.blocks));
            runs.push((start, end));
        }
    }
    runs
}

fn keep(image: &Option<Arc<uext4_device::NewFile>>, size_bytes: u64) -> Result<()> {
    let Some(image) = image else {
        return Ok(());
    };
    image.keep(size_bytes).map_err(|error| Error::Image {
        path: uext4_device::BlockDevice::describe(&**image),
        error,
    })
}
