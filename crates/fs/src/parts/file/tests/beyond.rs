//! Preallocation behind the end: a commit never contains written extents behind the size.

use super::*;
use crate::parts::map::{self, ExtentState};
use std::ops::ControlFlow;

const KIB: u64 = 1 << 10;

/// The last written extent ends inside the last block of the size on disk.
pub(super) fn check_size_on_disk(rig: &Rig) {
    let state = rig.file.read();
    if inline::is_inline(&state) {
        return;
    }
    let size = state.size_on_disk();
    let mut end = 0;
    map::for_each(rig.fs(), &state, 0..map::LOGICAL_END, |mapped| {
        if mapped.state == ExtentState::Written {
            end = u64::from(mapped.logical.0) + u64::from(mapped.len_blocks);
        }
        ControlFlow::Continue(())
    })
    .expect("a map");
    let size_blocks = io::blocks_for(rig.fs(), size);
    assert!(
        end <= size_blocks,
        "blocks are written up to {end}, and the size on disk is {size_blocks} blocks"
    );
}

/// Commits, crashes, recovers, and runs e2fsck. Returns the content of the file.
fn crash(rig: &Rig) -> Vec<u8> {
    rig.fs().base.journal.commit_running().expect("commits");
    let crashed = Rig::mount(Arc::new(rig.device.snapshot()));
    let mut data = vec![0xEE; 4 << 20];
    let len = read(crashed.fs(), &crashed.file, 0, &mut data).expect("reads");
    data.truncate(len);
    crashed.assert_clean();
    data
}

#[test]
fn a_write_over_a_hole_and_held_space_keeps_the_size_in_front() {
    let clustered = ["-b", "1024", "-O", "bigalloc", "-C", "8192"];
    let options = [
        &["-b", "1024"][..],
        &["-b", "4096", "-O", "inline_data"],
        &clustered,
    ];
    for made_with in options {
        let rig = Rig::delayed(24, made_with, 1 << 20);
        let (fs, file) = (rig.fs(), rig.file.arc());
        write(fs, file, 0, &[1; 40]).expect("writes");
        fallocate(fs, file, FallocateMode::AllocateKeepSize, 28 * KIB, 4 * KIB).expect("holds");
        write(fs, file, 4 * KIB, &[2; 28 << 10]).expect("writes over both");
        check_size_on_disk(&rig);
        let found = crash(&rig);
        assert!(
            found.len() == 40 || found.len() == 32 << 10,
            "{}",
            found.len()
        );
        write_out(fs, file).expect("writes out");
        assert_eq!(crash(&rig).len(), 32 << 10);
        rig.assert_clean();
    }
}

/// No tree block is left to split the preallocated extent: the part behind the end stays unwritten.
#[test]
fn a_full_device_writes_no_held_space_behind_the_end() {
    let rig = Rig::new(8, &["-b", "1024", "-m", "0"]);
    let (fs, file) = (rig.fs(), rig.file.arc());
    fallocate(fs, file, FallocateMode::AllocateKeepSize, 0, 2 << 20).expect("holds");
    let taken = rig.take_all();
    let mut model = Vec::new();
    for block in (1..400u64).step_by(2) {
        write(fs, file, block << 10, &[9; 1000]).expect("the space is there");
        put(&mut model, block << 10, &[9; 1000]);
        check_size_on_disk(&rig);
        if block % 133 == 0 {
            assert_eq!(crash(&rig), model);
        }
    }
    compare(&rig, &model);
    let held = fiemap(fs, file, 0, u64::MAX).expect("extents");
    let held: u64 = held.iter().map(|extent| extent.len_bytes).sum();
    assert!(held > 2000 << 10, "{held} bytes are left of the held space");
    rig.give_all(taken);
    rig.assert_clean();
}
