//! The end of a build: collect, place, write. Each step takes the part before and returns the next.
//!
//! ```text
//!  Collector   entries and layers as they came; contents of streams are on the device
//!  Collected   one tree: its order, inode numbers, times
//!  Placed      all blocks of files are on the device; the size is chosen, tables have places
//!  BuildReport inodes, tables and superblock are on the device; the new file has its name
//! ```
//!
//! Inside of a step, too, the order of the calls is a contract: see the functions.

use uext4_format::hash::DirHasher;
use uext4_format::quota::QuotaKind;
use uext4_format::{BlockNr, Feature};
use uext4_mkfs::Draft;
use uext4_mkfs::directory::{Format, Packing};
use uext4_num::u64_of;

use crate::content::deferred::write_deferred;
use crate::content::targets::write_long_targets;
use crate::content::writer::ContentWriter;
use crate::error::Result;
use crate::image::Image;
use crate::layout::diff_friendly;
use crate::layout::identity::Identity;
use crate::layout::in_use::{contents, replaced};
use crate::layout::inode_numbers::InodeNumbers;
use crate::layout::size_search::Needs;
use crate::metadata::attribute_blocks::AttributeBlocks;
use crate::metadata::extent_maps::DeepMaps;
use crate::metadata::usage::Usage;
use crate::metadata::{directories, inodes, xattr_values};
use crate::options::PlacementRule;
use crate::report::{BuildReport, Followed};
use crate::sources::collector::Collector;
use crate::tree::arena::Tree;
use crate::tree::ids::FileId;
use crate::tree::implicit::Describe;
use crate::tree::merge::merge_layers;
use crate::tree::order::{LOST_FOUND, Sorted};
use crate::tree::{implicit, order};

/// All layers as one tree, in the order of the image, with inode numbers.
struct Collected {
    tree: Tree,
    writer: ContentWriter,
    sorted: Sorted,
    /// The directory, if no source has it.
    lost_found: Option<FileId>,
    followed: Followed,
    /// Time of the file system, in seconds since 1970.
    time: u64,
}

/// The layout: every block of a file is placed and written, and the size is chosen.
struct Placed {
    tree: Tree,
    identity: Identity,
    maps: DeepMaps,
    /// Files by inode number, each with its attribute block; 0: none.
    files: Vec<(FileId, BlockNr)>,
    /// The file system, with everything placed.
    draft: Draft,
    followed: Followed,
}

/// See [`crate::Builder::finish`].
pub(crate) fn finish(
    mut image: Image,
    collector: Collector,
    describe: Option<Describe>,
) -> Result<BuildReport> {
    let collected = collect(&image, collector, describe)?;
    let placed = lay_out(&mut image, collected)?;
    write(&image, placed)
}

/// Merges the layers, adds the directories that no source has, and numbers the inodes.
///
/// Lost+found comes after the merge: only the merged tree tells whether a layer has it. The sort
/// numbers it and counts its link. `describe` comes before the values are numbered: for example, it
/// gives a directory a large attribute; numbered before, the attribute block would keep the index
/// of that value as its inode number.
fn collect(image: &Image, collector: Collector, describe: Option<Describe>) -> Result<Collected> {
    let Collector {
        mut tree,
        mut writer,
        ..
    } = collector;
    writer.flush(&mut tree)?;
    let followed = merge_layers(&mut tree, &mut writer.reporter)?;
    let lost_found = implicit::add_recovery_directory(&mut tree)?;
    let mut numbers = match &image.early {
        None => InodeNumbers::Ascending(LOST_FOUND.0 + 1),
        Some(draft) => {
            let first = draft.after_hidden_files();
            InodeNumbers::scattered(first, draft.superblock.inodes_count)
        }
    };
    let mut sorted = order::sort(&mut tree, &mut numbers)?;
    let time = image.options.format.time;
    let time = time.unwrap_or_else(|| order::latest(&tree, &sorted));
    implicit::date(&mut tree, time);
    if let Some(mut describe) = describe {
        implicit::describe(&mut tree, &sorted, &mut describe)?;
    }
    xattr_values::number(&mut tree, &mut sorted, &mut numbers, time)?;
    Ok(Collected {
        tree,
        writer,
        sorted,
        lost_found,
        followed,
        time,
    })
}

/// Places and writes the blocks of all files, and chooses the size of the image.
///
/// Contents and values come before the identity, a hash of them and their places: in the other
/// order, two trees that differ in one value would have one UUID. Metadata come after it: their
/// checksums need its UUID, hashed directories its seed, and directories replace the lists of names
/// that it hashes.
///
/// The hashes of values come before the attribute blocks, which hold them. Directories come before
/// the maps: one of more than four runs needs nodes, without which its inode cannot be made. The
/// size comes last, with all blocks known.
fn lay_out(image: &mut Image, collected: Collected) -> Result<Placed> {
    let Collected {
        mut tree,
        mut writer,
        sorted,
        lost_found,
        followed,
        time,
    } = collected;
    write_deferred(&mut tree, &sorted, &mut writer, image.options.threads)?;
    xattr_values::write(&mut tree, &mut writer)?;
    let identity = Identity::new(image, &tree, &sorted, time)?;
    xattr_values::seal(&mut tree, image.plan.superblock.seed());
    write_long_targets(&mut tree, &sorted, &mut writer)?;
    let format = directory_format(image, &identity);
    directories::write(
        &mut tree,
        &sorted,
        &identity,
        lost_found,
        &format,
        &mut writer,
    )?;
    let ContentWriter {
        allocator, output, ..
    } = &mut writer;
    let blocks = AttributeBlocks::write(&tree, &sorted.order, &identity, allocator, output)?;
    let maps = DeepMaps::write(&tree, &sorted, &identity, allocator, output)?;
    output.finish()?;
    let used = allocator.used_without(replaced(&tree, &identity.geometry));
    let (files, draft) = choose_size(image, &tree, &sorted, &identity, &maps, blocks, &used)?;
    Ok(Placed {
        tree,
        identity,
        maps,
        files,
        draft,
        followed,
    })
}

fn directory_format(image: &Image, identity: &Identity) -> Format {
    Format::new(
        identity.geometry.features,
        identity.geometry.block_size(),
        DirHasher::of(&image.plan.superblock),
        match image.options.places {
            PlacementRule::Packed => Packing::Full,
            PlacementRule::DiffFriendly => Packing::ByHash,
        },
    )
}

/// The files by inode number with their attribute blocks, and the file system that holds them.
fn choose_size(
    image: &mut Image,
    tree: &Tree,
    sorted: &Sorted,
    identity: &Identity,
    maps: &DeepMaps,
    mut blocks: AttributeBlocks,
    used: &[(u64, u64)],
) -> Result<(Vec<(FileId, BlockNr)>, Draft)> {
    let usage = if image.options.format.features.has(Feature::QUOTA) {
        Usage::count(tree, sorted, identity, blocks.clone(), maps)?
    } else {
        Usage::default()
    };
    let with_blocks = sorted.order.iter().map(|id| (*id, blocks.next(tree, *id)));
    let mut files: Vec<(FileId, BlockNr)> = with_blocks.collect();
    files.sort_by_key(|(id, _)| tree.file(*id).ino);
    let contents = contents(tree, &files);
    if let Some(draft) = image.early.take() {
        return Ok((files, diff_friendly::complete(draft, used, &contents)));
    }
    let needs = Needs {
        size: image.options.size,
        tables: image.options.tables,
        options: &image.options.format,
        identity,
        used,
        last: files
            .last()
            .map_or(LOST_FOUND, |(id, _)| tree.file(*id).ino),
        contents: &contents,
        usages: &|kind: QuotaKind| usage.of(kind),
    };
    let draft = needs.draft()?;
    Ok((files, draft))
}

/// Writes inodes, tables and superblocks, and gives a new file its name. The name comes last: for
/// example, a build that is killed leaves the earlier image of that name as it was.
fn write(image: &Image, placed: Placed) -> Result<BuildReport> {
    let Placed {
        tree,
        identity,
        maps,
        files,
        mut draft,
        followed,
    } = placed;
    let own = files.iter().map(|(id, block)| -> Result<_> {
        let inode = inodes::inode(&tree, *id, &identity, &maps, *block)?;
        Ok((tree.file(*id).ino, inode))
    });
    draft.write(&*image.device, own)?;
    image.keep(draft.geometry.size_bytes())?;
    let files = files.len() - tree.attributes.values.count();
    Ok(BuildReport::new(draft, u64_of(files), followed))
}
