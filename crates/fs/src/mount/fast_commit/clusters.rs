//! Clusters that several pieces of one file share (feature bigalloc).
//!
//! A record maps blocks, but space is allocated in clusters. A piece that begins or ends inside a
//! cluster shares it with blocks that the file maps already, or with another record's piece.

use super::ranges::Piece;
use crate::state::engine::Fs;
use crate::types::error::{Error, Result};
use std::collections::BTreeMap;
use uext4_format::{BlockNr, BlockRun};

/// Splits a mapped piece into the parts inside partial clusters at its ends, and the part between.
pub(super) fn split(piece: Piece, ratio: u64) -> impl Iterator<Item = Piece> {
    let first_border = piece.start.next_multiple_of(ratio).min(piece.end);
    let last_border = (piece.end - piece.end % ratio).max(first_border);
    let borders = [piece.start, first_border, last_border, piece.end];
    (0..borders.len() - 1)
        .map(move |at| (borders[at], borders[at + 1]))
        .filter(|(start, end)| start < end)
        .map(move |(start, end)| piece.part(start, end))
}

/// Whether the piece consists of whole clusters.
pub(super) fn is_whole(piece: &Piece, ratio: u64) -> bool {
    piece.start.is_multiple_of(ratio) && piece.end.is_multiple_of(ratio)
}

/// Partially mapped clusters, by their first block.
#[derive(Default)]
pub(super) struct Shared {
    clusters: BTreeMap<u64, Cluster>,
}

struct Cluster {
    /// The reserved runs; `None` while the cluster is in use.
    reserved: Option<Vec<BlockRun>>,
}

impl Shared {
    /// Adds the cluster around `block`, a part of which is to be mapped.
    pub(super) fn add(&mut self, fs: &Fs, block: BlockNr) {
        let cluster = Cluster { reserved: None };
        self.clusters
            .entry(first_block(fs, block))
            .or_insert(cluster);
    }

    /// Reserves the clusters that are free and not reserved yet.
    pub(super) fn reserve(&mut self, fs: &Fs) -> Result<()> {
        for (start, cluster) in &mut self.clusters {
            let Some(cluster) = Some(cluster).filter(|cluster| cluster.reserved.is_none()) else {
                continue;
            };
            let run = BlockRun {
                start: BlockNr(*start),
                len_blocks: fs.base.geometry.blocks_per_cluster(),
            };
            match fs.space.reserve_exactly(&fs.base, run) {
                Ok(pieces) => cluster.reserved = Some(pieces),
                Err(Error::NoSpace) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the reserved runs of the cluster around `block`, for the commit; once.
    pub(super) fn take(&mut self, fs: &Fs, block: BlockNr) -> Option<Vec<BlockRun>> {
        let cluster = self.clusters.get_mut(&first_block(fs, block))?;
        cluster.reserved.take()
    }
}

fn first_block(fs: &Fs, block: BlockNr) -> u64 {
    block.0 - block.0 % u64::from(fs.base.geometry.blocks_per_cluster())
}

#[cfg(test)]
mod tests {
    use super::super::ranges::Target;
    use super::*;
    use crate::parts::map::ExtentState;

    fn parts(start: u64, end: u64) -> Vec<(u64, u64, u64)> {
        let target = Some(Target {
            start: BlockNr(1000 + start),
            state: ExtentState::Written,
        });
        split(Piece { start, end, target }, 16)
            .map(|part| (part.start, part.end, part.target.unwrap().start.0))
            .collect()
    }

    #[test]
    fn pieces_are_cut_at_their_outer_clusters() {
        assert_eq!(parts(16, 48), [(16, 48, 1016)]);
        assert_eq!(
            parts(3, 50),
            [(3, 16, 1003), (16, 48, 1016), (48, 50, 1048)]
        );
        assert_eq!(parts(3, 16), [(3, 16, 1003)]);
        assert_eq!(parts(3, 9), [(3, 9, 1003)]);
        assert_eq!(parts(15, 17), [(15, 16, 1015), (16, 17, 1016)]);
        assert_eq!(parts(16, 20), [(16, 20, 1016)]);
    }
}
