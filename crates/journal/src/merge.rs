//! Rendered pieces to block images: runs on the committing side, with no lock held.

use crate::parallel::stretches;
use crate::sink::{Arena, Piece};
use crate::{Error, Image};
use uext4_format::BlockNr;

/// The pieces of one block, in order of emission.
struct Group<'a> {
    block: BlockNr,
    pieces: &'a [(BlockNr, Piece)],
    bytes: &'a [u8],
}

/// Gives the present images of ascending blocks.
pub(crate) type Bases<'a> = &'a dyn Fn(&[BlockNr]) -> Result<Vec<Image>, Error>;

/// Blocks that are worth a thread of their own to build.
const BLOCKS_PER_THREAD: usize = 1000;

/// Merges pieces into one image per block, ascending by block, by up to `threads` threads. `bases`
/// gives the present images of the (ascending) blocks that are only patched.
pub(crate) fn merge(
    mut arenas: Vec<Arena>,
    bases: Bases<'_>,
    threads: usize,
) -> Result<Vec<(BlockNr, Image)>, Error> {
    for arena in &mut arenas {
        arena.pieces.sort_by_key(|(block, _)| *block); // stable: keeps the order of emission
    }
    let mut groups: Vec<Group<'_>> = arenas.iter().flat_map(groups_of).collect();
    groups.sort_unstable_by_key(|group| group.block);
    let patched = groups.iter().filter(|group| group.whole().is_none());
    let wanted: Vec<BlockNr> = patched.map(|group| group.block).collect();
    let bases = bases(&wanted)?;
    let build = |_: usize, some: &[Group<'_>]| -> Vec<(BlockNr, Image)> {
        let image = |group: &Group<'_>| (group.block, group.build(&wanted, &bases));
        some.iter().map(image).collect()
    };
    let built = stretches(threads, BLOCKS_PER_THREAD, &groups, build)?;
    Ok(built.into_iter().flatten().collect())
}

fn groups_of(arena: &Arena) -> impl Iterator<Item = Group<'_>> {
    let same = |a: &(BlockNr, Piece), b: &(BlockNr, Piece)| a.0 == b.0;
    let groups = arena.pieces.chunk_by(same);
    groups.map(|pieces| Group {
        block: pieces[0].0,
        pieces,
        bytes: &arena.bytes,
    })
}

impl Group<'_> {
    /// The last whole image and where it stands among the pieces.
    fn whole(&self) -> Option<(usize, &Image)> {
        self.pieces
            .iter()
            .enumerate()
            .rev()
            .find_map(|(i, (_, piece))| match piece {
                Piece::Whole(image) => Some((i, image)),
                Piece::Patch { .. } => None,
            })
    }

    /// `bases` has the images of the blocks `wanted`.
    fn build(&self, wanted: &[BlockNr], bases: &[Image]) -> Image {
        let (patches, base) = match self.whole() {
            Some((at, image)) => (&self.pieces[at + 1..], image.clone()),
            None => {
                let found = wanted.binary_search(&self.block);
                let at = found.expect("every patched block is wanted");
                (self.pieces, bases[at].clone())
            }
        };
        if patches.is_empty() {
            return base;
        }
        let mut image: Image = Image::from(&base[..]);
        let out = Image::get_mut(&mut image).expect("just made, not shared");
        for (_, piece) in patches {
            if let Piece::Patch { offset, start, len } = piece {
                let (offset, len) = (*offset as usize, *len as usize);
                out[offset..offset + len].copy_from_slice(&self.bytes[*start..start + len]);
            }
        }
        image
    }
}
