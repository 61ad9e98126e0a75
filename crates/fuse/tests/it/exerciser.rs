//! One file through the mount against a vector of bytes: writes, reads, mapped writes, truncates
//! and all ways of `fallocate`, by four processes at once, each with a file of its own.
//!
//! `UEXT4_EXERCISER_OPS` sets the number of operations of each process. A failure prints the seed.

use crate::support::Mounted;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use uext4_testkit::rng::Rng;

const PROCESSES: u64 = 4;
const OPS: u64 = 20_000;
/// Largest file.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// Longest range of one operation.
const RANGE_BYTES_MAX: u64 = 32 << 10;
/// The whole file is compared after so many operations.
const COMPARE_EVERY: u64 = 500;

/// Variables that make this test program one of the processes.
const FILE: &str = "UEXT4_EXERCISER_FILE";
const SEED: &str = "UEXT4_EXERCISER_SEED";

struct Exerciser {
    path: PathBuf,
    file: File,
    model: Vec<u8>,
    rng: Rng,
}

impl Exerciser {
    fn new(path: PathBuf, seed: u64) -> io::Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        Ok(Self {
            path,
            file,
            model: Vec::new(),
            rng: Rng::new(seed),
        })
    }

    fn step(&mut self) -> io::Result<()> {
        let offset = self.rng.below(FILE_BYTES_MAX);
        let len = 1 + self.rng.below(RANGE_BYTES_MAX.min(FILE_BYTES_MAX - offset));
        let (from, to) = (offset as usize, (offset + len) as usize);
        match self.rng.below(16) {
            0..=4 => self.write(from, to),
            5..=7 => self.read(from, to),
            8..=9 => self.write_mapped(from, to),
            10 => self.resize(from),
            11 => self.punch(from, to),
            12 => self.zero(from, to),
            13 => self.allocate(from, to),
            14 => self.file.sync_data(),
            _ => self.open_again(),
        }
    }

    fn data(&mut self, len: usize) -> Vec<u8> {
        self.rng.bytes(len)
    }

    fn grow(&mut self, end: usize) {
        if self.model.len() < end {
            self.model.resize(end, 0);
        }
    }

    fn write(&mut self, from: usize, to: usize) -> io::Result<()> {
        let data = self.data(to - from);
        self.file.write_all_at(&data, from as u64)?;
        self.grow(to);
        self.model[from..to].copy_from_slice(&data);
        Ok(())
    }

    fn read(&mut self, from: usize, to: usize) -> io::Result<()> {
        let mut found = vec![0; to - from];
        let mut done = 0;
        while done < found.len() {
            match self
                .file
                .read_at(&mut found[done..], (from + done) as u64)?
            {
                0 => break,
                len => done += len,
            }
        }
        let end = to.min(self.model.len());
        let expected = self.model.get(from..end).unwrap_or_default();
        same(&found[..done], expected, from);
        Ok(())
    }

    /// Writes through a mapping, within the file.
    fn write_mapped(&mut self, from: usize, to: usize) -> io::Result<()> {
        let to = to.min(self.model.len());
        if from >= to {
            return Ok(());
        }
        let data = self.data(to - from);
        write_mapped(&self.file, from, &data)?;
        self.model[from..to].copy_from_slice(&data);
        Ok(())
    }

    fn resize(&mut self, size: usize) -> io::Result<()> {
        self.file.set_len(size as u64)?;
        self.model.resize(size, 0);
        Ok(())
    }

    fn punch(&mut self, from: usize, to: usize) -> io::Result<()> {
        self.fallocate(
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            from,
            to,
        )?;
        let end = to.min(self.model.len());
        self.model.get_mut(from..end).unwrap_or_default().fill(0);
        Ok(())
    }

    fn zero(&mut self, from: usize, to: usize) -> io::Result<()> {
        let keeps = self.rng.chance(50);
        let keep = if keeps { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
        self.fallocate(libc::FALLOC_FL_ZERO_RANGE | keep, from, to)?;
        if !keeps {
            self.grow(to);
        }
        let end = to.min(self.model.len());
        self.model.get_mut(from..end).unwrap_or_default().fill(0);
        Ok(())
    }

    fn allocate(&mut self, from: usize, to: usize) -> io::Result<()> {
        let keeps = self.rng.chance(50);
        let mode = if keeps { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
        self.fallocate(mode, from, to)?;
        if !keeps {
            self.grow(to);
        }
        Ok(())
    }

    fn fallocate(&self, mode: i32, from: usize, to: usize) -> io::Result<()> {
        let (offset, len) = (from as libc::off_t, (to - from) as libc::off_t);
        // SAFETY: the descriptor is open while `self.file` lives; no memory is handed over.
        match unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset, len) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn open_again(&mut self) -> io::Result<()> {
        self.file = File::options().read(true).write(true).open(&self.path)?;
        Ok(())
    }

    fn compare(&mut self) -> io::Result<()> {
        assert_eq!(
            self.file.metadata()?.len(),
            self.model.len() as u64,
            "size in bytes"
        );
        self.read(0, FILE_BYTES_MAX as usize + 1)
    }
}

fn same(found: &[u8], expected: &[u8], from: usize) {
    let at = found.iter().zip(expected).position(|(a, b)| a != b);
    assert!(
        found == expected,
        "{} bytes from {from}, expected {}; first difference at {:?}",
        found.len(),
        expected.len(),
        at.map(|at| at + from)
    );
}

/// Maps the file from the page of `from` on, copies `data` to `from` and syncs the mapping.
fn write_mapped(file: &File, from: usize, data: &[u8]) -> io::Result<()> {
    let start = from & !(rustix::param::page_size() - 1);
    let len = from + data.len() - start;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (descriptor, offset) = (file.as_raw_fd(), start as libc::off_t);
    // SAFETY: a new mapping at an address that the system chooses; the descriptor is open.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            protection,
            libc::MAP_SHARED,
            descriptor,
            offset,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `from - start + data.len()` is `len`, and the file is that long: nobody else changes
    // it. `base` is not used after the unmap.
    let synced = unsafe {
        let to = base.cast::<u8>().add(from - start);
        std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len());
        let synced = libc::msync(base, len, libc::MS_SYNC);
        libc::munmap(base, len);
        synced
    };
    if synced == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn ops() -> u64 {
    let text = std::env::var("UEXT4_EXERCISER_OPS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(OPS)
}

/// Does nothing unless this program was started as one of the processes.
#[test]
fn exercises_one_file() {
    let (Ok(path), Ok(seed)) = (std::env::var(FILE), std::env::var(SEED)) else {
        return;
    };
    let seed = seed.parse().expect("the test sets a number");
    let mut exerciser = Exerciser::new(path.into(), seed).expect("the file is new");
    for index in 0..ops() {
        if let Err(error) = exerciser.step() {
            panic!("seed {seed}, operation {index}: {error}");
        }
        if index % COMPARE_EVERY == 0 {
            exerciser.compare().expect("it reads");
        }
    }
    exerciser.compare().expect("it reads");
    std::fs::write(exerciser.path.with_extension("expected"), &exerciser.model).expect("it fits");
}

fn start(path: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().expect("the test has a path"))
        .args(["--exact", "exerciser::exercises_one_file", "--nocapture"])
        .env(FILE, path)
        .env(SEED, seed.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the test program starts")
}

fn exercise(mke2fs: &[&str]) {
    let mut mounted = Mounted::with(mke2fs, &[]);
    let file = |seed: u64| mounted.path(&format!("file-{seed}.data"));
    let children: Vec<_> = (0..PROCESSES)
        .map(|seed| (seed, start(&file(seed), seed)))
        .collect();
    for (seed, child) in children {
        let output = child.wait_with_output().expect("it is our child");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{mke2fs:?}, seed {seed}: {said}");
    }
    mounted.unmount();
    mounted.mount(&[]);
    for seed in 0..PROCESSES {
        let path = mounted.path(&format!("file-{seed}.data"));
        let expected = std::fs::read(path.with_extension("expected")).expect("it was written");
        assert!(
            std::fs::read(&path).expect("it reads") == expected,
            "{mke2fs:?}, seed {seed}"
        );
    }
    mounted.unmount();
}

#[test]
fn four_processes_exercise_four_files() {
    exercise(&["-b", "4096"]);
}

#[test]
fn four_processes_exercise_four_files_of_1k_blocks() {
    exercise(&["-b", "1024"]);
}
