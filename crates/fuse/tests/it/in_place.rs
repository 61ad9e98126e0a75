//! Large reads, which `/dev/fuse` answers by splicing pages of the image. At odd offsets, in holes
//! and at the end they return the written bytes, never those of other files.

use crate::VIA;
use crate::support::{Mounted, Via};
use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate, fcntl_setfl};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use uext4_fuse::Ask;
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::rng::Rng;

/// Alignment for `O_DIRECT`.
const ALIGN_BYTES: usize = 4096;

/// Reads the file with direct I/O, from a multiple of [`ALIGN_BYTES`] on.
fn read_direct(file: &File, at: u64, len: usize) -> Vec<u8> {
    let mut room = vec![0xEE; len.next_multiple_of(ALIGN_BYTES) + ALIGN_BYTES];
    let start = room.as_ptr().align_offset(ALIGN_BYTES);
    let room = &mut room[start..][..len.next_multiple_of(ALIGN_BYTES)];
    fcntl_setfl(file, OFlags::DIRECT).expect("it takes the flag");
    let read = file.read_at(room, at).expect("it reads");
    fcntl_setfl(file, OFlags::empty()).expect("it takes the flag");
    room[..read.min(len)].to_vec()
}

/// Reads the file after dropping its cached pages, so that the server gets the request.
fn read_cold(file: &File, at: u64, len: usize) -> Vec<u8> {
    file.sync_all().expect("it syncs");
    fadvise(file, 0, None, Advice::DontNeed).expect("it takes the hint");
    let mut room = vec![0xEE; len];
    let mut read = 0;
    while read < len {
        match file.read_at(&mut room[read..], at + read as u64) {
            Ok(0) => break,
            more => read += more.expect("it reads"),
        }
    }
    room.truncate(read);
    room
}

fn reads_in_place(mounted: &Mounted) -> u64 {
    let stats = mounted.client().ask(&Ask::Stats {}).expect("it answers");
    stats["reads_in_place"].as_u64().expect("a number")
}

fn change(file: &File, model: &mut Vec<u8>, rng: &mut Rng) {
    let (at, len) = (rng.below(4 << 20), 1 + rng.below(900 << 10) as usize);
    let end = at as usize + len;
    match rng.below(8) {
        0 => {
            file.set_len(at).expect("it cuts");
            model.resize(at as usize, 0);
        }
        1 => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(file, flags, at, len as u64).expect("it punches");
            let end = end.min(model.len());
            model[end.min(at as usize)..end].fill(0);
        }
        2 => {
            fallocate(file, FallocateFlags::empty(), at, len as u64).expect("there is room");
            model.resize(end.max(model.len()), 0);
        }
        _ => {
            let data = rng.bytes(len);
            file.write_all_at(&data, at).expect("there is room");
            model.resize(end.max(model.len()), 0);
            model[at as usize..end].copy_from_slice(&data);
        }
    }
}

fn compare(seed: u64, mke2fs: &[&str]) {
    let mut mounted = Mounted::with(mke2fs, &[]);
    let path = mounted.path("file");
    let file = File::create_new(&path).expect("it is fresh");
    drop(file);
    let file = File::options().read(true).write(true).open(&path);
    let file = file.expect("it opens");
    let (mut model, mut rng) = (Vec::new(), Rng::new(seed));
    for step in 0..80 {
        change(&file, &mut model, &mut rng);
        let (at, len) = (rng.below(3 << 20), 1 + rng.below(2 << 20) as usize);
        let (found, at) = if rng.chance(50) {
            (read_cold(&file, at, len), at)
        } else {
            let at = at & !(ALIGN_BYTES as u64 - 1);
            (read_direct(&file, at, len), at)
        };
        let from = model.len().min(at as usize);
        let to = model.len().min(at as usize + len);
        let place = format!("seed {seed}, step {step}: {len} bytes at {at}");
        assert_eq!(found.len(), to - from, "{place}");
        assert!(found == model[from..to], "{place}");
    }
    let in_place = reads_in_place(&mounted);
    assert_eq!(in_place > 0, VIA == Via::DevFuse, "{in_place}");
    drop(file);
    mounted.unmount();
    if KernelMount::available_or_skip("large reads") {
        let kernel = KernelMount::new(&mounted.image(), "ro").expect("it mounts");
        let found = fs::read(kernel.path().join("file")).expect("it reads");
        assert!(found == model, "seed {seed}");
    }
}

#[test]
fn large_reads_are_those_of_a_model() {
    compare(1, &["-b", "4096"]);
    compare(2, &["-b", "1024", "-O", "bigalloc", "-C", "8192"]);
}

/// A file is truncated and rewritten repeatedly on a nearly full file system, so that other files
/// soon reuse its blocks.
#[test]
fn no_reader_sees_later_data_of_freed_blocks() {
    const LEN: usize = 4 << 20;
    let mut mounted = Mounted::new();
    let path = mounted.path("own");
    fs::write(&path, vec![1; LEN]).expect("there is room");
    let free = rustix::fs::statvfs(mounted.root()).expect("it answers");
    let filler = File::create_new(mounted.path("filler")).expect("it is fresh");
    let space = free.f_bavail * free.f_frsize - 3 * LEN as u64;
    fallocate(&filler, FallocateFlags::empty(), 0, space).expect("there is room");
    let done = AtomicBool::new(false);
    let read = || {
        let file = File::open(&path).expect("it is there");
        let mut rng = Rng::new(1);
        let mut n_bytes = 0;
        while !done.load(Ordering::Relaxed) {
            let at = rng.below(LEN as u64) & !(ALIGN_BYTES as u64 - 1);
            let found = read_direct(&file, at, 512 << 10);
            let strange = found.iter().find(|byte| **byte > 1);
            assert_eq!(strange, None, "at {at}");
            n_bytes += found.len();
        }
        assert!(n_bytes > 0);
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        for _ in 0..25 {
            let file = File::create(&path).expect("it is there");
            file.sync_all().expect("it syncs");
            let other = mounted.path("other");
            // A failure for lack of space does not matter.
            let _ = fs::write(&other, vec![2; 2 * LEN]);
            File::open(&other).and_then(|file| file.sync_all()).ok();
            fs::remove_file(&other).expect("it is there");
            file.write_all_at(&vec![1; LEN], 0).expect("there is room");
            file.sync_all().expect("it syncs");
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().expect("it saw nothing strange");
        }
    });
    drop(filler);
    mounted.unmount();
}
