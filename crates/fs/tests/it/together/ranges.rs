//! One thread allocates, punches and zeroes ranges while others write to the same file.
//!
//! Even blocks belong to the writers, which write and punch them; nothing else may change them. Odd
//! blocks belong to the range thread, which writes, punches or zeroes them, and allocates over all
//! blocks.

use super::{content, create, in_threads, judge, mount, open, rounds};
use crate::image;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uext4::device::MemDevice;
use uext4::{FallocateMode, Filesystem, InodeRef, WriteContext};
use uext4_sync::Rng;

const BLOCK_BYTES: usize = 4096;
/// A small number, so that ranges overlap recent writes.
const BLOCKS: u64 = 16;
const WRITERS: u64 = 2;
/// Steps of the range thread.
const STEPS: u64 = 1500;
const FILE: &str = "file";

/// The byte that fills each block, 0 for a hole or zeroes.
type Blocks = Vec<u8>;

fn write(fs: &Filesystem, file: &InodeRef, block: u64, byte: u8) {
    let done = fs.write(
        file,
        block * BLOCK_BYTES as u64,
        &[byte; BLOCK_BYTES],
        &WriteContext::ROOT,
    );
    assert_eq!(done.expect("a write").len_bytes, BLOCK_BYTES);
}

fn range(fs: &Filesystem, file: &InodeRef, mode: FallocateMode, block: u64, n_blocks: u64) {
    let (at, len) = (block * BLOCK_BYTES as u64, n_blocks * BLOCK_BYTES as u64);
    fs.fallocate(file, mode, at..at + len, &WriteContext::ROOT)
        .expect("a range");
}

/// Writes the even blocks of one writer until `over`.
fn write_own(fs: &Filesystem, id: u64, rng: &mut Rng, over: &AtomicBool) -> Blocks {
    let file = &open(fs, FILE);
    let mut blocks = vec![0; BLOCKS as usize];
    let mut step = 0;
    while !over.load(Ordering::Relaxed) {
        step += 1;
        let nr = rng.below(BLOCKS / 2 / WRITERS);
        let block = 2 * (nr * WRITERS + id);
        let mut found = [0; BLOCK_BYTES];
        let at = block * BLOCK_BYTES as u64;
        let len = fs.read(file, at, &mut found).expect("a read");
        let wanted = [blocks[block as usize]; BLOCK_BYTES];
        assert!(found[..len] == wanted[..len], "block {block} has changed");
        // A punched hole, so that the next write there is delayed.
        let byte = if rng.chance(1, 2) {
            0
        } else {
            1 + (step % 255) as u8
        };
        match byte {
            0 => range(fs, file, FallocateMode::PunchHole, block, 1),
            byte => write(fs, file, block, byte),
        }
        blocks[block as usize] = byte;
        // During the pause the data stays delayed, and others get the file's lock.
        (0..rng.below(20)).for_each(|_| std::thread::yield_now());
        if rng.chance(1, 50) {
            fs.fsync(file).expect("an fsync");
        }
    }
    blocks
}

/// Stops the writers when the range thread ends, even by a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Changes the odd blocks, and allocates ranges over all blocks, which must change no data.
fn change_ranges(fs: &Filesystem, rng: &mut Rng, over: &AtomicBool) -> Blocks {
    let _ends_writers = Ends(over);
    let file = &open(fs, FILE);
    let mut blocks = vec![0; BLOCKS as usize];
    let ask = |mode, block, n_blocks| range(fs, file, mode, block, n_blocks);
    for _ in 0..STEPS {
        let block = 2 * rng.below(BLOCKS / 2) + 1;
        let n_blocks = 1 + rng.below(BLOCKS - block);
        let zeroed = match rng.below(40) {
            0..20 => FallocateMode::PunchHole,
            20..25 => FallocateMode::ZeroRange,
            25..28 => FallocateMode::WriteZeroes,
            other => {
                match other {
                    28..35 => {
                        write(fs, file, block, 0xff);
                        blocks[block as usize] = 0xff;
                    }
                    35 => ask(FallocateMode::Allocate, block, n_blocks),
                    // Also past the end of the file.
                    36 => ask(FallocateMode::AllocateKeepSize, block, n_blocks + 64),
                    37 => fs.sync().expect("a sync"),
                    _ => std::thread::yield_now(),
                }
                continue;
            }
        };
        ask(zeroed, block, 1);
        blocks[block as usize] = 0;
    }
    blocks
}

/// Expected content of the file, from the threads' models.
fn expected(parts: &[Blocks], size_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; BLOCKS as usize * BLOCK_BYTES];
    for (block, piece) in bytes.chunks_mut(BLOCK_BYTES).enumerate() {
        // Each block has one owner; the other models contain 0.
        piece.fill(parts.iter().map(|part| part[block]).max().unwrap_or(0));
    }
    bytes.truncate(size_bytes);
    bytes
}

fn first_difference(found: &[u8], wanted: &[u8]) -> Option<usize> {
    let different = |(found, wanted): (&u8, &u8)| found != wanted;
    found.iter().zip(wanted).position(different)
}

fn change_beside_writers(round: u64, options: &str, device: &Arc<MemDevice>) {
    let fs = mount(device, options);
    create(&fs, FILE);
    let (shared, over) = (fs.clone(), Arc::new(AtomicBool::new(false)));
    let parts = in_threads(WRITERS + 1, move |id| {
        let mut rng = Rng::new(round * 100 + id);
        match id {
            WRITERS => change_ranges(&shared, &mut rng, &over),
            id => write_own(&shared, id, &mut rng, &over),
        }
    });
    let check = |fs: &Filesystem, when: &str| {
        let found = content(fs, &open(fs, FILE));
        let wanted = expected(&parts, found.len());
        let at = first_difference(&found, &wanted);
        assert_eq!(at, None, "round {round}, {options:?}: byte, {when}");
    };
    check(&fs, "before the unmount");
    fs.sync().expect("a sync");
    let crashed = Arc::new(device.snapshot());
    let recovered = image::mount(&crashed);
    check(&recovered, "after a crash");
    recovered.unmount().expect("unmounts");
    image::assert_clean(&crashed);
    judge(device, &fs, |fs| check(fs, "after the unmount"));
}

#[test]
fn ranges_change_nothing_that_others_write() {
    for round in 0..rounds(4) {
        for options in ["", "nodelalloc"] {
            change_beside_writers(round, options, &image::ext4(32));
        }
    }
}
