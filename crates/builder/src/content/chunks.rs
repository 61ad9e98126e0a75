//! Contents of files are cut into chunks of 1 MiB.
//!
//! A chunk begins at a multiple of 1 MiB of its file, wherever the bytes come from. So the digest
//! of a file and its holes follow from its bytes alone.

use std::borrow::Cow;
use std::hash::Hasher;
use std::ops::Range;

use siphasher::sip::SipHasher13;
use uext4_num::{clamp_usize, u64_of};

/// Bytes of a chunk, and about those of a batch.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;

/// The ranges with whole clusters, of a chunk of this many blocks: a cluster has no holes.
pub(crate) fn whole_clusters(
    data: &[Range<u32>],
    cluster: u32,
    blocks: u32,
) -> Cow<'_, [Range<u32>]> {
    if cluster == 1 {
        return data.into();
    }
    let mut runs: Vec<Range<u32>> = Vec::with_capacity(data.len());
    for range in data {
        let start = range.start / cluster * cluster;
        let end = range.end.next_multiple_of(cluster).min(blocks);
        match runs.last_mut() {
            Some(last) if last.end >= start => last.end = end,
            _ => runs.push(start..end),
        }
    }
    runs.into()
}

/// The digest of a file after a chunk with data.
pub(crate) fn digest(so_far: u64, offset: u64, crc: u64) -> u64 {
    let mut hasher = SipHasher13::new();
    for number in [so_far, offset, crc] {
        hasher.write_u64(number);
    }
    hasher.finish()
}

/// The chunk at `offset`: its length in a file of this size.
pub(crate) fn chunk_len(offset: u64, size: u64) -> usize {
    clamp_usize(size.saturating_sub(offset).min(CHUNK_BYTES))
}

/// The part of a range of the file that a chunk has, as a range of the chunk.
pub(crate) fn overlap(range: &Range<u64>, offset: u64, len: usize) -> Option<Range<usize>> {
    let start = range.start.max(offset);
    let end = range.end.min(offset + u64_of(len));
    (start < end).then(|| clamp_usize(start - offset)..clamp_usize(end - offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_have_no_holes() {
        let data = [1..2, 6..9, 13..14];
        assert_eq!(*whole_clusters(&data, 1, 14), data);
        assert_eq!(*whole_clusters(&data, 2, 14), [0..2, 6..10, 12..14]);
        let data = [1..2, 3..4, 21..22];
        assert_eq!(*whole_clusters(&data, 4, 22), [0..4, 20..22]);
    }

    #[test]
    fn overlaps_are_counted_from_the_piece() {
        assert_eq!(overlap(&(10..20), 0, 15), Some(10..15));
        assert_eq!(overlap(&(10..20), 12, 3), Some(0..3));
        assert_eq!(overlap(&(10..20), 20, 3), None);
    }
}
