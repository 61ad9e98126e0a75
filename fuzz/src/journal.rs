//! Blocks of the journal, and fast commits.

use uext4_format::Tid;
use uext4_format::fast_commit::{Scan, Verdict};
use uext4_format::jbd2::{ChecksumKind, CommitBlock, Header, Layout, Revoked, Superblock, Tags};

const BLOCK_BYTES: usize = 1024;

/// The superblock: a sound one keeps its numbers when it is written.
pub fn superblock(data: &[u8]) {
    if let Ok(superblock) = Superblock::parse(data) {
        let again = Superblock::parse(&superblock.encode()).expect("it was encoded");
        assert_eq!(
            (again.first, again.end()),
            (superblock.first, superblock.end())
        );
        let _ = (
            superblock.layout(),
            superblock.fast_commit_area(),
            superblock.users(),
        );
    }
}

/// A descriptor, revoke or commit block, with each kind of checksums and width of numbers.
pub fn block(data: &[u8]) {
    let _ = Header::parse(data);
    let kinds = [
        ChecksumKind::None,
        ChecksumKind::V1,
        ChecksumKind::V2,
        ChecksumKind::V3,
    ];
    for (checksums, wide) in kinds
        .into_iter()
        .flat_map(|kind| [(kind, false), (kind, true)])
    {
        let layout = Layout::new(BLOCK_BYTES, checksums, wide, &[7; 16]);
        let tags = Tags::new(&layout, data).count();
        assert!(tags * layout.tag_bytes() <= data.len());
        if let Ok(revoked) = Revoked::parse(&layout, data, 3) {
            assert!(revoked.iter().count() * layout.revoke_entry_bytes() <= data.len());
        }
        let _ = (CommitBlock::verify(&layout, data), layout.verify_seal(data));
        let _ = CommitBlock::parse(data).matches_v1(5);
    }
}

/// An area of fast commits.
pub fn fast_commits(data: &[u8]) {
    let mut scan = Scan::new(Tid(5), 256);
    for block in data.chunks(BLOCK_BYTES) {
        if scan.push(block) == Verdict::Ends {
            break;
        }
    }
    let commits = scan.commits();
    assert!(commits > 0 || scan.into_records().is_empty());
}
