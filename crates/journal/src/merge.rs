//! Rendered pieces to block images: runs on the committing side, with no lock held.

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

/// Merges pieces into one image per block, ascending by block. `bases` gives the present images
/// of the (ascending) blocks that are only patched.
pub(crate) fn merge(
    mut arenas: Vec<Arena>,
    bases: Bases<'_>,
) -> Result<Vec<(BlockNr, Image)>, Error> {
    for arena in &mut arenas {
        arena.pieces.sort_by_key(|(block, _)| *block); // stable: keeps the order of emission
    }
    let mut groups: Vec<Group<'_>> = arenas.iter().flat_map(groups_of).collect();
    groups.sort_unstable_by_key(|group| group.block);
    let patched = groups.iter().filter(|group| group.whole().is_none());
    let wanted: Vec<BlockNr> = patched.map(|group| group.block).collect();
    let mut bases = bases(&wanted)?.into_iter();
    Ok(groups
        .iter()
        .map(|group| (group.block, group.build(&mut bases)))
        .collect())
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

    fn build(&self, bases: &mut dyn Iterator<Item = Image>) -> Image {
        let (patches, base) = match self.whole() {
            Some((at, image)) => (&self.pieces[at + 1..], image.clone()),
            None => (
                self.pieces,
                bases.next().expect("one base per patched block"),
            ),
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
