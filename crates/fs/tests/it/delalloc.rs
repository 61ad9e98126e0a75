//! Delayed allocation: time and extent of writeback, durability guarantees, and no loss of space.

use crate::image;
use std::sync::Arc;
use uext4::device::{Cause, Event, Fault, Faulty, Operation, Recorder, Survivors, When};
use uext4::{
    Caller, Error, FallocateMode, Filesystem, InodeRef, Position, RenameFlags, WriteContext,
};
use uext4::{MountOptions, Seek};
use uext4_sync::Rng;
use uext4_testkit::wait;

const SHAPES: &[&[&str]] = &[
    &["-b", "4096"],
    &["-b", "1024", "-m", "10"],
    &[
        "-b",
        "1024",
        "-O",
        "^has_journal,^extent,^64bit,^metadata_csum",
    ],
    &["-b", "1024", "-O", "bigalloc", "-C", "8192"],
    &["-b", "4096", "-O", "inline_data"],
    &["-b", "4096", "-O", "^has_journal"],
];

fn delaying() -> MountOptions {
    MountOptions {
        delalloc: Some(true),
        ..MountOptions::default()
    }
}

fn root() -> Caller {
    Caller::root()
}

fn create(fs: &Filesystem, name: &str) -> InodeRef {
    let top = fs.root().expect("the root");
    fs.create(&top, name.as_bytes(), 0o644, &root())
        .expect("a new file")
}

fn find(fs: &Filesystem, name: &str) -> InodeRef {
    let top = fs.root().expect("the root");
    fs.lookup(&top, name.as_bytes(), &root())
        .expect("the file is there")
}

fn content(fs: &Filesystem, file: &InodeRef) -> Vec<u8> {
    let mut bytes = vec![0; fs.attr(file).size_bytes as usize];
    let len = fs.read(file, 0, &mut bytes).expect("reads");
    assert_eq!(len, bytes.len());
    bytes
}

/// No delayed data and no reservations remain.
fn assert_nothing_waits(fs: &Filesystem) {
    let space = fs.stats().space;
    let waits = (space.delayed_clusters, space.delayed_tree_clusters);
    assert_eq!((waits, space.delayed_bytes), ((0, 0), 0));
}

/// A fresh file system on a recording device.
fn recorded(list: &str) -> (Arc<Recorder>, Filesystem) {
    let device = image::ext4(32);
    let recorder = Arc::new(Recorder::new(device));
    let options = MountOptions {
        threads: uext4::Threads::Inline,
        ..delaying()
    };
    let options = options.parse(list).expect("known options");
    let fs = Filesystem::mount(recorder.clone(), options).expect("mounts");
    (recorder, fs)
}

/// Mounts the image that a power cut at this point leaves.
fn crash(recorder: &Recorder) -> Filesystem {
    let mut log = recorder.log();
    image::mount(&Arc::new(log.image(log.len(), Survivors::All)))
}

#[test]
fn a_file_deleted_before_it_is_written_out_never_touches_the_disk() {
    for (list, touches) in [("delalloc", false), ("nodelalloc", true)] {
        let (recorder, fs) = recorded(list);
        fs.sync().unwrap();
        let free = fs.statfs().blocks_free;
        recorder.restart();
        for nr in 0..50 {
            let file = create(&fs, &format!("{nr}"));
            fs.write(
                &file,
                Position::End,
                &b"NEVERSEEN".repeat(5000),
                &WriteContext::ROOT,
            )
            .unwrap();
            if nr % 2 == 0 {
                // Even files are closed before the unlink, odd ones after it.
                drop(file);
            }
            fs.unlink(&fs.root().unwrap(), format!("{nr}").as_bytes(), &root())
                .unwrap();
        }
        fs.sync().unwrap();
        assert_nothing_waits(&fs);
        assert_eq!(fs.statfs().blocks_free, free, "{list}");
        fs.unmount().unwrap();
        let log = recorder.log();
        let has_data = |event: &Event| match event {
            Event::Change {
                change: uext4::device::Change::Write { bytes, .. },
                ..
            } => bytes.windows(9).any(|bytes| bytes == b"NEVERSEEN"),
            _ => false,
        };
        assert_eq!(log.events().iter().any(has_data), touches, "{list}");
    }
}

/// Four threads; each writes one page to one file after another.
#[test]
fn writers_of_small_pieces_at_once_end_in_one_extent_each() {
    const PAGES: usize = 1024;
    let device = image::ext4(256);
    let fs = Filesystem::mount(device.clone(), MountOptions::default()).expect("mounts");
    let files: Vec<_> = (0..16).map(|nr| create(&fs, &format!("{nr}"))).collect();
    std::thread::scope(|scope| {
        for files in files.chunks(4) {
            let fs = &fs;
            scope.spawn(move || {
                for page in 0..PAGES {
                    for file in files {
                        fs.write(
                            file,
                            Position::End,
                            &[page as u8; 4096],
                            &WriteContext::ROOT,
                        )
                        .expect("appends");
                    }
                }
            });
        }
    });
    for file in &files {
        let extents = fs.fiemap(file, 0, u64::MAX).expect("maps");
        assert_eq!(extents.len(), 1, "{extents:?}");
        assert_eq!(extents[0].len_bytes, 4096 * PAGES as u64);
    }
    for file in &files {
        let bytes = content(&fs, file);
        assert!(
            bytes
                .iter()
                .enumerate()
                .all(|(at, byte)| *byte == (at >> 12) as u8)
        );
    }
    drop(files);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

/// Files that grow in turns, each block durable before the next: as logs do.
#[test]
fn files_that_grow_by_one_durable_block_in_turns_have_few_extents() {
    const BLOCKS: usize = 16;
    /// The first block, and windows that end at 16, 32 and 64 KiB.
    const EXTENTS_MAX: usize = 4;
    let device = image::ext4(64);
    let fs = Filesystem::mount(device.clone(), MountOptions::default()).expect("mounts");
    let files: Vec<_> = (0..8).map(|nr| create(&fs, &format!("{nr}"))).collect();
    for _ in 0..BLOCKS {
        for file in &files {
            fs.write(file, Position::End, &[1; 4096], &WriteContext::ROOT)
                .expect("appends");
            fs.fsync(file).expect("is durable");
        }
    }
    for file in &files {
        let extents = fs.fiemap(file, 0, u64::MAX).expect("maps");
        assert!(extents.len() <= EXTENTS_MAX, "{extents:?}");
    }
    drop(files);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

/// One n-th of the space is reserved for maps.
const HELD_BACK_PART: u64 = 50;
/// Free blocks allowed in addition: ends of clusters.
const LEFT_BLOCKS_MAX: u64 = 64;

/// Files with their expected content.
type Accepted = Vec<(InodeRef, Vec<u8>)>;

/// Writes at random offsets until 40 writes are refused.
fn fill(fs: &Filesystem, rng: &mut Rng, caller: &Caller) -> Accepted {
    let mut files: Accepted = (0..6)
        .map(|nr| (create(fs, &format!("file {nr}")), Vec::new()))
        .collect();
    let mut refused = 0;
    while refused < 40 {
        let nr = rng.next_u64() as usize % files.len();
        let (file, model) = &mut files[nr];
        let at = rng.next_u64() as usize % (model.len() + 60_000);
        let len = [1, 500, 4096, 30_000, 200_000][rng.next_u64() as usize % 5];
        let data = vec![rng.next_u64() as u8 | 1; len];
        match fs.write(file, at as u64, &data, &WriteContext::by(caller.clone())) {
            Ok(written) => {
                let written = written.len_bytes;
                model.resize(model.len().max(at + written), 0);
                model[at..at + written].copy_from_slice(&data[..written]);
            }
            Err(Error::NoSpace) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    files
}

#[test]
fn no_space_is_told_by_the_write_and_never_later() {
    for (seed, shape) in SHAPES.iter().enumerate() {
        for uid in [0, 1000] {
            let caller = Caller {
                uid,
                gid: uid,
                ..root()
            };
            println!("seed {seed} {shape:?} uid {uid}");
            let device = image::mke2fs(12, shape);
            let fs = image::mount_with(&device, "delalloc").expect("mounts");
            let files = fill(&fs, &mut Rng::new(seed as u64), &caller);
            for (file, _) in &files {
                fs.fsync(file).expect("space was promised");
            }
            assert_nothing_waits(&fs);
            for (file, model) in &files {
                assert!(&content(&fs, file) == model, "{file:?}");
            }
            let models: Vec<_> = files.into_iter().map(|(_, model)| model).collect();
            fs.unmount().expect("space was promised");
            image::assert_clean(&device);
            let fs = image::mount(&device);
            for (nr, model) in models.iter().enumerate() {
                assert!(
                    &content(&fs, &find(&fs, &format!("file {nr}"))) == model,
                    "file {nr}"
                );
            }
        }
    }
}

fn any_change(fs: &Filesystem, file: &InodeRef, rng: &mut Rng) -> uext4::Result<()> {
    let at = rng.next_u64() % 300_000;
    let len = 1 + rng.next_u64() % 50_000;
    match rng.next_u64() % 12 {
        0..6 => fs
            .write(file, at, &vec![7; len as usize], &WriteContext::ROOT)
            .map(drop),
        6 => fs.truncate(file, at),
        7 => fs.fsync(file),
        8 => fs.fallocate(
            file,
            FallocateMode::PunchHole,
            at..at + len,
            &WriteContext::ROOT,
        ),
        9 => fs.fallocate(
            file,
            FallocateMode::AllocateKeepSize,
            at..at + len,
            &WriteContext::ROOT,
        ),
        10 => fs.fiemap(file, 0, u64::MAX).map(drop),
        _ => fs.close(file),
    }
}

/// Concurrent writers until the device is full: accepted data is preserved, and little space is
/// left.
#[test]
fn many_writers_share_the_last_block() {
    for (seed, shape) in SHAPES.iter().enumerate() {
        let device = image::mke2fs(16, shape);
        let fs = image::mount_with(&device, "delalloc").expect("mounts");
        let files: Vec<_> = (0..8).map(|nr| create(&fs, &format!("{nr}"))).collect();
        let fill = |(nr, file)| {
            let (fs, mut rng) = (&fs, Rng::new((10 * seed + nr) as u64));
            move || {
                let mut end = 0;
                loop {
                    let len = 1 + rng.next_u64() as usize % 20_000;
                    match fs.write(file, end, &vec![nr as u8 + 1; len], &WriteContext::ROOT) {
                        Ok(written) => end += written.len_bytes as u64,
                        Err(Error::NoSpace) => return end,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        };
        let ends: Vec<u64> = std::thread::scope(|scope| {
            let writers: Vec<_> = files
                .iter()
                .enumerate()
                .map(|it| scope.spawn(fill(it)))
                .collect();
            writers
                .into_iter()
                .map(|writer| writer.join().expect("ends"))
                .collect()
        });
        for (nr, file) in files.iter().enumerate() {
            fs.fsync(file).expect("space was promised");
            assert_eq!(
                content(&fs, file),
                vec![nr as u8 + 1; ends[nr] as usize],
                "{shape:?}"
            );
        }
        assert_nothing_waits(&fs);
        let space = fs.statfs();
        let most = space.blocks / HELD_BACK_PART + LEFT_BLOCKS_MAX;
        assert!(space.blocks_free <= most, "{space:?} of {shape:?}");
        drop(files);
        fs.unmount().expect("space was promised");
        image::assert_clean(&device);
    }
}

#[test]
fn nothing_is_lost_or_missing_after_any_mix_of_threads() {
    for (seed, shape) in SHAPES.iter().enumerate() {
        println!("seed {seed} {shape:?}");
        let device = image::mke2fs(24, shape);
        let options = MountOptions {
            delalloc: Some(true),
            delalloc_memory_bytes: Some([0, 200_000, 1 << 30][seed % 3]),
            ..delaying()
        };
        let fs = Filesystem::mount(device.clone(), options).expect("mounts");
        fs.set_tunable("delalloc_expire_centisecs", 1).unwrap();
        let shared = create(&fs, "shared");
        std::thread::scope(|scope| {
            for thread in 0..16 {
                let (fs, shared) = (&fs, &shared);
                scope.spawn(move || {
                    let mut rng = Rng::new((seed * 100 + thread) as u64);
                    for round in 0..30 {
                        let name = format!("{thread} {}", round % 3);
                        let own = find_or_create(fs, &name);
                        let file = if round % 5 == 0 { shared } else { &own };
                        match any_change(fs, file, &mut rng) {
                            Ok(()) | Err(Error::NoSpace | Error::NotSupported(_)) => {}
                            Err(error) => panic!("{error}"),
                        }
                        if rng.next_u64().is_multiple_of(4) {
                            let top = fs.root().unwrap();
                            fs.unlink(&top, name.as_bytes(), &root()).unwrap();
                        }
                    }
                });
            }
        });
        drop(shared);
        fs.sync().expect("all promises are kept");
        assert_nothing_waits(&fs);
        let free = fs.statfs().blocks_free;
        fs.unmount().expect("unmounts");
        image::assert_clean(&device);
        let fs = image::mount_with(&device, "ro").expect("mounts");
        assert_eq!(fs.statfs().blocks_free, free, "{shape:?}");
    }
}

fn find_or_create(fs: &Filesystem, name: &str) -> InodeRef {
    let top = fs.root().expect("the root");
    match fs.lookup(&top, name.as_bytes(), &root()) {
        Ok(file) => file,
        Err(_) => create(fs, name),
    }
}

#[test]
fn what_waits_is_seen_by_all_but_the_disk() {
    for shape in SHAPES
        .iter()
        .filter(|shape| !shape.contains(&"inline_data"))
    {
        let device = image::mke2fs(16, shape);
        let fs = image::mount_with(&device, "delalloc").expect("mounts");
        let file = create(&fs, "file");
        fs.sync().unwrap();
        let before = fs.statfs();
        fs.write(&file, 100_000, &[5; 50_000], &WriteContext::ROOT)
            .unwrap();
        let space = fs.stats().space;
        assert!(space.delayed_bytes >= 50_000 && space.delayed_bytes < 60_000);
        let blocks = space.delayed_clusters * (before.blocks_free / fs.stats().space.free_clusters);
        let after = fs.statfs();
        assert_eq!(after.blocks_free + blocks, before.blocks_free, "{shape:?}");
        let attr = fs.attr(&file);
        assert_eq!(attr.size_bytes, 150_000);
        assert_eq!(attr.sectors, blocks * u64::from(before.block_size) / 512);
        let block = u64::from(before.block_size);
        assert_eq!(
            fs.seek(&file, 0, Seek::Data).unwrap(),
            100_000 / block * block
        );
        let hole = fs.seek(&file, 120_000, Seek::Hole).unwrap();
        assert_eq!(hole, 150_000);
        assert_eq!(content(&fs, &file)[99_999..100_001], [0, 5]);
        let extents = fs.fiemap(&file, 0, u64::MAX).unwrap();
        assert!(!extents.is_empty());
        assert_nothing_waits(&fs);
        drop(file);
        fs.unmount().unwrap();
        image::assert_clean(&device);
    }
}

#[test]
fn a_crash_shows_the_old_size_or_the_data() {
    let (recorder, fs) = recorded("delalloc");
    let file = create(&fs, "grows");
    fs.write(&file, Position::End, &[1; 5000], &WriteContext::ROOT)
        .unwrap();
    fs.fsync(&file).unwrap();
    fs.write(&file, Position::End, &[2; 50_000], &WriteContext::ROOT)
        .unwrap();
    fs.fsync(&create(&fs, "another")).unwrap();
    {
        let found = crash(&recorder);
        let bytes = content(&found, &find(&found, "grows"));
        // The tail of the last block is written in place.
        assert!((5000..=8192).contains(&bytes.len()), "{}", bytes.len());
        assert!(
            bytes
                .iter()
                .enumerate()
                .all(|(at, byte)| *byte == 1 + u8::from(at >= 5000))
        );
    }
    fs.truncate(&file, 200_000).unwrap();
    fs.write(&file, 150_000, &[3; 10], &WriteContext::ROOT)
        .unwrap();
    fs.fsync(&create(&fs, "and another")).unwrap();
    let found = crash(&recorder);
    assert!(found.attr(&find(&found, "grows")).size_bytes <= 8192);
    fs.fsync(&file).unwrap();
    let found = crash(&recorder);
    assert_eq!(content(&found, &find(&found, "grows")), content(&fs, &file));
}

/// Content of the file `name` after a crash that follows `change` and an unrelated commit.
fn after_crash(list: &str, change: impl Fn(&Filesystem)) -> Vec<u8> {
    let (recorder, fs) = recorded(list);
    let file = create(&fs, "name");
    fs.write(&file, Position::End, &[b'o'; 9000], &WriteContext::ROOT)
        .unwrap();
    fs.fsync(&file).unwrap();
    drop(file);
    change(&fs);
    fs.fsync(&create(&fs, "another")).unwrap();
    let found = crash(&recorder);
    content(&found, &find(&found, "name"))
}

#[test]
fn what_replaces_an_old_file_is_never_empty() {
    let by_rename = |fs: &Filesystem| {
        let new = create(fs, "new");
        fs.write(&new, Position::End, &[b'n'; 9000], &WriteContext::ROOT)
            .unwrap();
        let top = fs.root().unwrap();
        fs.rename(&top, b"new", &top, b"name", RenameFlags::Replace, &root())
            .unwrap();
    };
    let by_truncate = |fs: &Filesystem| {
        let file = find(fs, "name");
        fs.truncate(&file, 0).unwrap();
        fs.write(&file, Position::End, &[b'n'; 9000], &WriteContext::ROOT)
            .unwrap();
        fs.close(&file).unwrap();
    };
    assert_eq!(after_crash("delalloc", by_rename), [b'n'; 9000]);
    assert_eq!(after_crash("delalloc", by_truncate), [b'n'; 9000]);
    assert_eq!(after_crash("noauto_da_alloc", by_rename), b"");
    assert_eq!(after_crash("noauto_da_alloc", by_truncate), b"");
}

/// Every open file reports the lost data, independent of the order of the fsyncs (errseq
/// semantics).
#[test]
fn every_open_file_is_told_of_a_failed_write_out() {
    let device = image::ext4(32);
    let faulty = Arc::new(Faulty::new(device));
    let options = MountOptions {
        threads: uext4::Threads::Inline,
        ..delaying()
    };
    let fs = Filesystem::mount(faulty.clone(), options).expect("mounts");
    let open = || {
        let mut options = uext4::path::OpenOptions::new();
        let options = options.read(true).write(true).create(true);
        options.open(&fs.paths(), "/file").expect("opens")
    };
    let (first, second) = (open(), open());
    first.write_at(0, &[1; 100_000]).expect("is kept");
    faulty.arm(Fault {
        operation: Operation::Write,
        when: When::Counted { after: 0, count: 1 },
        cause: Cause::Io,
    });
    assert!(fs.fiemap(first.inode(), 0, 1).is_err(), "writes out");
    faulty.disarm();
    let unseen = open();
    for file in [&second, &first, &unseen] {
        let told = file.sync_all().map_err(Error::from);
        assert!(matches!(told, Err(Error::Device(_))));
        file.sync_all().expect("told once");
    }
    open().sync_all().expect("the others know");
    first.write_at(0, &[2; 1000]).expect("goes on");
    first.sync_all().expect("all is well");
}

#[test]
fn a_failed_write_out_is_told_once_and_leaves_nothing_claimed() {
    let device = image::ext4(32);
    let faulty = Arc::new(Faulty::new(device.clone()));
    let options = MountOptions {
        threads: uext4::Threads::Inline,
        ..delaying()
    };
    let fs = Filesystem::mount(faulty.clone(), options).expect("mounts");
    let (lost, kept) = (create(&fs, "lost"), create(&fs, "kept"));
    fs.sync().unwrap();
    let free = fs.statfs().blocks_free;
    fs.write(&lost, Position::End, &[1; 100_000], &WriteContext::ROOT)
        .unwrap();
    fs.write(&kept, Position::End, &[2; 100_000], &WriteContext::ROOT)
        .unwrap();
    faulty.arm(Fault {
        operation: Operation::Write,
        when: When::Counted { after: 0, count: 1 },
        cause: Cause::Io,
    });
    const EIO: i32 = 5;
    assert_eq!(fs.fsync(&lost).unwrap_err().errno(), EIO);
    faulty.disarm();
    fs.fsync(&lost).expect("told once");
    fs.fsync(&kept).expect("another file");
    assert_eq!(content(&fs, &lost), [0; 100_000], "a hole");
    assert_eq!(content(&fs, &kept), [2; 100_000]);
    assert_nothing_waits(&fs);
    let kept_blocks = 100_000u64.div_ceil(fs.statfs().block_size.into());
    assert_eq!(fs.statfs().blocks_free, free - kept_blocks);
    drop((lost, kept));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn the_thread_writes_out_what_is_old() {
    let device = image::ext4(32);
    let fs = Filesystem::mount(device.clone(), delaying()).expect("mounts");
    fs.set_tunable("delalloc_expire_centisecs", 5).unwrap();
    for nr in 0..3 {
        // Writeback must also work after the thread was idle.
        fs.write(
            &create(&fs, &format!("{nr}")),
            Position::End,
            &[9; 10_000],
            &WriteContext::ROOT,
        )
        .unwrap();
        wait_until_at_most(&fs, 0);
    }
    assert_nothing_waits(&fs);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

fn wait_until_at_most(fs: &Filesystem, bytes: u64) {
    wait::until_true("the data are written out", || {
        fs.stats().space.delayed_bytes <= bytes
    });
}

#[test]
fn the_thread_makes_room_before_writers_must_and_when_memory_is_short() {
    const BOUND: u64 = 8 << 20;
    let device = image::ext4(64);
    let list = format!("delalloc_memory={BOUND}");
    let options = MountOptions::default().parse(&list).expect("known options");
    let fs = Filesystem::mount(device.clone(), options).expect("mounts");
    fs.set_tunable("delalloc_expire_centisecs", 1_000_000)
        .unwrap();
    let write = |name: &str, bytes: u64| {
        let file = create(&fs, name);
        for _ in 0..bytes / 4096 {
            fs.write(&file, Position::End, &[5; 4096], &WriteContext::ROOT)
                .expect("appends");
        }
    };
    write("a little", BOUND / 4);
    assert_eq!(fs.stats().space.delayed_bytes, BOUND / 4, "it is not old");
    fs.reclaim_memory();
    wait_until_at_most(&fs, BOUND / 8);
    write("much", BOUND / 2 + BOUND / 4);
    // The counter may lag by a sixteenth.
    wait_until_at_most(&fs, BOUND / 2 + BOUND / 16);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn a_writer_makes_room_for_itself_and_not_for_all() {
    const BOUND: u64 = 8 << 20;
    let (_recorder, fs) = recorded(&format!("delalloc_memory={BOUND}"));
    let file = create(&fs, "file");
    let mut most = 0;
    for _ in 0..2 * BOUND / 4096 {
        fs.write(&file, Position::End, &[6; 4096], &WriteContext::ROOT)
            .expect("appends");
        let waits = fs.stats().space.delayed_bytes;
        assert!(waits <= BOUND);
        most = most.max(waits);
        // A writer writes out a quarter of a MiB at a time.
        assert!(waits + (512 << 10) >= most, "{waits} after {most}");
    }
    assert!(most > BOUND / 2);
    // Consecutive steps are contiguous on disk.
    let extents = fs.fiemap(&file, 0, u64::MAX).expect("maps").len();
    assert!(extents <= 4, "{extents} extents");
    drop(file);
    fs.unmount().unwrap();
}

#[test]
fn so_many_bytes_wait_and_no_more() {
    const BOUND: u64 = 256 << 10;
    let device = image::ext4(64);
    let fs =
        image::mount_with(&device, &format!("delalloc,delalloc_memory={BOUND}")).expect("mounts");
    for nr in 0..300 {
        let file = create(&fs, &format!("{nr}"));
        fs.write(
            &file,
            Position::End,
            &vec![nr as u8; 1000 * (nr % 40)],
            &WriteContext::ROOT,
        )
        .unwrap();
        assert!(fs.stats().space.delayed_bytes <= BOUND);
    }
    assert_eq!(fs.tunable("delalloc_memory"), Some(BOUND));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn a_file_whose_waiting_data_are_punched_keeps_its_size() {
    for shape in SHAPES {
        let device = image::mke2fs(24, shape);
        let fs = Filesystem::mount(device.clone(), delaying()).expect("mounts");
        let file = create(&fs, "file");
        fs.write(&file, 25_153, &[7; 9905], &WriteContext::ROOT)
            .expect("is kept");
        fs.fallocate(
            &file,
            FallocateMode::PunchHole,
            15_901..47_443,
            &WriteContext::ROOT,
        )
        .expect("punches");
        drop(file);
        fs.unmount().expect("unmounts");
        image::assert_clean(&device);
        let fs = image::mount(&device);
        assert_eq!(content(&fs, &find(&fs, "file")), [0; 35_058], "{shape:?}");
    }
}
