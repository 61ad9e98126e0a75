//! Targets of symbolic links that do not fit into their inodes.

use std::convert::Infallible;

use uext4_format::FileType;

use crate::content::batch::Batch;
use crate::content::writer::ContentWriter;
use crate::error::Result;
use crate::tree::arena::Tree;
use crate::tree::file::DataLocation;
use crate::tree::order::Sorted;

/// Most bytes of a symbolic link in its inode.
const SHORT_TARGET_MAX: u64 = 59;

/// Places and writes the long targets, in the order of the image.
pub(crate) fn write_long_targets(
    tree: &mut Tree,
    sorted: &Sorted,
    writer: &mut ContentWriter,
) -> Result<()> {
    let block_size = writer.block_size();
    let mut batch = Batch::default();
    for id in &sorted.order {
        let file = tree.file(*id);
        let DataLocation::Kept(at) = file.location else {
            continue;
        };
        if file.kind != FileType::Symlink || file.size <= SHORT_TARGET_MAX {
            continue;
        }
        let target = tree.kept(at, file.size);
        let whole = 0..file.size;
        let chunk = (0, target.len());
        let copied = batch.fill::<Infallible>(chunk, block_size, &[whole], |_, bytes| {
            bytes.copy_from_slice(target);
            Ok(())
        });
        let Ok(range) = copied;
        batch.complete(*id, 0, range, block_size, false);
        tree.take_location(*id);
        if batch.is_full() {
            writer.write_batch(tree, std::mem::take(&mut batch))?;
        }
    }
    writer.write_batch(tree, batch)
}
