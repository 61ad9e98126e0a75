//! Collapse and insert of ranges in one transaction.

use super::*;
use uext4_journal::Object;

/// Handles that the operation takes, the last of them for the times.
fn handles(rig: &Rig, mode: FallocateMode, at: u64, len: u64) -> u64 {
    let before = rig.fs().base.journal.stats().handles;
    fallocate(rig.fs(), rig.file.arc(), mode, at, len).expect("moves");
    rig.fs().base.journal.stats().handles - before
}

/// With one handle, no crash can leave a part of the shift.
#[test]
fn a_range_is_moved_under_one_handle() {
    // One leaf in the inode; several leaves below one node.
    for blocks in [4, 600u64] {
        let rig = Rig::new(32, &["-b", "1024"]);
        let (fs, file) = (rig.fs(), rig.file.arc());
        let mut model = Vec::new();
        for block in (0..blocks).step_by(if blocks == 4 { 1 } else { 2 }) {
            let data = pattern(block << 10, 1024, block as u8);
            write(fs, file, block << 10, &data).expect("writes");
            put(&mut model, block << 10, &data);
        }
        for (mode, at, len) in [
            (FallocateMode::CollapseRange, 1 << 10, 1 << 10),
            (FallocateMode::InsertRange, 2 << 10, 5 << 10),
            (FallocateMode::CollapseRange, 1 << 10, 4 << 10),
        ] {
            assert_eq!(handles(&rig, mode, at, len), 2, "{mode:?} of {blocks}");
            model_fallocate(&mut model, mode, at, len);
            compare(&rig, &model);
        }
        rig.assert_clean();
    }
}

/// The format permits a larger `i_size` than the map of a file can reach.
#[test]
fn a_file_that_is_too_large_takes_no_range() {
    let rig = Rig::new(8, &["-b", "1024"]);
    let (fs, file) = (rig.fs(), rig.file.arc());
    file.live().write_unlogged().disk.size = i64::MAX.cast_unsigned();
    let inserted = fallocate(fs, file, FallocateMode::InsertRange, 0, 1024);
    assert!(matches!(inserted, Err(Error::TooLarge)), "{inserted:?}");
}
