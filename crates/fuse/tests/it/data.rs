//! File data: buffered, mapped, direct, in unnamed files; allocation and holes.

use crate::support::{Mounted, errno, run};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use uext4_fuse::Ask;
use uext4_testkit::wait;

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|i| (i / 7) as u8 ^ seed).collect()
}

#[test]
fn written_data_are_read_again() {
    let mut mounted = Mounted::new();
    let path = mounted.path("data");
    let data = pattern(5_000_001, 3);
    fs::write(&path, &data).unwrap();
    mounted.unmount();
    mounted.mount(&[]);
    assert!(fs::read(&path).unwrap() == data);
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"patch", 1_234_567).unwrap();
    file.set_len(2_000_000).unwrap();
    file.sync_all().unwrap();
    drop(file);
    mounted.unmount();
    mounted.mount(&[]);
    let mut expected = data;
    expected.truncate(2_000_000);
    expected[1_234_567..][..5].copy_from_slice(b"patch");
    assert!(fs::read(&path).unwrap() == expected);
    assert_eq!(errno(fs::write(mounted.root(), "x")), Some(libc::EISDIR));
    mounted.unmount();
}

#[test]
fn opening_with_truncation_empties_and_appending_appends() {
    let mut mounted = Mounted::new();
    let path = mounted.path("log");
    fs::write(&path, pattern(100_000, 1)).unwrap();
    fs::write(&path, "one").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 3);
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(b"two").unwrap();
    drop(file);
    mounted.unmount();
    mounted.mount(&[]);
    assert_eq!(fs::read(&path).unwrap(), b"onetwo");
    mounted.unmount();
}

#[test]
fn mapped_pages_are_written() {
    let mut mounted = Mounted::new();
    let path = mounted.path("mapped");
    fs::write(&path, pattern(300_000, 9)).unwrap();
    let script = "import mmap,sys\nf=open(sys.argv[1],'r+b')\nm=mmap.mmap(f.fileno(),0)\n\
        m[70000:70005]=b'hello'\nassert m[0]==9\nm.close()";
    run("python3", &[&"-c", &script, &path]);
    mounted.unmount();
    mounted.mount(&[]);
    let mut expected = pattern(300_000, 9);
    expected[70_000..][..5].copy_from_slice(b"hello");
    assert!(fs::read(&path).unwrap() == expected);
    mounted.unmount();
}

#[test]
fn direct_io_sees_what_the_cache_wrote() {
    let mut mounted = Mounted::new();
    let path = mounted.path("direct");
    fs::write(&path, pattern(65536, 5)).unwrap();
    let of = format!("of={}", path.display());
    run(
        "dd",
        &[
            &"if=/dev/zero",
            &of,
            &"bs=4096",
            &"seek=1",
            &"count=2",
            &"oflag=direct",
            &"conv=notrunc",
            &"status=none",
        ],
    );
    let mut expected = pattern(65536, 5);
    expected[4096..12288].fill(0);
    assert!(fs::read(&path).unwrap() == expected);
    mounted.unmount();
}

#[test]
fn an_unlinked_file_lives_until_it_is_closed() {
    let mut mounted = Mounted::new();
    let free = || rustix::fs::statvfs(mounted.root()).unwrap().f_bfree;
    let before = free();
    let path = mounted.path("gone");
    let data = pattern(8 << 20, 7);
    fs::write(&path, &data).unwrap();
    let mut file = File::options().read(true).write(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    let mut read = Vec::new();
    file.read_to_end(&mut read).unwrap();
    assert!(read == data);
    file.write_all_at(b"still", 10).unwrap();
    file.sync_all().unwrap();
    assert!(free() + 1024 < before, "the data take room");
    drop(file);
    // The kernel forgets the inode a little after the close.
    wait::until_true("the blocks are free", || free() + 16 >= before);
    mounted.unmount();
}

#[test]
fn space_and_holes() {
    let mut mounted = Mounted::new();
    let path = mounted.path("sparse");
    let file = File::create_new(&path).unwrap();
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 0);
    fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    file.write_all_at(&pattern(1 << 20, 1), 0).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, 65536, 131072).unwrap();
    fallocate(&file, FallocateFlags::ZERO_RANGE, 524288, 4096).unwrap();
    let mut expected = pattern(1 << 20, 1);
    expected[65536..196608].fill(0);
    expected[524288..528384].fill(0);
    let mut read = vec![0; 1 << 20];
    file.read_exact_at(&mut read, 0).unwrap();
    assert!(read == expected);
    for mode in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
        assert_eq!(fallocate(&file, mode, 0, 4096), Err(Errno::OPNOTSUPP));
    }
    assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(65536));
    assert_eq!(seek(&file, SeekFrom::Data(65536)), Ok(196608));
    assert_eq!(seek(&file, SeekFrom::Data(1 << 20)), Err(Errno::NXIO));
    drop(file);
    mounted.unmount();
}

#[test]
fn a_seek_sees_data_that_the_kernel_still_holds() {
    let mut mounted = Mounted::new();
    let path = mounted.path("fresh");
    let file = File::create_new(&path).unwrap();
    file.write_all_at(&[1; 4096], 1 << 20).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(1 << 20));
    assert_eq!(seek(&file, SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 4096));
    // More concurrent requests than server threads.
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let path = mounted.path(&format!("fresh-{thread}"));
            scope.spawn(move || {
                let file = File::create_new(&path).unwrap();
                for step in 1..20 {
                    file.write_all_at(&[2; 100], step << 16).unwrap();
                    assert_eq!(
                        seek(&file, SeekFrom::Data(((step - 1) << 16) + 4096)),
                        Ok(step << 16)
                    );
                }
            });
        }
    });
    drop(file);
    mounted.unmount();
}

#[test]
fn copies_inside_the_mount() {
    let mut mounted = Mounted::new();
    let (from, to) = (mounted.path("from"), mounted.path("to"));
    let data = pattern(3_333_333, 8);
    fs::write(&from, &data).unwrap();
    // std uses copy_file_range.
    assert_eq!(fs::copy(&from, &to).unwrap(), data.len() as u64);
    assert!(fs::read(&to).unwrap() == data);
    mounted.unmount();
    mounted.mount(&[]);
    assert!(fs::read(&to).unwrap() == data);
    mounted.unmount();
}

#[test]
fn writers_take_set_id_bits_away() {
    let mut mounted = Mounted::new();
    let path = mounted.path("program");
    fs::write(&path, "x").unwrap();
    let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
    run("chmod", &[&"777", &mounted.root()]);
    for how in [">", ">>"] {
        run("chmod", &[&"6777", &path]);
        assert_eq!(mode(), 0o6777);
        let write = format!("echo y {how} {}", path.display());
        let user = ["--reuid=1000", "--regid=1000", "--clear-groups"];
        run(
            "setpriv",
            &[&user[0], &user[1], &user[2], &"sh", &"-c", &write],
        );
        assert_eq!(mode(), 0o777);
    }
    mounted.unmount();
}

#[test]
fn two_threads_write_two_files_each_while_a_third_syncs() {
    let mut mounted = Mounted::new();
    std::thread::scope(|scope| {
        for thread in 0..2u8 {
            let root = mounted.root();
            scope.spawn(move || {
                for round in 0..30usize {
                    let path = root.join(format!("{thread}-{}", round % 2));
                    let data = pattern(50_000 + round * 1000, thread);
                    let mut file = File::options()
                        .write(true)
                        .create(true)
                        .truncate(true)
                        .mode(0o600)
                        .open(&path)
                        .unwrap();
                    file.write_all(&data).unwrap();
                    if round % 5 == 0 {
                        file.sync_data().unwrap();
                    }
                    drop(file);
                    assert!(fs::read(&path).unwrap() == data);
                }
            });
        }
        let root = mounted.root();
        scope.spawn(move || {
            for _ in 0..10 {
                rustix::fs::syncfs(File::open(&root).unwrap()).unwrap();
            }
        });
    });
    mounted.unmount();
}

/// The kernel says in `FSYNC` which of the two calls it was.
#[test]
fn fdatasync_of_an_overwrite_commits_nothing_and_fsync_does() {
    let mut mounted = Mounted::with(&["-b", "4096"], &["commit=3600"]);
    let path = mounted.path("file");
    fs::write(&path, pattern(100_000, 1)).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    // So that the overwrite changes the time, however soon it comes.
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    file.sync_all().unwrap();
    let commits = || {
        let stats = mounted.client().ask(&Ask::Stats {}).unwrap();
        stats["journal"]["transactions"].as_u64().unwrap()
    };
    let before = commits();
    file.write_all_at(&[7; 8192], 4096).unwrap();
    file.sync_data().unwrap();
    assert_eq!(commits(), before);
    file.sync_all().unwrap();
    assert_eq!(commits(), before + 1, "the times");
    file.write_all_at(&[7; 8192], 100_000).unwrap();
    file.sync_data().unwrap();
    assert_eq!(commits(), before + 2, "the size");
    drop(file);
    mounted.unmount();
}
