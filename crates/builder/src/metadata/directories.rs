//! Directories of the image, from the root down: in their inodes, or in blocks.

use uext4_format::{Feature, InodeNr};
use uext4_mkfs::directory::{self, Blocks, Format, Item, Owner};
use uext4_num::u64_of;

use crate::content::gather::Gather;
use crate::content::writer::ContentWriter;
use crate::error::{Error, Result};
use crate::layout::identity::Identity;
use crate::tree::arena::Tree;
use crate::tree::ids::{FileId, NameId};
use crate::tree::lookup::path_of;
use crate::tree::order::Sorted;

/// Fewest bytes of lost+found, so that a checker need not allocate.
const LOST_FOUND_BYTES: u32 = 16 << 10;
/// Links that a directory has at most without the feature `dir_nlink`.
const LINKS_MAX: u32 = 65_000;

/// Makes, places and writes all directories. A new lost+found gets more than one block.
pub(crate) fn write(
    tree: &mut Tree,
    sorted: &Sorted,
    identity: &Identity,
    lost_found: Option<FileId>,
    format: &Format,
    writer: &mut ContentWriter,
) -> Result<()> {
    let geometry = &identity.geometry;
    let mut gather = Gather::new(geometry.block_bits);
    let mut parents = vec![(tree.root, InodeNr::ROOT)];
    while let Some((id, parent)) = parents.pop() {
        let file = *tree.file(id);
        let blocks_min = if lost_found == Some(id) {
            (LOST_FOUND_BYTES / geometry.block_size()).clamp(2, 12)
        } else {
            1
        };
        let owner = Owner {
            inode: file.ino,
            parent,
            seed: identity.seed(&file),
            blocks_min,
        };
        let children = sorted.children(file.location);
        let made = {
            let items: Vec<Item<'_>> = children
                .iter()
                .map(|name| item(tree, format, *name))
                .collect();
            make(tree, id, format, owner, &items)?
        };
        check_subdirectories(tree, id, format)?;
        let below = children.iter().rev().map(|name| tree.names.get(*name).file);
        let below = below.filter(|child| tree.file(*child).is_directory());
        parents.extend(below.map(|child| (child, file.ino)));
        tree.take_location(id);
        let directory = tree.file_mut(id);
        directory.size = u64_of(made.bytes().len());
        match made {
            Made::Inline(bytes) => {
                let location = tree.keep(&bytes)?;
                tree.file_mut(id).location = location;
            }
            Made::Blocks(blocks) => {
                directory.digest = u64::from(blocks.is_indexed);
                writer.write_blocks(tree, id, &blocks.bytes, &mut gather)?;
            }
        }
    }
    Ok(gather.finish(&mut writer.output)?)
}

/// Content of a directory.
enum Made {
    /// Its names fit into its inode.
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
    if let Some(bytes) = inline_max.and_then(|max| directory::inline(owner, items, max)) {
        return Ok(Made::Inline(bytes));
    }
    format.build(owner, items).map(Made::Blocks).map_err(|_| {
        let problem = "the directory has too many names for its index";
        Error::refused(&path_of(tree, id), problem, "use the feature large_dir")
    })
}

fn item<'a>(tree: &'a Tree, format: &Format, name: NameId) -> Item<'a> {
    let file = tree.file(tree.names.get(name).file);
    Item {
        name: tree.names.bytes(name),
        inode: file.ino,
        kind: format.kind(file.kind),
    }
}

fn check_subdirectories(tree: &Tree, id: FileId, format: &Format) -> Result<()> {
    if tree.file(id).links > LINKS_MAX && !format.features.has(Feature::DIR_NLINK) {
        let problem = "the directory has more than 64998 directories";
        let advice = "use the feature dir_nlink";
        return Err(Error::refused(&path_of(tree, id), problem, advice));
    }
    Ok(())
}
