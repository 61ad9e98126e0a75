//! Disks with known contents.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use uext4_device::BlockDevice;
use uext4_image::{Container, Format, Made, Options, Verity, VerityPlace};
use uext4_testkit::oracle::{Program, scratch_dir};
use uext4_testkit::rng::Rng;

/// Bytes of a disk: neither whole clusters nor whole MiB.
pub(crate) const SIZE: u64 = (40 << 20) + 3 * 4096;
/// The UUID of the file system.
pub(crate) const UUID: [u8; 16] = *b"0123456789abcdef";

/// A directory for files.
pub(crate) struct Rig(TempDir);

impl Rig {
    pub(crate) fn new() -> Rig {
        Rig(scratch_dir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a container of a disk with these writes.
    pub(crate) fn make(&self, name: &str, options: Options, writes: &[(u64, Vec<u8>)]) -> Made {
        let container = Container::create(&self.path(name), options).unwrap();
        let device = container.device();
        apply(&*device, writes);
        container
            .finish(SIZE, UUID, |_| ControlFlow::Continue(()))
            .unwrap()
    }

    pub(crate) fn raw(&self, name: &str, writes: &[(u64, Vec<u8>)]) -> Vec<u8> {
        self.make(name, Options::default(), writes);
        self.bytes(name)
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Names in the directory.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

pub(crate) fn apply(device: &dyn BlockDevice, writes: &[(u64, Vec<u8>)]) {
    for (at, bytes) in writes {
        device.write_at(*at, bytes).unwrap();
    }
}

/// Writes of many lengths, some over others: noise, one word repeated, and zeroes.
pub(crate) fn writes(seed: u64) -> Vec<(u64, Vec<u8>)> {
    let mut rng = Rng::new(seed);
    let mut next = move |below: u64| rng.below(below);
    let mut writes = Vec::new();
    for nr in 0..60 {
        let at = next(SIZE / 512) * 512;
        let len = (next(if nr % 10 == 0 { 4096 } else { 64 }) + 1) * 512;
        let len = len.min(SIZE - at);
        let bytes: Vec<u8> = match nr % 4 {
            0 => vec![0; len as usize],
            1 => [1, 2, 3, 4].repeat(len as usize / 4),
            _ => (0..len).map(|_| next(256) as u8).collect(),
        };
        writes.push((at, bytes));
    }
    writes
}

pub(crate) fn format(format: Format) -> Options {
    Options {
        format,
        ..Options::default()
    }
}

pub(crate) fn verity(place: VerityPlace) -> Options {
    Options {
        verity: Some(Verity { place, salt: None }),
        ..Options::default()
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs a judge, which must agree. Returns what it says.
pub(crate) fn judge(name: &'static str, args: &[&str], files: &[&Path]) -> String {
    let program = Program::new(name).unwrap().args(args).args(files);
    program.run_ok().unwrap().all()
}
