//! Model test: files against a vector of bytes, on every kind of map, checked by e2fsck.

mod beyond;
mod limits;
mod shift;
mod steps;

use super::*;
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::test_rig::{Rig, proptest_config};
use crate::types::error::{Error, Result};
use proptest::prelude::*;
use std::sync::Arc;
use uext4_testkit::wait;

fn write(fs: &Fs, file: &Arc<Inode>, at: u64, data: &[u8]) -> Result<usize> {
    let written = super::write(fs, file, Position::Offset(at), data, WritePolicy::INTERNAL)?;
    Ok(written.len_bytes)
}

fn append(fs: &Fs, file: &Arc<Inode>, data: &[u8]) -> Result<(u64, usize)> {
    let written = super::write(fs, file, Position::End, data, WritePolicy::INTERNAL)?;
    Ok((written.offset, written.len_bytes))
}

fn fallocate(fs: &Fs, file: &Arc<Inode>, mode: FallocateMode, at: u64, len: u64) -> Result<()> {
    let bytes = at..at.saturating_add(len);
    super::fallocate(fs, file, mode, bytes, WritePolicy::INTERNAL)
}

/// Largest size that the model tries, in bytes.
const SIZE_MAX: u64 = 3 << 20;

#[derive(Clone, Debug)]
enum Step {
    Write {
        at: u64,
        len: usize,
        byte: u8,
    },
    Append {
        len: usize,
        byte: u8,
    },
    Truncate {
        size: u64,
    },
    Fallocate {
        mode: FallocateMode,
        at: u64,
        len: u64,
    },
    Remount,
}

fn steps(size_max: u64, count: usize) -> impl Strategy<Value = Vec<Step>> {
    let offset = prop_oneof![
        0..size_max,
        0..size_max.div_ceil(16),
        (0..size_max.div_ceil(4096)).prop_map(|b| b * 4096)
    ];
    let len = prop_oneof![
        1usize..200,
        1usize..20_000,
        (1usize..16).prop_map(|b| b * 4096)
    ];
    let mode = prop_oneof![
        Just(FallocateMode::Allocate),
        Just(FallocateMode::AllocateKeepSize),
        Just(FallocateMode::PunchHole),
        Just(FallocateMode::PunchHole),
        Just(FallocateMode::ZeroRange),
        Just(FallocateMode::ZeroRangeKeepSize),
        Just(FallocateMode::WriteZeroes),
        Just(FallocateMode::CollapseRange),
        Just(FallocateMode::InsertRange),
    ];
    let step = prop_oneof![
        8 => (offset.clone(), len.clone(), 1u8..)
            .prop_map(|(at, len, byte)| Step::Write { at, len, byte }),
        2 => (len, 1u8..).prop_map(|(len, byte)| Step::Append { len, byte }),
        2 => offset.clone().prop_map(|size| Step::Truncate { size }),
        4 => (mode, offset, 1..size_max / 4)
            .prop_map(|(mode, at, len)| Step::Fallocate { mode, at, len }),
        1 => Just(Step::Remount),
    ];
    prop::collection::vec(step, 1..count)
}

/// Data that encode where they were written.
fn pattern(at: u64, len: usize, byte: u8) -> Vec<u8> {
    (0..len)
        .map(|index| byte ^ ((at as usize + index) / 512) as u8 | 1)
        .collect()
}

fn put(model: &mut Vec<u8>, at: u64, data: &[u8]) {
    let at = at as usize;
    model.resize(model.len().max(at + data.len()), 0);
    model[at..at + data.len()].copy_from_slice(data);
}

fn model_fallocate(model: &mut Vec<u8>, mode: FallocateMode, at: u64, len: u64) {
    let (at, end) = (at as usize, (at + len) as usize);
    match mode {
        FallocateMode::CollapseRange => return drop(model.drain(at..end)),
        FallocateMode::InsertRange => {
            return drop(model.splice(at..at, std::iter::repeat_n(0, end - at)));
        }
        _ => {}
    }
    let grows = [
        FallocateMode::Allocate,
        FallocateMode::ZeroRange,
        FallocateMode::WriteZeroes,
    ];
    if grows.contains(&mode) {
        model.resize(model.len().max(end), 0);
    }
    if !matches!(
        mode,
        FallocateMode::Allocate | FallocateMode::AllocateKeepSize
    ) {
        let (from, to) = (at.min(model.len()), end.min(model.len()));
        model[from..to].fill(0);
    }
}

fn apply_fallocate(rig: &Rig, model: &mut Vec<u8>, mode: FallocateMode, at: u64, len: u64) {
    let (fs, file) = (rig.fs(), rig.file.arc());
    let (mut at, mut len, size) = (at, len, model.len() as u64);
    let shifts = matches!(
        mode,
        FallocateMode::CollapseRange | FallocateMode::InsertRange
    );
    if shifts {
        let cluster = u64::from(fs.base.geometry.blocks_per_cluster()) * fs.block_size() as u64;
        (at, len) = (at - at % cluster, len.next_multiple_of(cluster));
    }
    let inside = match mode {
        FallocateMode::CollapseRange => at + len < size,
        FallocateMode::InsertRange => at < size && size + len < 4 * SIZE_MAX,
        _ => true,
    };
    if mode == FallocateMode::InsertRange && at < size && !inside {
        return;
    }
    match fallocate(fs, file, mode, at, len) {
        Ok(()) => {
            assert!(inside, "{mode:?} outside of the file");
            model_fallocate(model, mode, at, len);
        }
        Err(Error::NotSupported(_)) => assert!(!crate::parts::map::has_extents(&file.read())),
        Err(Error::Invalid(_)) if !inside => {}
        Err(error) => panic!("{mode:?}: {error}"),
    }
}

fn apply(rig: &Rig, model: &mut Vec<u8>, step: &Step) {
    let (fs, file) = (rig.fs(), rig.file.arc());
    match *step {
        Step::Write { at, len, byte } => {
            let data = pattern(at, len, byte);
            assert_eq!(write(fs, file, at, &data).expect("writes"), len);
            put(model, at, &data);
        }
        Step::Append { len, byte } => {
            let at = model.len() as u64;
            let data = pattern(at, len, byte);
            assert_eq!(append(fs, file, &data).expect("appends"), (at, len));
            put(model, at, &data);
        }
        Step::Truncate { size } => {
            truncate(fs, file, size).expect("truncates");
            model.resize(size as usize, 0);
        }
        Step::Fallocate { mode, at, len } => apply_fallocate(rig, model, mode, at, len),
        Step::Remount => {}
    }
}

fn compare(rig: &Rig, model: &[u8]) {
    let mut found = vec![0xEE; model.len() + 100];
    let len = read(rig.fs(), &rig.file, 0, &mut found).expect("reads");
    assert_eq!(len, model.len());
    if let Some(at) = (0..len).find(|&at| found[at] != model[at]) {
        panic!(
            "byte {at} of {len} is {:#x} and should be {:#x}",
            found[at], model[at]
        );
    }
    assert_eq!(rig.file.read().disk.size, model.len() as u64);
    check_claims(rig);
    check_seek(rig, model);
    beyond::check_size_on_disk(rig);
}

/// Exactly the delayed data are reserved.
fn check_claims(rig: &Rig) {
    let (fs, buffer) = (rig.fs(), rig.file.io.read());
    let space = rig.mounted.stats().space;
    assert_eq!(space.delayed_clusters, buffer.claimed_clusters());
    assert_eq!(space.delayed_tree_clusters, buffer.tree_claims);
    let bytes = buffer.len_blocks() << fs.base.geometry.block_bits;
    assert_eq!(space.delayed_bytes, bytes);
    assert!(bytes <= rig.bound() + (1 << 20));
    assert_eq!(buffer.is_empty(), fs.delayed.is_empty());
    let groups = rig.mounted.group_stats();
    let in_groups: u64 = groups.map(|group| u64::from(group.free_clusters)).sum();
    let held = space.preallocated_clusters;
    let unclaimed = space.free_clusters + space.delayed_clusters;
    assert_eq!(in_groups + held, unclaimed);
}

/// Holes read as zeroes, and data are found.
fn check_seek(rig: &Rig, model: &[u8]) {
    let mut at = 0;
    while let Ok(data) = seek(rig.fs(), &rig.file, at, Seek::Data) {
        assert!(
            model[at as usize..data as usize]
                .iter()
                .all(|byte| *byte == 0),
            "data in a hole"
        );
        at = seek(rig.fs(), &rig.file, data, Seek::Hole).expect("the end is a hole");
        assert!(at > data);
    }
    assert!(
        model[at as usize..].iter().all(|byte| *byte == 0),
        "data behind the last"
    );
}

fn run(rig: Rig, steps: &[Step]) {
    let mut rig = rig;
    let mut model = Vec::new();
    for step in steps {
        apply(&rig, &mut model, step);
        if matches!(step, Step::Remount) {
            rig = rig.remount();
        }
        compare(&rig, &model);
    }
    rig.assert_clean();
}

macro_rules! model_tests {
    ($($name:ident: $size:expr, $options:expr;)*) => {
        proptest! {
            #![proptest_config(proptest_config(6))]
            $(#[test] fn $name(steps in steps($size, 40)) {
                run(Rig::new(24, $options), &steps);
                let memory = [50_000, 0, 1 << 30][steps.len() % 3];
                run(Rig::delayed(24, $options, memory), &steps);
            })*
        }
    };
}

model_tests! {
    extents_1k: SIZE_MAX, &["-b", "1024"];
    extents_4k: SIZE_MAX, &["-b", "4096"];
    extents_64k: SIZE_MAX, &["-b", "65536"];
    without_journal: SIZE_MAX, &["-b", "4096", "-O", "^has_journal"];
    tables_1k: SIZE_MAX, &["-b", "1024", "-O", "^extent,^64bit,^metadata_csum"];
    tables_4k: SIZE_MAX, &["-b", "4096", "-O", "^extent,^64bit"];
    inline_small: 300, &["-b", "1024", "-O", "inline_data", "-I", "512"];
    inline_large: 20_000, &["-b", "4096", "-O", "inline_data"];
    clusters: SIZE_MAX, &["-b", "1024", "-O", "bigalloc", "-C", "8192"];
}

#[test]
fn a_full_device_gives_short_writes_and_takes_them_back() {
    let rig = Rig::new(8, &["-b", "1024", "-m", "0"]);
    let data = vec![7u8; 16 << 20];
    let (fs, file) = (rig.fs(), rig.file.arc());
    let written = write(fs, file, 0, &data).expect("some fits");
    assert!(written > 1 << 20 && written < data.len());
    assert!(matches!(
        write(fs, file, written as u64, &data[..4096]),
        Err(Error::NoSpace)
    ));
    let mut model = data[..written].to_vec();
    compare(&rig, &model);
    truncate(fs, file, 10).expect("truncates");
    model.truncate(10);
    assert_eq!(
        write(fs, file, 10, &data[..1 << 20]).expect("space is back"),
        1 << 20
    );
    put(&mut model, 10, &data[..1 << 20]);
    compare(&rig, &model);
    rig.assert_clean();
}

#[test]
fn the_largest_size_is_the_formats() {
    let rig = Rig::new(8, &["-b", "1024"]);
    let (fs, file) = (rig.fs(), rig.file.arc());
    let end = 0xFFFF_FFFFu64 << 10;
    assert!(matches!(truncate(fs, file, end + 1), Err(Error::TooLarge)));
    truncate(fs, file, end).expect("the largest size");
    assert_eq!(
        write(fs, file, end - 3, b"abcdef").expect("a short write"),
        3
    );
    assert!(matches!(write(fs, file, end, b"x"), Err(Error::TooLarge)));
    let mut buf = [0; 8];
    assert_eq!(read(fs, &rig.file, end - 5, &mut buf).expect("reads"), 5);
    assert_eq!(&buf[..5], b"\0\0abc");
    assert_eq!(
        seek(fs, &rig.file, 5, Seek::Data).expect("data"),
        end - 1024
    );
    rig.assert_clean();
}

#[test]
fn tables_end_where_three_levels_end() {
    let rig = Rig::new(8, &["-b", "1024", "-O", "^extent,^64bit,^metadata_csum"]);
    let (fs, file) = (rig.fs(), rig.file.arc());
    let end = (12 + 256 + 256 * 256 + 256 * 256 * 256u64) << 10;
    assert!(matches!(write(fs, file, end, b"x"), Err(Error::TooLarge)));
    let last = crate::parts::map::size_end_bytes(fs, &file.read()) - 1;
    assert_eq!(write(fs, file, last, b"x").expect("the last byte"), 1);
    assert_eq!(
        file.read().disk.sectors(&fs.base.geometry),
        2 * 4,
        "a block and three tables"
    );
    truncate(fs, file, 0).expect("truncates");
    assert_eq!(file.read().disk.sectors(&fs.base.geometry), 0);
    rig.assert_clean();
}

#[test]
fn many_extents_move_over_several_leaves() {
    let rig = Rig::new(32, &["-b", "1024"]);
    let (fs, file) = (rig.fs(), rig.file.arc());
    let mut model = Vec::new();
    // Every other block: hundreds of extents in a tree of depth two.
    for block in (0..4000u64).step_by(2) {
        let data = pattern(block << 10, 1024, block as u8);
        write(fs, file, block << 10, &data).expect("writes");
        put(&mut model, block << 10, &data);
    }
    for (mode, at, len) in [
        (FallocateMode::CollapseRange, 700, 301),
        (FallocateMode::InsertRange, 1, 5),
        (FallocateMode::InsertRange, 2000, 10_000),
        (FallocateMode::CollapseRange, 0, 1),
        (FallocateMode::CollapseRange, 1500, 10_700),
        (FallocateMode::WriteZeroes, 100, 50),
    ] {
        apply_fallocate(&rig, &mut model, mode, at << 10, len << 10);
        compare(&rig, &model);
    }
    let rig = rig.remount();
    compare(&rig, &model);
    rig.assert_clean();
}

#[test]
fn ranges_move_by_the_rules_of_linux() {
    let rig = Rig::new(8, &["-b", "1024"]);
    let (fs, file) = (rig.fs(), rig.file.arc());
    write(fs, file, 0, &[1; 10_000]).expect("writes");
    let refused =
        |mode, at, len| matches!(fallocate(fs, file, mode, at, len), Err(Error::Invalid(_)));
    assert!(
        refused(FallocateMode::CollapseRange, 512, 1024),
        "not aligned"
    );
    assert!(
        refused(FallocateMode::CollapseRange, 1024, 1000),
        "not aligned"
    );
    assert!(
        refused(FallocateMode::CollapseRange, 8192, 2048),
        "reaches the end"
    );
    assert!(
        refused(FallocateMode::InsertRange, 10_240, 1024),
        "behind the end"
    );
    assert!(matches!(
        fallocate(
            fs,
            file,
            FallocateMode::InsertRange,
            1024,
            (1 << 42) - 10_240
        ),
        Err(Error::TooLarge)
    ));
    fallocate(
        fs,
        file,
        FallocateMode::AllocateKeepSize,
        (1 << 42) - 2048,
        1024,
    )
    .expect("far behind");
    assert!(
        refused(FallocateMode::InsertRange, 1024, 4096),
        "space would leave the file"
    );
    compare(&rig, &[1; 10_000]);
    fallocate(fs, file, FallocateMode::WriteZeroes, 0, 20_000).expect("writes zeroes");
    let extents = fiemap(fs, file, 0, 20_480).expect("extents");
    assert!(
        extents
            .iter()
            .all(|extent| extent.flags & Extent::UNWRITTEN == 0)
    );
    rig.assert_clean();
}

#[test]
fn allocated_space_is_zero_and_counts_as_a_hole() {
    let rig = Rig::new(8, &["-b", "1024"]);
    let (fs, file) = (rig.fs(), rig.file.arc());
    fallocate(fs, file, FallocateMode::Allocate, 0, 100 << 10).expect("allocates");
    let extents = fiemap(fs, file, 0, u64::MAX).expect("extents");
    assert_eq!(
        extents.iter().map(|extent| extent.len_bytes).sum::<u64>(),
        100 << 10
    );
    assert!(
        extents
            .iter()
            .all(|extent| extent.flags & Extent::UNWRITTEN != 0)
    );
    assert!(matches!(
        seek(fs, file, 0, Seek::Data),
        Err(Error::NoOffset)
    ));
    write(fs, file, 50 << 10, b"data").expect("writes");
    assert_eq!(seek(fs, file, 0, Seek::Data).expect("data"), 50 << 10);
    let extents = fiemap(fs, file, 0, u64::MAX).expect("extents");
    let written = extents
        .iter()
        .filter(|extent| extent.flags & Extent::UNWRITTEN == 0);
    assert_eq!(
        written.map(|extent| extent.len_bytes).collect::<Vec<_>>(),
        [1024]
    );
    assert_eq!(
        extents.last().expect("extents").flags & Extent::LAST,
        Extent::LAST
    );
    rig.assert_clean();
}

#[test]
fn space_allocated_before_can_be_written_when_the_device_is_full() {
    let rig = Rig::new(8, &["-b", "1024", "-m", "0"]);
    let (fs, file) = (rig.fs(), rig.file.arc());
    fallocate(fs, file, FallocateMode::Allocate, 0, 2 << 20).expect("allocates");
    let taken = rig.take_all();
    let mut model = vec![0u8; 2 << 20];
    // Every other block: the extents cannot be split, because no tree block is left.
    for block in (1..2048u64).step_by(2) {
        write(fs, file, block << 10, &[9; 1000]).expect("the space is there");
        put(&mut model, block << 10, &[9; 1000]);
    }
    compare(&rig, &model);
    rig.give_all(taken);
    rig.assert_clean();
}

#[test]
fn changes_within_a_tick_share_a_time() {
    let rig = Rig::new(8, &["-b", "1024"]);
    let (fs, file) = (rig.fs(), rig.file.arc());
    write(fs, file, 0, b"a").expect("writes");
    let mtime = file.read().disk.mtime;
    assert_eq!(mtime, file.read().disk.ctime);
    wait::clock_tick();
    write(fs, file, 0, b"b").expect("writes");
    assert!(file.read().disk.mtime > mtime);
    rig.assert_clean();
}

/// A cache above sets the times itself, perhaps before the data arrive.
#[test]
fn data_of_a_cache_keep_the_times() {
    for options in [&["-b", "1024"][..], &["-b", "1024", "-O", "inline_data"]] {
        let rig = Rig::new(8, options);
        let (fs, file) = (rig.fs(), rig.file.arc());
        write(fs, file, 0, b"a").expect("writes");
        let times = || {
            let state = file.read();
            (state.disk.mtime, state.disk.ctime)
        };
        let before = times();
        wait::clock_tick();
        for offset in [0, 20, 5000] {
            let policy = WritePolicy {
                times: Times::Keep,
                ..WritePolicy::INTERNAL
            };
            super::write(fs, file, Position::Offset(offset), b"b", policy).expect("writes");
        }
        super::write_out(fs, file).expect("writes");
        assert_eq!(times(), before, "{options:?}");
        write(fs, file, 5000, b"c").expect("writes");
        assert!(times() > before, "{options:?}");
        rig.assert_clean();
    }
}

/// A truncate of many extents, stopped by a crash between two of its transactions.
#[test]
fn recovery_finishes_a_truncate() {
    for options in [
        &["-b", "1024"][..],
        &["-b", "1024", "-O", "^extent,^64bit,^metadata_csum"],
    ] {
        let rig = Rig::new(32, options);
        let (fs, file) = (rig.fs(), rig.file.arc());
        for block in 0..3000u64 {
            write(fs, file, block * 2048, &[block as u8 | 1; 1024]).expect("writes");
        }
        // Blocks that are in the transaction already cost no credit.
        fs.base.journal.commit_running().expect("commits");
        let mut handle = fs.start(crate::types::credits::TRUNCATE).expect("a handle");
        let progress = {
            let mut state = handle.write(file);
            state.disk.size = 4500;
            crate::parts::map::remove(fs, &handle, &mut state, 5..crate::parts::map::LOGICAL_END)
                .expect("removes")
        };
        assert_ne!(
            progress,
            crate::parts::map::Progress::Done,
            "too small a file for this test"
        );
        fs.orphans.add(&fs.base, &handle, file).expect("tracks");
        handle.restart(1).expect("restarts");
        drop(handle);
        fs.base.journal.commit_running().expect("commits");
        let crashed = std::sync::Arc::new(rig.device.snapshot());
        rig.mounted.abandon();
        let rig = Rig::mount(crashed);
        let mut data = vec![9; 5000];
        assert_eq!(
            read(rig.fs(), &rig.file, 0, &mut data).expect("reads"),
            4500
        );
        assert!(
            data[4096..4500].iter().all(|byte| *byte == 3),
            "the last block is kept"
        );
        let extents = fiemap(rig.fs(), &rig.file, 0, u64::MAX).expect("extents");
        assert_eq!(
            extents.iter().map(|extent| extent.len_bytes).sum::<u64>(),
            3 << 10
        );
        rig.assert_clean();
    }
}

/// The kernel and this library read each other's files in turns.
#[test]
fn the_kernel_takes_turns() {
    use std::os::unix::fs::FileExt;
    if !uext4_testkit::oracle::KernelMount::available_or_skip("the_kernel_takes_turns") {
        return;
    }
    let inline: &[&str] = &["-b", "4096", "-O", "inline_data", "-I", "512"];
    let tables: &[&str] = &["-b", "1024", "-O", "^extent,^64bit"];
    let clusters: &[&str] = &["-b", "4096", "-O", "bigalloc", "-C", "16384"];
    for options in [
        &["-b", "1024"][..],
        &["-b", "4096"],
        inline,
        tables,
        clusters,
    ] {
        let mut rig = Rig::new(24, options);
        let mut model = Vec::new();
        for turn in 0..6u64 {
            let start = if turn < 2 { turn * 70 } else { turn * 40_000 };
            for part in 0..if turn < 2 { 1 } else { 8 } {
                let step = Step::Write {
                    at: start + part * 9_000,
                    len: 100 + turn as usize * 700,
                    byte: turn as u8 + 1,
                };
                apply(&rig, &mut model, &step);
            }
            if turn > 2 && crate::parts::map::has_extents(&rig.file.read()) {
                for mode in [FallocateMode::Allocate, FallocateMode::PunchHole] {
                    let (at, len) = (turn * 30_000, 50_000);
                    apply(&rig, &mut model, &Step::Fallocate { mode, at, len });
                }
            }
            rig = rig.with_kernel(|path| {
                assert!(
                    std::fs::read(path).expect("reads") == model,
                    "the kernel reads {options:?}"
                );
                let file = std::fs::OpenOptions::new()
                    .write(true)
                    .open(path)
                    .expect("opens");
                let at = model.len() as u64 / 2;
                let data = pattern(at, 50 + turn as usize * 5_000, 0x55);
                file.write_all_at(&data, at).expect("the kernel writes");
                put(&mut model, at, &data);
                let size = model.len() as u64 * 15 / 16 + 1;
                file.set_len(size).expect("the kernel truncates");
                model.resize(size as usize, 0);
            });
            compare(&rig, &model);
        }
        rig.assert_clean();
    }
}

/// Readers see whole old or new contents only, while a writer truncates and refills the file.
#[test]
fn readers_see_no_freed_blocks() {
    let rig = Rig::new(24, &["-b", "1024"]);
    let (fs, file) = (rig.fs(), rig.file.arc());
    write(fs, file, 0, &[1; 200_000]).expect("writes");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut buf = vec![9; 200_000];
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let len = read(fs, file, 0, &mut buf).expect("reads");
                    assert!(buf[..len].iter().all(|byte| *byte == buf[0] && *byte < 200));
                }
            });
        }
        for round in 2..60u8 {
            truncate(fs, file, 0).expect("truncates");
            assert_eq!(
                write(fs, file, 0, &vec![round; 200_000]).expect("writes"),
                200_000
            );
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    rig.assert_clean();
}

#[test]
fn targets_of_links_are_kept() {
    let kinds: [&[&str]; 4] = [
        &["-b", "1024"],
        &["-b", "4096", "-O", "ea_inode,inline_data"],
        &["-b", "1024", "-O", "^extent,^64bit"],
        &["-b", "4096", "-O", "bigalloc", "-C", "16384"],
    ];
    for options in kinds {
        let rig = Rig::new(24, options);
        let root = rig.mounted.root().expect("the root");
        let caller = crate::types::attr::Caller::root();
        for len in [1, 59, 60, 61, 1023] {
            let name = format!("link{len}");
            let made = rig
                .mounted
                .symlink(&root, name.as_bytes(), &vec![b'x'; len], &caller);
            drop(made.expect("makes a link"));
        }
        drop(root);
        let rig = rig.remount();
        let root = rig.mounted.root().expect("the root");
        for len in [1, 59, 60, 61, 1023] {
            let name = format!("link{len}");
            let link = rig
                .mounted
                .lookup(&root, name.as_bytes(), &caller)
                .expect("finds");
            let target = rig.mounted.read_link(&link).expect("reads");
            assert_eq!(target, vec![b'x'; len], "{options:?}");
        }
        drop(root);
        rig.assert_clean();
    }
}
