//! Placement of data; preallocated space is neither lost nor counted as used.

mod damaged;
mod partial;

use crate::ops::WriteContext;
use crate::ops::filesystem::Filesystem;
use crate::parts::file::{FallocateMode, Position};
use crate::state::inode::InodeRef;
use crate::types::attr::Caller;
use crate::types::error::Error;
use crate::types::options::MountOptions;
use std::sync::Arc;
use uext4_device::MemDevice;
use uext4_mkfs as mkfs;
use uext4_mkfs::{InodeCount, MkfsOptions, Preset};
use uext4_sync::atomic::Ordering::Relaxed;
use uext4_testkit::oracle;

const PAGE: usize = 4096;

fn mount(mib: u64) -> (Arc<MemDevice>, Filesystem) {
    let device = Arc::new(MemDevice::new(mib << 20));
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.block_size = Some(PAGE as u32);
    mkfs::format(&*device, &options).expect("mkfs of a plain image");
    let at_the_write = MountOptions {
        delalloc: Some(false),
        ..MountOptions::default()
    };
    let mounted = Filesystem::mount(device.clone(), at_the_write).expect("mounts");
    (device, mounted)
}

fn create(fs: &Filesystem, name: &str) -> InodeRef {
    let root = fs.root().expect("the root");
    fs.create(&root, name.as_bytes(), 0o644, &Caller::root())
        .expect("a new file")
}

fn put(fs: &Filesystem, file: &InodeRef, position: impl Into<Position>, data: &[u8]) {
    fs.write(file, position, data, &WriteContext::ROOT)
        .expect("writes");
}

fn assert_clean(device: &MemDevice) {
    let scratch = oracle::scratch_dir().expect("a scratch directory");
    let image = scratch.path().join("image.img");
    std::fs::write(&image, device.to_bytes()).expect("the image");
    oracle::assert_clean(&image);
}

/// With no preallocated or pending clusters, the engine and the counters agree on free space.
fn assert_counts(fs: &Filesystem) {
    fs.sync().expect("a commit gives freed space back");
    let space = &fs.fs.space;
    space.discard_preallocations();
    assert_eq!(space.preallocated_clusters(), 0);
    assert_eq!(space.engine.free_clusters(), space.claims.available());
    assert_eq!(space.claims.free_on_disk(), space.claims.available());
}

#[test]
fn writers_at_once_get_long_extents() {
    const BYTES: usize = 8 << 20;
    let (device, fs) = mount(512);
    let files: Vec<_> = (0..16)
        .map(|nr| create(&fs, &format!("file {nr}")))
        .collect();
    std::thread::scope(|scope| {
        for file in &files {
            let fs = &fs;
            scope.spawn(move || {
                for page in 0..BYTES / PAGE {
                    put(fs, file, Position::End, &[page as u8; PAGE]);
                }
            });
        }
    });
    let extents = |file| fs.fiemap(file, 0, u64::MAX).expect("extents").len();
    let extents: usize = files.iter().map(extents).sum();
    assert!(
        files.len() * BYTES / extents >= 1 << 20,
        "{extents} extents"
    );
    assert_counts(&fs);
    drop(files);
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}

/// Threads take inodes from different groups, and each create in a directory reads the cache line
/// of the hint, so the hint names only what they have in common.
#[test]
fn creators_side_by_side_leave_the_hint_of_their_directory() {
    let (_device, fs) = mount(512);
    let root = fs.root().expect("the root");
    let made = |nr: u32| {
        let create = || create(&fs, &format!("file {nr}")).nr();
        std::thread::scope(|scope| scope.spawn(create).join().expect("a file"))
    };
    let group = |nr| fs.fs.base.geometry.split_inode(nr).expect("an inode").0;
    let first = group(made(0));
    let hint = root
        .near(uext4_format::FileType::Regular, 0)
        .last_flex
        .get();
    assert!(hint.is_some());
    let mut groups = vec![first];
    for nr in 1..8 {
        groups.push(group(made(nr)));
        assert_eq!(
            root.near(uext4_format::FileType::Regular, 0)
                .last_flex
                .get(),
            hint
        );
    }
    groups.dedup();
    assert!(groups.len() > 1, "{groups:?}");
}

#[test]
fn small_files_of_a_thread_lie_together() {
    const FILES: usize = 200;
    let (device, fs) = mount(64);
    let mut starts = Vec::new();
    for nr in 0..FILES {
        let file = create(&fs, &format!("file {nr}"));
        put(&fs, &file, 0, &[nr as u8; 6000]);
        starts.extend(
            fs.fiemap(&file, 0, u64::MAX)
                .expect("extents")
                .iter()
                .map(|extent| extent.physical_bytes),
        );
    }
    assert_eq!(starts.len(), FILES, "one extent each");
    let adjacent = starts
        .windows(2)
        .filter(|pair| pair[0] + 2 * PAGE as u64 == pair[1])
        .count();
    assert!(
        adjacent >= FILES - 3,
        "{adjacent} of {FILES} behind the one before"
    );
    assert_counts(&fs);
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}

#[test]
fn held_space_is_free_to_others() {
    let (device, fs) = mount(64);
    let before = fs.statfs().blocks_free;
    let holders: Vec<_> = (0..4)
        .map(|nr| create(&fs, &format!("holder {nr}")))
        .collect();
    for holder in &holders {
        put(&fs, holder, 5 << 20, &[1; PAGE]);
    }
    assert!(
        fs.fs.space.preallocated_clusters() >= 1024,
        "windows are held"
    );
    assert_eq!(fs.statfs().blocks_free, before - 4, "and free");
    let filler = create(&fs, "filler");
    let chunk = vec![2; 1 << 20];
    let mut at = 0;
    let end = loop {
        match fs.write(&filler, at, &chunk, &WriteContext::ROOT) {
            Ok(written) => at += written.len_bytes as u64,
            Err(Error::NoSpace) => break at,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(fs.statfs().blocks_available, 0, "NoSpace at {end}");
    assert_counts(&fs);
    fs.truncate(&filler, 0).expect("truncates");
    assert_counts(&fs);
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}

/// A file whose window is used up leaves the list.
#[test]
fn a_file_without_held_space_is_not_listed() {
    let (_device, fs) = mount(64);
    let space = &fs.fs.space;
    for nr in 0..4 {
        let file = create(&fs, &format!("file {nr}"));
        put(&fs, &file, 100 << 10, &[3; PAGE]);
        assert!(space.preallocated_clusters() > 0);
        for page in 0..32 {
            put(&fs, &file, page * PAGE as u64, &[3; PAGE]);
        }
        assert_eq!(space.preallocated_clusters(), 0, "the window is used up");
        assert_eq!(space.preallocations.listed_files(), 0);
    }
    fs.unmount().expect("unmounts");
}

#[test]
fn what_is_held_is_let_go() {
    let (_device, fs) = mount(64);
    let held = || fs.fs.space.preallocated_clusters();
    let file = create(&fs, "file");
    let write = |at| put(&fs, &file, at, &[3; PAGE]);
    write(100 << 10);
    assert_eq!(held(), 31, "a window of 128 KiB for a file of 104");
    write(50 << 10);
    assert_eq!(held(), 29, "served from the window, which covers the hole");
    assert_eq!(fs.fiemap(&file, 0, u64::MAX).expect("extents").len(), 2);
    fs.fallocate(&file, FallocateMode::Allocate, 0..8192, &WriteContext::ROOT)
        .expect("allocates");
    assert_eq!(held(), 27, "fallocate uses what is held");
    fs.truncate(&file, 60 << 10).expect("truncates");
    assert_eq!(held(), 0);
    put(&fs, &file, 1 << 20, &[3; PAGE]);
    assert!(held() > 0);
    drop(file);
    fs.sync().expect("any operation reaps");
    assert_eq!(held(), 0, "the last user is gone");
    let file = create(&fs, "other");
    fs.fallocate(
        &file,
        FallocateMode::Allocate,
        0..1 << 20,
        &WriteContext::ROOT,
    )
    .expect("allocates");
    assert_eq!(held(), 0, "fallocate holds nothing in advance");
    assert_counts(&fs);
}

#[test]
fn a_crash_loses_nothing_that_is_held() {
    let (device, fs) = mount(64);
    let file = create(&fs, "file");
    put(&fs, &file, 3 << 20, &[4; PAGE]);
    put(&fs, &create(&fs, "small"), 0, &[5; PAGE]);
    fs.sync().expect("commits");
    assert!(fs.fs.space.preallocated_clusters() > 0);
    let free = fs.statfs().blocks_free;
    drop(file);
    fs.abandon();
    drop(fs);
    let fs = Filesystem::mount(device.clone(), MountOptions::default()).expect("recovers");
    assert_eq!(fs.statfs().blocks_free, free);
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}

/// Writes a file of 8 MiB and removes it.
fn write_and_remove(fs: &Filesystem) {
    let root = fs.root().expect("the root");
    let file = create(fs, "gone");
    put(fs, &file, 0, &vec![7; 8 << 20]);
    drop(file);
    fs.sync().expect("commits");
    fs.unlink(&root, b"gone", &Caller::root()).expect("unlinks");
}

/// Requests that find no space, with `meanwhile` during each; returns their number.
fn requests(fs: &Filesystem, mut meanwhile: impl FnMut(u32)) -> u32 {
    let mut requests = 0;
    let answer = fs.fs.space.with_commits(&fs.fs.base, || {
        requests += 1;
        meanwhile(requests);
        Err::<(), _>(Error::NoSpace)
    });
    assert!(matches!(answer, Err(Error::NoSpace)));
    requests
}

#[test]
fn a_request_is_repeated_while_space_returns() {
    let (_, fs) = mount(64);
    assert_eq!(requests(&fs, |_| {}), 1, "nothing was given back");
    write_and_remove(&fs);
    assert_eq!(requests(&fs, |_| {}), 2, "a commit returned the file");
    let once = |request| {
        if request == 1 {
            write_and_remove(&fs);
            fs.sync().expect("commits");
        }
    };
    assert_eq!(requests(&fs, once), 2, "it returned during the request");
    assert_eq!(
        requests(&fs, |_| write_and_remove(&fs)),
        65,
        "there is an end"
    );
    fs.unmount().expect("unmounts");
}

#[test]
fn trim_and_discard_give_memory_back() {
    for options in ["nodiscard", "discard"] {
        let (device, fs) = mount(64);
        fs.unmount().expect("unmounts");
        let mount = MountOptions::default()
            .parse(options)
            .expect("a known option");
        let fs = Filesystem::mount(device.clone(), mount).expect("mounts");
        let before = device.resident_bytes();
        write_and_remove(&fs);
        let pending = device.resident_bytes();
        assert!(
            pending >= before + (8 << 20),
            "not committed, not discarded"
        );
        fs.sync().expect("commits");
        if options == "nodiscard" {
            assert!(device.resident_bytes() >= pending);
            let free = fs.statfs().blocks_free * PAGE as u64;
            assert_eq!(fs.trim(0..u64::MAX, 0).expect("trims"), free);
            assert_eq!(
                fs.trim(0..u64::MAX, 512 << 20).ok(),
                None,
                "longer than a group"
            );
            assert_eq!(fs.trim(1 << 40..u64::MAX, 0).ok(), None, "behind the end");
        }
        let after = device.resident_bytes();
        assert!(
            after < before + (1 << 20),
            "{options}: {before} before, {after} after"
        );
        assert_counts(&fs);
        fs.unmount().expect("unmounts");
        assert_clean(&device);
    }
}

#[test]
fn trim_keeps_to_its_range_and_length() {
    let (device, fs) = mount(64);
    let keep = create(&fs, "keep");
    put(&fs, &keep, 0, &[9; 100_000]);
    let fragments = fs.free_fragments(64).expect("bitmaps");
    let part = fs.trim(8 << 20..16 << 20, 0).expect("trims");
    assert!(part <= 8 << 20 && part > 0, "{part}");
    let long = fs.trim(0..64 << 20, 4 << 20).expect("trims");
    assert!(long <= fragments.free_bytes);
    assert_counts(&fs);
    let mut found = vec![0; 100_000];
    assert_eq!(fs.read(&keep, 0, &mut found).expect("reads"), 100_000);
    assert!(found.iter().all(|byte| *byte == 9));
    drop(keep);
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}

#[test]
fn trimming_beside_writers_refuses_no_writer_space() {
    let (device, fs) = mount(64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 {
                fs.trim(0..u64::MAX, 0).expect("trims");
            }
        });
        for nr in 0..3 {
            let (fs, file) = (&fs, create(&fs, &format!("file {nr}")));
            scope.spawn(move || {
                for round in 0..20u8 {
                    put(fs, &file, 0, &vec![round + 1; 3 << 20]);
                    let mut found = vec![0; 3 << 20];
                    fs.read(&file, 0, &mut found).expect("reads");
                    assert!(found.iter().all(|byte| *byte == round + 1), "trimmed data");
                    fs.truncate(&file, 0).expect("truncates");
                }
            });
        }
    });
    assert_counts(&fs);
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}

#[test]
fn fragments_are_what_the_counts_say() {
    let (_device, fs) = mount(64);
    let fragments = fs.free_fragments(50).expect("bitmaps");
    assert_eq!(fragments.free_bytes, fs.statfs().blocks_free * PAGE as u64);
    assert_eq!(fragments.size_bytes, 64 << 20);
    let rows: u64 = fragments.histogram.iter().map(|row| row.extents).sum();
    assert_eq!(rows, fragments.extents);
    assert!(fragments.picture.len() <= 50 && fragments.picture.contains(&1000));
}

#[test]
fn numbers_tell_what_happened() {
    let (_device, fs) = mount(64);
    let file = create(&fs, "file");
    put(&fs, &file, 0, &[1; 300_000]);
    fs.sync().expect("commits");
    let stats = fs.stats();
    assert!(stats.allocator["requests"] > 0 && stats.allocator["clusters"] >= 74);
    assert_eq!(stats.space.free_clusters, fs.statfs().blocks_free);
    let by_criteria: u64 = stats.criteria.values().map(|row| row.hits).sum();
    let at_goal = stats.allocator["goal_hits"];
    assert_eq!(by_criteria + at_goal, stats.allocator["success"]);
    let allocator = &stats.allocator;
    assert!(
        allocator["preallocated"] - allocator["discarded"] >= stats.space.preallocated_clusters
    );
    let journal = stats.journal;
    assert!(journal.requested > 0 && journal.requested <= journal.transactions);
    assert!(journal.running_ns > 0 && journal.waiting_blocks <= journal.image_blocks);
    let phases = [
        journal.render_ns,
        journal.encode_ns,
        journal.write_ns,
        journal.flush_ns,
        journal.publish_ns,
    ];
    assert!(journal.commit_ns >= phases.iter().sum(), "{journal:?}");
    let inodes = stats.caches.inodes;
    assert!(inodes.hits > 0 && inodes.misses > 0 && inodes.evictions == 0);
    assert!(inodes.entries > inodes.idle && inodes.bytes > inodes.entries);
    assert_eq!(
        fs.group_stats()
            .map(|group| u64::from(group.free_clusters))
            .sum::<u64>()
            + stats.space.preallocated_clusters,
        stats.space.free_clusters
    );
}

#[test]
fn tunables_take_any_value_that_is_set() {
    for allocator in ["linear", "optimized", "freespace-tree"] {
        let (device, fs) = mount(64);
        fs.unmount().expect("unmounts");
        let options = format!("allocator={allocator}");
        let options = MountOptions::default()
            .parse(&options)
            .expect("a known option");
        let fs = Filesystem::mount(device.clone(), options).expect("mounts");
        for value in [0, 1, 3, 1 << 20, u64::from(u32::MAX)] {
            for name in Filesystem::TUNABLES {
                if fs.set_tunable(name, value).is_ok() {
                    assert_eq!(fs.tunable(name), Some(value), "{name}");
                }
            }
            let file = create(&fs, &format!("file {value}"));
            for at in [0, 100_000, 5 << 20] {
                put(&fs, &file, at, &[1; 30_000]);
            }
        }
        assert!(matches!(
            fs.set_tunable("mb_frobnicate", 1),
            Err(Error::NotFound)
        ));
        assert!(matches!(
            fs.set_tunable("frsp_tree_usage", 1),
            Err(Error::NotPermitted)
        ));
        assert!(matches!(
            fs.set_tunable("mb_group_prealloc", 0),
            Err(Error::Invalid(_))
        ));
        assert_counts(&fs);
        fs.unmount().expect("unmounts");
        assert_clean(&device);
    }
}

/// All tunables, with the allocators that read them.
const LIMITS: [(&str, &str); 9] = [
    ("mb_max_to_scan", "linear optimized freespace-tree"),
    ("mb_min_to_scan", "linear optimized freespace-tree"),
    ("mb_order2_req", "linear optimized"),
    ("mb_prefetch", "linear optimized"),
    ("mb_prefetch_limit", "linear optimized"),
    ("mb_max_linear_groups", "optimized"),
    ("mb_best_avail_max_trim_order", "optimized"),
    ("frsp_cache_aggression", "freespace-tree"),
    ("mb_frsp_max_mem", "freespace-tree"),
];

/// The effects of the tunables are tested in `alloc`.
#[test]
fn each_limit_has_a_field_of_its_own_and_is_refused_where_it_has_no_effect() {
    for allocator in ["linear", "optimized", "freespace-tree"] {
        let (device, fs) = mount(64);
        fs.unmount().expect("unmounts");
        let options = MountOptions::default().parse(&format!("allocator={allocator}"));
        let fs = Filesystem::mount(device, options.expect("a known option")).expect("mounts");
        for (name, allocators) in LIMITS {
            let before = fs.tunable(name);
            let set = fs.set_tunable(name, 2);
            if allocators.split(' ').any(|one| one == allocator) {
                set.expect("looked at");
                assert_eq!(fs.tunable(name), Some(2), "{name}");
            } else {
                assert!(matches!(set, Err(Error::Invalid(_))), "{allocator} {name}");
                assert_eq!(fs.tunable(name), before, "{allocator} {name}");
            }
        }
        let limits = fs.fs.space.engine().tunables();
        if allocator == "optimized" {
            let fields = [
                (&limits.max_to_scan, "mb_max_to_scan", 11),
                (&limits.min_to_scan, "mb_min_to_scan", 12),
                (&limits.order2_req, "mb_order2_req", 13),
                (&limits.prefetch, "mb_prefetch", 14),
                (&limits.prefetch_limit, "mb_prefetch_limit", 15),
                (&limits.max_linear_groups, "mb_max_linear_groups", 16),
                (
                    &limits.best_avail_max_trim_order,
                    "mb_best_avail_max_trim_order",
                    17,
                ),
            ];
            for (_, name, value) in fields {
                fs.set_tunable(name, value).expect("looked at");
            }
            for (field, name, value) in fields {
                assert_eq!(u64::from(field.load(Relaxed)), value, "{name}");
            }
        }
        fs.unmount().expect("unmounts");
    }
}

#[test]
fn writers_at_once_use_all_space() {
    let (device, fs) = mount(64);
    std::thread::scope(|scope| {
        for nr in 0..8 {
            let (fs, file) = (&fs, create(&fs, &format!("file {nr}")));
            scope.spawn(move || {
                loop {
                    match fs.write(&file, Position::End, &[nr; PAGE], &WriteContext::ROOT) {
                        Ok(_) => {}
                        Err(Error::NoSpace) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
                let left = fs.statfs().blocks_available;
                assert!(left == 0, "NoSpace with {left} blocks left");
            });
        }
    });
    assert_counts(&fs);
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}

/// Summarized regions need no tree; only regions in use do.
#[test]
fn a_nearly_new_file_system_of_100_gib_costs_10_kb_of_trees() {
    let device = Arc::new(MemDevice::new(100 << 30));
    mkfs::format(&*device, &MkfsOptions::new(Preset::Ext4)).expect("mkfs");
    let options = MountOptions::default().parse("freespace_tree");
    let fs = Filesystem::mount(device, options.expect("a known option")).expect("mounts");
    for nr in 0..50 {
        let file = create(&fs, &format!("file {nr}"));
        put(&fs, &file, 0, &[1; 100_000]);
    }
    fs.sync().expect("syncs");
    let trees = |fs: &Filesystem| fs.stats().trees.expect("there are trees");
    assert!(trees(&fs).cached > 0);
    assert!(trees(&fs).used_bytes <= 10_000, "{:?}", trees(&fs));
    while trees(&fs).unknown_regions > 0 {
        uext4_sync::thread::yield_now();
    }
    assert!(trees(&fs).used_bytes <= 10_000, "{:?}", trees(&fs));
    // All groups: a run per group, and those before and behind the metadata.
    for nr in 0..fs.fs.base.geometry.group_count {
        let loader = super::loaders::LookLoader {
            space: &fs.fs.space,
        };
        let engine = fs.fs.space.engine();
        engine
            .load(uext4_format::GroupNr(nr), &loader)
            .expect("loads");
    }
    assert!(trees(&fs).used_bytes <= 32_000, "{:?}", trees(&fs));
    fs.unmount().expect("unmounts");
}

/// Creates files in the root with `threads` threads until no inode is free; returns how many.
fn create_all(fs: &Filesystem, threads: usize, round: &str) -> usize {
    let create_some = |thread: usize| {
        let root = fs.root().expect("the root");
        let make = |nr: usize| {
            let name = format!("{round} {thread} {nr}");
            fs.create(&root, name.as_bytes(), 0o644, &Caller::root())
        };
        (0..)
            .map(make)
            .take_while(|made| match made {
                Err(Error::NoInodes) => false,
                made => made.as_ref().map(|_| true).expect("a new file"),
            })
            .count()
    };
    std::thread::scope(|scope| {
        let creators: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || create_some(thread)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<usize>| thread.join().expect("creates");
        creators.into_iter().map(join).sum()
    })
}

#[test]
fn creators_side_by_side_use_every_inode_and_not_one_more() {
    let device = Arc::new(MemDevice::new(64 << 20));
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.inodes = InodeCount::AtLeast(3000);
    mkfs::format(&*device, &options).expect("mkfs of a plain image");
    let fs = Filesystem::mount(device.clone(), MountOptions::default()).expect("mounts");
    let free = || fs.statfs().inodes_free as usize;
    let all = free();
    assert!(all > 2900, "{all}");
    assert_eq!(create_all(&fs, 4, "first"), all);
    assert_eq!(free(), 0);
    let root = fs.root().expect("the root");
    let remove = |nr: usize, thread: usize| {
        let name = format!("first {thread} {nr}");
        fs.unlink(&root, name.as_bytes(), &Caller::root()).is_ok()
    };
    let removed = (0..400).flat_map(|nr| (0..4).map(move |thread| (nr, thread)));
    let removed = removed
        .filter(|&(nr, thread)| nr % 3 == 0 && remove(nr, thread))
        .count();
    assert!(removed > 100, "{removed}");
    assert_eq!(free(), removed);
    fs.sync().expect("durable");
    assert_eq!(create_all(&fs, 4, "second"), removed);
    assert_eq!(free(), 0);
    let crashed = Arc::new(device.snapshot());
    drop(root);
    fs.unmount().expect("unmounts");
    assert_clean(&device);
    let fs = Filesystem::mount(crashed.clone(), MountOptions::default()).expect("recovers");
    let left = fs.statfs().inodes_free as usize;
    assert!(left <= removed, "{left} of {removed}");
    assert_eq!(create_all(&fs, 4, "third"), left);
    fs.unmount().expect("unmounts");
    assert_clean(&crashed);
}

/// The last user of the last inode goes away between two operations.
#[test]
fn an_inode_that_waits_to_be_freed_is_given_again() {
    let device = Arc::new(MemDevice::new(16 << 20));
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.inodes = InodeCount::AtLeast(64);
    mkfs::format(&*device, &options).expect("mkfs of a plain image");
    let fs = Filesystem::mount(device.clone(), MountOptions::default()).expect("mounts");
    assert!(create_all(&fs, 1, "all") > 10);
    let root = fs.root().expect("the root");
    let held = fs.lookup(&root, b"all 0 3", &Caller::root()).expect("made");
    fs.unlink(&root, b"all 0 3", &Caller::root())
        .expect("there");
    let one_more = || fs.create(&root, b"one more", 0o644, &Caller::root());
    assert!(matches!(one_more(), Err(Error::NoInodes)), "it is in use");
    drop(held);
    let held = one_more().expect("the number is given again");
    fs.unlink(&root, b"one more", &Caller::root())
        .expect("there");
    drop(held);
    let unnamed = fs.tmpfile(&root, 0o600, &Caller::root());
    drop((unnamed.expect("once more"), root));
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}
