//! A mount over a device that fails and loses its cache with a failed flush. Either `fsync` reports
//! the error, or the data are durable.
//!
//! `UEXT4_FAULT_SEEDS` sets the number of runs, `UEXT4_FAULT_SEED` the first; a failure names its
//! seed.

use crate::support::Via;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::{Caller, Filesystem, MountOptions};
use uext4_device::{Cause, Fault, Faulty, MemDevice, Operation, VolatileDevice, When};
use uext4_fuse::{Channel, Lazy, Session};
use uext4_sync::Rng;
use uext4_testkit::oracle;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 6;
const THREADS: u64 = 4;
const STEPS: u64 = 40;

/// File of one thread: for each block the acknowledged version, the version written since, and the
/// last attempted one.
struct Tracked {
    name: String,
    file: File,
    blocks: [(u8, Option<u8>, u8); BLOCKS as usize],
    errors: u64,
}

impl Tracked {
    fn new(dir: &Path, nr: u64) -> Self {
        let name = format!("file {nr}");
        let path = dir.join(&name);
        let file = OpenOptions::new()
            .create_new(true)
            .read(true)
            .write(true)
            .open(path);
        let mut tracked = Self {
            name,
            file: file.unwrap(),
            blocks: [(0, None, 0); BLOCKS as usize],
            errors: 0,
        };
        (0..BLOCKS / 2).for_each(|block| tracked.write(block));
        tracked.fsync();
        assert_eq!(tracked.errors, 0);
        tracked
    }

    fn write(&mut self, at: u64) {
        let block = &mut self.blocks[at as usize];
        block.2 += 1;
        match self.file.write_all_at(&[block.2; BLOCK], at * BLOCK as u64) {
            Ok(()) => block.1 = Some(block.2),
            Err(_) => self.errors += 1,
        }
    }

    fn fsync(&mut self) {
        let synced = self.file.sync_all();
        self.errors += u64::from(synced.is_err());
        for (acked, sure, _) in &mut self.blocks {
            let written = sure.take();
            *acked = written.filter(|_| synced.is_ok()).unwrap_or(*acked);
        }
    }

    fn work(&mut self, rng: &mut Rng) {
        for _ in 0..STEPS {
            match rng.below(3) {
                0 => self.fsync(),
                _ => self.write(rng.below(BLOCKS)),
            }
        }
    }

    /// Returns a description of a wrong file in this file system.
    fn judge(&self, fs: &Filesystem) -> Option<String> {
        let root = fs.root().unwrap();
        let inode = match fs.lookup(&root, self.name.as_bytes(), &Caller::root()) {
            Ok(inode) => inode,
            Err(error) => return Some(format!("{}: {error}", self.name)),
        };
        for (at, (acked, _, tried)) in (0..).zip(&self.blocks) {
            let mut bytes = [0; BLOCK];
            if let Err(error) = fs.read(&inode, at * BLOCK as u64, &mut bytes) {
                return Some(format!("{} block {at}: {error}", self.name));
            }
            // File-system blocks are smaller.
            if let Some(found) = bytes.iter().find(|byte| !(*acked..=*tried).contains(byte)) {
                let name = &self.name;
                return Some(format!("{name} block {at}: {found}, not {acked}..={tried}"));
            }
        }
        None
    }
}

fn made(has_journal: bool) -> MemDevice {
    let device = MemDevice::new(24 << 20);
    let mut options = MkfsOptions::new(Preset::Ext4);
    if !has_journal {
        let without = options.features.apply_list("^has_journal,^orphan_file");
        without.unwrap();
    }
    uext4::mkfs::format(&device, &options).unwrap();
    device
}

/// A mount over the transport of this test program.
fn serve(filesystem: Filesystem, dir: &Path) -> Session {
    let _on = crate::VIA.switch_on();
    let served = uext4_fuse::MountOptions {
        channel: match crate::VIA {
            Via::DevFuse => Channel::DevFuse,
            Via::IoUring => Channel::IoUring,
        },
        ..uext4_fuse::MountOptions::default()
    };
    let session = Session::start(filesystem, dir, &served).unwrap();
    // The kernel completes `FUSE_INIT` while the switch is on.
    fs::metadata(dir).unwrap();
    session
}

/// One run: a description of a failure, and the number of errors that programs and the unmount got.
fn run(seed: u64) -> (Option<String>, u64) {
    let mut rng = Rng::new(seed);
    let (has_journal, goes_on) = (rng.chance(1, 2), rng.chance(1, 2));
    let cache = Arc::new(VolatileDevice::new(&made(has_journal)));
    let faulty = Arc::new(Faulty::over_cache(cache.clone()));
    let errors = if goes_on {
        "errors=continue"
    } else {
        "errors=remount-ro"
    };
    let options = MountOptions::default().parse(errors).unwrap();
    let filesystem = Filesystem::mount(faulty.clone(), options).unwrap();
    let dir = oracle::scratch_dir().unwrap();
    let session = serve(filesystem, dir.path());
    let mut files: Vec<Tracked> = (0..THREADS)
        .map(|nr| Tracked::new(dir.path(), nr))
        .collect();
    let operation = if rng.chance(2, 3) {
        Operation::Flush
    } else {
        Operation::Write
    };
    let when = match rng.below(3) {
        0 => When::Counted {
            after: rng.below(40),
            count: 1,
        },
        1 => When::Counted {
            after: rng.below(40),
            count: u64::MAX,
        },
        _ => When::Random {
            seed: rng.next_u64(),
            per_mille: 30,
        },
    };
    faulty.arm(Fault {
        operation,
        when,
        cause: Cause::Io,
    });
    std::thread::scope(|scope| {
        for file in &mut files {
            let mut rng = rng.fork();
            scope.spawn(move || file.work(&mut rng));
        }
    });
    // The mount must not be busy.
    for file in &mut files {
        file.file = File::open("/dev/null").unwrap();
    }
    let unmounted = session.unmount(Lazy::Yes);
    let injected = faulty.injected();
    faulty.disarm();
    let told = files.iter().map(|file| file.errors).sum::<u64>() + u64::from(unmounted.is_err());
    let plan = format!("seed {seed} journal {has_journal} {errors} {operation:?}");
    if operation == Operation::Flush && injected > 0 && unmounted.is_ok() {
        return (Some(format!("{plan}: the unmount tells nothing")), told);
    }
    let options = if has_journal { "" } else { "ro" };
    let options = MountOptions::default().parse(options).unwrap();
    let durable = Arc::new(cache.durable());
    let wrong = match Filesystem::mount(durable, options) {
        Ok(fs) => files.iter().find_map(|file| file.judge(&fs)),
        Err(error) => Some(error.to_string()),
    };
    (wrong.map(|wrong| format!("{plan}: {wrong}")), told)
}

#[test]
fn programs_are_told_of_every_byte_that_is_lost() {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    let first: u64 = number("UEXT4_FAULT_SEED").unwrap_or(1);
    let count = number("UEXT4_FAULT_SEEDS").unwrap_or(6);
    let done: Vec<_> = (first..first + count).map(run).collect();
    let wrong: Vec<&String> = done
        .iter()
        .filter_map(|(wrong, _)| wrong.as_ref())
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(done.iter().any(|(_, told)| *told > 0), "no fault was met");
}
