//! Random writes, truncates and all modes of `fallocate` on one file: same errno, bytes, sizes and
//! map of data and holes as in the kernel.

use crate::image;
use rustix::fs::{FallocateFlags, SeekFrom};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use uext4::{Caller, FallocateMode, Filesystem, InodeRef, Seek, WriteContext};
use uext4_sync::Rng;
use uext4_testkit::oracle::KernelMount;

const SHAPES: &[&[&str]] = &[
    &["-b", "4096"],
    &["-b", "1024"],
    &["-b", "4096", "-O", "bigalloc", "-C", "16384"],
    &[
        "-b",
        "1024",
        "-O",
        "^has_journal,^extent,^64bit,^metadata_csum",
    ],
    &["-b", "4096", "-O", "inline_data"],
];
/// Upper bound of offsets, in bytes.
const OFFSET_MAX: u64 = 1 << 20;
const STEPS: usize = 150;
/// Steps between two comparisons of all bytes and the map.
const LOOK: usize = 10;
/// `FALLOC_FL_WRITE_ZEROES`, which rustix does not name yet.
const WRITE_ZEROES: FallocateFlags = FallocateFlags::from_bits_retain(0x80);
/// `FIEMAP_EXTENT_UNWRITTEN`.
const UNWRITTEN: u32 = 0x800;
const EOPNOTSUPP: i32 = 95;

const MODES: [FallocateMode; 8] = [
    FallocateMode::Allocate,
    FallocateMode::AllocateKeepSize,
    FallocateMode::PunchHole,
    FallocateMode::ZeroRange,
    FallocateMode::ZeroRangeKeepSize,
    FallocateMode::WriteZeroes,
    FallocateMode::CollapseRange,
    FallocateMode::InsertRange,
];

#[derive(Debug)]
enum Op {
    Write(u64, usize),
    Truncate(u64),
    Fallocate(FallocateMode, u64, u64),
    Sync,
}

fn draw(rng: &mut Rng) -> Op {
    let at = rng.next_u64() % OFFSET_MAX;
    let len = 1 + rng.next_u64() % 150_000;
    match rng.next_u64() % 16 {
        0..6 => Op::Write(at, len as usize / 3 + 1),
        6 => Op::Truncate(at),
        7 => Op::Sync,
        _ => {
            let mode = MODES[rng.next_u64() as usize % MODES.len()];
            let shifts = [FallocateMode::CollapseRange, FallocateMode::InsertRange];
            // Mostly whole clusters, because other shifts are only refused.
            let unit = match rng.next_u64() % 8 {
                0 => 1,
                _ if shifts.contains(&mode) => 16384,
                1..4 => 4096,
                _ => 1,
            };
            Op::Fallocate(mode, at / unit * unit, len.next_multiple_of(unit))
        }
    }
}

fn flags(mode: FallocateMode) -> FallocateFlags {
    use FallocateFlags as F;
    match mode {
        FallocateMode::Allocate => F::empty(),
        FallocateMode::AllocateKeepSize => F::KEEP_SIZE,
        FallocateMode::PunchHole => F::PUNCH_HOLE | F::KEEP_SIZE,
        FallocateMode::ZeroRange => F::ZERO_RANGE,
        FallocateMode::ZeroRangeKeepSize => F::ZERO_RANGE | F::KEEP_SIZE,
        FallocateMode::WriteZeroes => WRITE_ZEROES,
        FallocateMode::CollapseRange => F::COLLAPSE_RANGE,
        FallocateMode::InsertRange => F::INSERT_RANGE,
    }
}

fn by_kernel(file: &File, op: &Op, byte: u8) -> i32 {
    let errno =
        |result: std::io::Result<()>| result.err().map_or(0, |e| e.raw_os_error().unwrap_or(-1));
    match *op {
        Op::Write(at, len) => errno(file.write_all_at(&vec![byte; len], at)),
        Op::Truncate(size) => errno(file.set_len(size)),
        Op::Sync => errno(file.sync_all()),
        Op::Fallocate(mode, at, len) => {
            errno(rustix::fs::fallocate(file, flags(mode), at, len).map_err(Into::into))
        }
    }
}

fn by_us(fs: &Filesystem, file: &InodeRef, op: &Op, byte: u8) -> i32 {
    let result = match *op {
        Op::Write(at, len) => fs
            .write(file, at, &vec![byte; len], &WriteContext::ROOT)
            .map(drop),
        Op::Truncate(size) => fs.truncate(file, size),
        Op::Sync => fs.fsync(file),
        Op::Fallocate(mode, at, len) => fs.fallocate(file, mode, at..at + len, &WriteContext::ROOT),
    };
    result.err().map_or(0, |error| error.errno())
}

/// Data ranges: start and end in bytes.
type Map = Vec<(u64, u64)>;

fn map(mut seek: impl FnMut(u64, Seek) -> Option<u64>) -> Map {
    let mut ranges = Map::new();
    let mut at = 0;
    while let Some(data) = seek(at, Seek::Data) {
        at = seek(data, Seek::Hole).expect("the end is a hole");
        ranges.push((data, at));
    }
    ranges
}

fn kernel_map(file: &File) -> Map {
    map(|at, what| {
        let from = match what {
            Seek::Data => SeekFrom::Data(at),
            Seek::Hole => SeekFrom::Hole(at),
        };
        rustix::fs::seek(file, from).ok()
    })
}

/// Mapped ranges in bytes, and whether they are unwritten; adjacent ranges of one kind are merged.
type Blocks = Vec<(Range<u64>, bool)>;

fn join(extents: impl Iterator<Item = (Range<u64>, bool)>) -> Blocks {
    let mut blocks = Blocks::new();
    for (range, unwritten) in extents {
        match blocks.last_mut() {
            Some((last, kind)) if last.end == range.start && *kind == unwritten => {
                last.end = range.end;
            }
            _ => blocks.push((range, unwritten)),
        }
    }
    blocks
}

fn our_blocks(fs: &Filesystem, file: &InodeRef) -> Blocks {
    let extents = fs.fiemap(file, 0, u64::MAX).expect("maps").into_iter();
    join(extents.map(|extent| {
        let end = extent.logical_bytes + extent.len_bytes;
        (extent.logical_bytes..end, extent.flags & UNWRITTEN != 0)
    }))
}

/// Mapped ranges as `filefrag` prints them, in bytes.
fn kernel_blocks(path: &Path) -> Blocks {
    let mut filefrag = Command::new("filefrag");
    let said = filefrag.args(["-v", "-b1"]).arg(path).output();
    let text = String::from_utf8(said.expect("filefrag runs").stdout).expect("text");
    join(text.lines().filter_map(|line| {
        let fields: Vec<&str> = line
            .split([':', ' ', '.'])
            .filter(|f| !f.is_empty())
            .collect();
        let numbers: Vec<u64> = fields
            .iter()
            .map_while(|field| field.parse().ok())
            .collect();
        let [_, start, last, ..] = numbers[..] else {
            return None;
        };
        Some((start..last + 1, line.contains("unwritten")))
    }))
}

/// The file on both sides.
struct Pair {
    kernel: File,
    kernel_path: PathBuf,
    fs: Filesystem,
    ours: InodeRef,
}

impl Pair {
    fn step(&self, op: &Op, byte: u8) {
        let kernel = by_kernel(&self.kernel, op, byte);
        if matches!(op, Op::Fallocate(FallocateMode::WriteZeroes, ..)) && kernel == EOPNOTSUPP {
            return; // This device cannot.
        }
        let ours = by_us(&self.fs, &self.ours, op, byte);
        assert_eq!(ours, kernel, "{op:?}: errno of ours, of the kernel");
        let size = self.kernel.metadata().expect("stat").len();
        assert_eq!(self.fs.attr(&self.ours).size_bytes, size, "{op:?}");
    }

    fn look(&self, at: &str) {
        // SEEK_DATA treats cached pages over unwritten blocks as data.
        self.kernel.sync_all().expect("syncs");
        let drop_pages = rustix::fs::Advice::DontNeed;
        rustix::fs::fadvise(&self.kernel, 0, None, drop_pages).expect("drops clean pages");
        let theirs = kernel_map(&self.kernel);
        let found = map(|from, what| self.fs.seek(&self.ours, from, what).ok());
        assert_eq!(found, theirs, "{at}: the map of ours, of the kernel");
        let blocks = (
            our_blocks(&self.fs, &self.ours),
            kernel_blocks(&self.kernel_path),
        );
        assert_eq!(
            blocks.0, blocks.1,
            "{at}: the blocks of ours, of the kernel"
        );
        let mut kernel = vec![0; self.fs.attr(&self.ours).size_bytes as usize];
        let mut ours = kernel.clone();
        self.kernel.read_exact_at(&mut kernel, 0).expect("reads");
        self.fs.read(&self.ours, 0, &mut ours).expect("reads");
        let differs = (0..ours.len()).find(|&byte| ours[byte] != kernel[byte]);
        assert_eq!(differs, None, "{at}: the first byte that differs");
    }
}

fn run(shape: &[&str], list: &str, seed: u64) {
    let at = format!("{shape:?} {list} seed {seed}");
    let device = image::mke2fs(32, shape);
    let (_dir, path) = image::on_disk(&device);
    let mount = KernelMount::new(&path, "").expect("the kernel mounts it");
    // With the default, the kernel zeroes small unwritten extents as a whole, and they become data.
    let device_name = mount.loop_device().trim_start_matches("/dev/");
    let limit = format!("/sys/fs/ext4/{device_name}/extent_max_zeroout_kb");
    std::fs::write(limit, "0").expect("the limit can be set");
    let kernel_path = mount.path().join("file");
    let kernel = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&kernel_path);
    let fs = image::mount_with(&device, list).expect("mounts");
    let top = fs.root().expect("the root");
    let pair = Pair {
        kernel: kernel.expect("a file"),
        kernel_path,
        ours: fs
            .create(&top, b"file", 0o644, &Caller::root())
            .expect("a file"),
        fs,
    };
    let mut rng = Rng::new(seed);
    for step in 1..=STEPS {
        let op = draw(&mut rng);
        let told = format!("{at} step {step} {op:?}");
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pair.step(&op, step as u8);
            if step % LOOK == 0 {
                pair.look(&told);
            }
        }));
        if let Err(cause) = done {
            eprintln!("{told}");
            std::panic::resume_unwind(cause);
        }
    }
    let Pair {
        kernel, fs, ours, ..
    } = pair;
    drop((kernel, ours, top));
    fs.unmount().expect("unmounts");
    mount.unmount().expect("unmounts");
    image::assert_clean(&device);
}

#[test]
fn ranges_are_as_in_the_kernel() {
    if !KernelMount::available_or_skip("ranges_are_as_in_the_kernel") {
        return;
    }
    for (nr, shape) in SHAPES.iter().enumerate() {
        for (half, list) in ["delalloc", "nodelalloc"].iter().enumerate() {
            run(shape, list, 2 * nr as u64 + half as u64);
        }
    }
}
