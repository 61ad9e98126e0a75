//! A truncate of several transactions.

use super::*;
use crate::parts::file::truncate::{finish_truncate, track};
use crate::types::credits;

/// A fast commit between two steps would record the new size without the rest of the cut.
#[test]
fn a_truncate_of_several_steps_takes_full_commits() {
    let rig = Rig::new(8, &["-O", "fast_commit"]);
    let (fs, file) = (&rig.mounted.fs, rig.file.arc());
    write(fs, file, 0, &[7; 9000]).unwrap();
    rig.mounted.sync().unwrap();
    let full = || rig.mounted.stats().full_commits["orphan"];
    let before = full();
    {
        let handle = fs.start_recorded(credits::TRUNCATE).unwrap();
        track(fs, &handle, file).unwrap();
    }
    rig.mounted.fsync(&rig.file).unwrap();
    assert_eq!(full(), before + 1);
    finish_truncate(fs, file).unwrap();
}
