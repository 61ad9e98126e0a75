//! Block tables on a file system above 2^32 blocks, whose other files have extents.

use super::*;
use crate::ops::filesystem::Filesystem;
use crate::types::attr::Caller;
use crate::types::options::{Allocator, MountOptions, Threads};
use uext4_device::MemDevice;
use uext4_format::InodeNr;
use uext4_mkfs::{InodeCount, MkfsOptions, Preset};
use uext4_sync::Arc;

/// Tables store block numbers of 32 bits.
const END: u64 = 1 << 32;
/// Blocks of a flexible group, the last one before the end.
const FLEX_BLOCKS: u64 = 16 << 15;

fn mount_17_tib() -> Filesystem {
    let device = Arc::new(MemDevice::new(17 << 40));
    let options = MkfsOptions {
        inodes: InodeCount::BytesPerInode(1 << 26),
        ..MkfsOptions::new(Preset::Ext4)
    };
    uext4_mkfs::format(&*device, &options).expect("formats");
    let options = MountOptions {
        threads: Threads::Inline,
        allocator: Allocator::Linear,
        ..MountOptions::default()
    };
    Filesystem::mount(device, options).expect("mounts")
}

/// Reserves blocks near `goal`, before the end of tables.
fn reserve_at(fs: &Fs, inode: InodeNr, goal: u64, len_blocks: u32) -> BlockRun {
    let want = Want {
        goal: Some(BlockNr(goal)),
        len_blocks,
        min_blocks: 1,
        inode,
        purpose: Purpose::Data,
        reserve: Reserve::MayUse,
        end: Some(BlockNr(END)),
    };
    fs.space.reserve(&fs.base, &want).expect("space")
}

#[test]
fn a_table_gets_a_block_that_tables_can_store() {
    let mounted = mount_17_tib();
    let fs = &mounted.fs;
    let root = mounted.root().expect("the root");
    let file = mounted.create(&root, b"file", 0o644, &Caller::root());
    let file = file.expect("a file");
    let run = reserve_at(fs, file.nr(), END - 1, 1);
    assert_eq!(run.start.0, END - 1);
    // A search forward from there finds the next free block behind the end.
    let first = END - FLEX_BLOCKS;
    let mut taken = Vec::new();
    // A search takes a run of the wanted length elsewhere before it takes a shorter one.
    for len_blocks in [1 << 15, 1 << 10, 1 << 5, 1] {
        let mut is_inside = true;
        while is_inside {
            let run = reserve_at(fs, file.nr(), first, len_blocks);
            is_inside = run.start.0 >= first;
            taken.push(run);
        }
    }
    {
        let handle = fs.start(credits::MAP).expect("a handle");
        fs.space.commit(&fs.base, &handle, run).expect("commits");
        let mut state = handle.write(file.arc());
        state.disk.flags.remove(InodeFlags::EXTENTS);
        state.disk.i_block.fill(0);
        // Behind the direct blocks.
        let at = LogicalBlock(20);
        let mapped = insert(fs, &handle, &mut state, at, run, ExtentState::Written);
        mapped.expect("a lower block is free for the table");
        assert_eq!(block_of(fs, &state, at).expect("a map"), Some(run.start));
        let tables = indirect::tables(fs, &state, 9).expect("a map");
        let tables = tables.expect("few tables");
        assert_eq!(tables.len(), 1);
        assert!(tables[0].0 < END, "{tables:?}");
    }
    for run in taken {
        fs.space.unreserve(run);
    }
}
