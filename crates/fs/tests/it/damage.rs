//! Damaged images are mounted, walked, written and unmounted: no panic, no hang, and errors that
//! name the place.
//!
//! More seeds: `UEXT4_DAMAGE_SEEDS=10000 cargo test -p uext4 --test it damage`.
//! One seed: `UEXT4_DAMAGE_FIRST=4711 UEXT4_DAMAGE_SEEDS=1 ...`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use uext4::device::{Access, FileDevice};
use uext4::mkfs::{self, MkfsOptions, Preset};
use uext4::{
    Caller, FallocateMode, FileType, Filesystem, InodeRef, MountOptions, SetMode, Threads, Visit,
    WriteContext,
};
use uext4_testkit::damage::{Checksums, Target, Wound};

/// Time limit of one image.
const DEADLINE: Duration = Duration::from_secs(60);
/// Limit of entries per walk, because damage can make a tree endless.
const WALK_MAX: usize = 3000;

pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Peak resident memory of this process, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok());
    number.expect("Linux tells the peak of every process")
}

fn open(path: &Path) -> uext4::Result<Filesystem> {
    let device = Arc::new(FileDevice::open(path, Access::ReadWrite)?);
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    Filesystem::mount(device, options)
}

/// An image with files of all kinds and a journal that needs replay.
pub(crate) fn base(path: &Path, block_size: u32) {
    let device = FileDevice::create(path, 12 << 20).expect("an image file");
    let options = MkfsOptions {
        block_size: Some(block_size),
        ..MkfsOptions::new(Preset::Ext4)
    };
    mkfs::format(&device, &options).expect("mkfs");
    drop(device);
    let fs = open(path).expect("mount of a sound image");
    fill(&fs).expect("filling a sound image");
    fs.sync().expect("sync of a sound image");
    fs.abandon();
}

fn fill(fs: &Filesystem) -> uext4::Result<()> {
    let root_user = Caller::root();
    let root = fs.root()?;
    let wide = fs.mkdir(&root, b"wide", 0o755, &root_user)?;
    for i in 0..600 {
        fs.create(
            &wide,
            format!("a name in a wide directory {i}").as_bytes(),
            0o644,
            &root_user,
        )?;
    }
    let holes = fs.create(&root, b"holes", 0o644, &root_user)?;
    for i in 0..300 {
        fs.write(&holes, i * 16384, &[i as u8; 600], &WriteContext::ROOT)?;
    }
    fs.fallocate(
        &holes,
        FallocateMode::Allocate,
        8 << 20..(8 << 20) + 100_000,
        &WriteContext::ROOT,
    )?;
    let rich = fs.create(&root, b"rich", 0o644, &root_user)?;
    for i in 0..7 {
        let name = format!("user.attribute{i}");
        fs.set_xattr(&rich, name.as_bytes(), &[i; 70], SetMode::Any, &root_user)?;
    }
    fs.symlink(&root, b"fast", b"wide", &root_user)?;
    fs.symlink(&root, b"slow", &[b's'; 300], &root_user)?;
    fs.mknod(
        &root,
        b"node",
        FileType::CharDevice,
        0o600,
        (1, 3),
        &root_user,
    )?;
    fs.link(&rich, &wide, b"second name", &root_user)
}

/// Mounts, walks and changes the image. Returns the first error.
fn exercise(path: &Path) -> Option<uext4::Error> {
    let fs = match open(path) {
        Ok(fs) => fs,
        Err(error) => return Some(error),
    };
    let mut first = walk(&fs).err();
    first = first.or(change(&fs).err());
    first.or(fs.unmount().err())
}

fn walk(fs: &Filesystem) -> uext4::Result<()> {
    let caller = Caller::root();
    let mut seen = HashSet::new();
    let mut waiting = vec![fs.root()?];
    let mut first = None;
    while let Some(dir) = waiting.pop() {
        let mut names = Vec::new();
        let listed = fs.read_dir(&dir, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            if names.len() < WALK_MAX {
                Visit::Continue
            } else {
                Visit::Stop
            }
        });
        first = first.or(listed.err());
        for name in names.iter().filter(|name| *name != b"." && *name != b"..") {
            match fs.lookup(&dir, name, &caller) {
                Ok(inode) if seen.len() < WALK_MAX && seen.insert(inode.nr()) => {
                    first = first.or(look(fs, &inode).err());
                    if inode.is_dir() {
                        waiting.push(inode);
                    }
                }
                Ok(_) => {}
                Err(error) => first = first.or(Some(error)),
            }
        }
    }
    first.map_or(Ok(()), Err)
}

fn look(fs: &Filesystem, inode: &InodeRef) -> uext4::Result<()> {
    let attr = fs.attr(inode);
    for name in fs.list_xattrs(inode, &Caller::root())? {
        fs.get_xattr(inode, &name, &Caller::root())?;
    }
    match attr.kind {
        FileType::Symlink => drop(fs.read_link(inode)?),
        FileType::Regular => {
            let mut buf = vec![0; 1 << 16];
            for offset in [
                0,
                1 << 20,
                attr.size_bytes / 2,
                attr.size_bytes.saturating_sub(100),
            ] {
                fs.read(inode, offset, &mut buf)?;
            }
            fs.fiemap(inode, 0, u64::MAX)?;
        }
        _ => {}
    }
    Ok(())
}

fn change(fs: &Filesystem) -> uext4::Result<()> {
    let caller = Caller::root();
    let root = fs.root()?;
    let new = fs.mkdir(&root, b"new directory", 0o755, &caller)?;
    for i in 0..40 {
        let file = fs.create(&new, format!("new {i}").as_bytes(), 0o644, &caller)?;
        fs.write(&file, i * 1000, &[7; 5000], &WriteContext::ROOT)?;
    }
    let holes = fs.lookup(&root, b"holes", &caller)?;
    fs.write(&holes, 100_000, &[9; 50_000], &WriteContext::ROOT)?;
    fs.truncate(&holes, 70_000)?;
    let rich = fs.lookup(&root, b"rich", &caller)?;
    fs.set_xattr(&rich, b"user.attribute3", &[1; 300], SetMode::Any, &caller)?;
    let wide = fs.lookup(&root, b"wide", &caller)?;
    for i in 0..600 {
        fs.unlink(
            &wide,
            format!("a name in a wide directory {i}").as_bytes(),
            &caller,
        )?;
    }
    fs.sync()
}

/// Runs [`exercise`] on a separate thread, to detect a hang.
fn guarded(path: PathBuf) -> Result<Option<uext4::Error>, String> {
    let (done, answer) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        let outcome = exercise(&path);
        // The receiver may have given up.
        let _ = done.send(());
        outcome
    });
    match answer.recv_timeout(DEADLINE) {
        Err(mpsc::RecvTimeoutError::Timeout) => Err("hangs".into()),
        _ => worker.join().map_err(|_| "panics".into()),
    }
}

#[test]
fn damaged_images_are_refused_or_survived() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("shared memory");
    let bases: Vec<PathBuf> = [4096, 1024]
        .map(|block_size| {
            let path = dir.path().join(format!("base{block_size}"));
            base(&path, block_size);
            path
        })
        .into();
    let first = number("UEXT4_DAMAGE_FIRST", 0);
    let image = dir.path().join("image");
    let (mut wounds, mut refused) = (0, 0);
    for seed in first..first + number("UEXT4_DAMAGE_SEEDS", 360) {
        let target = Target::ALL[seed as usize % Target::ALL.len()];
        let checksums = if seed / 12 % 3 == 0 {
            Checksums::Left
        } else {
            Checksums::Fixed
        };
        std::fs::copy(&bases[seed as usize / 36 % 2], &image).expect("a copy of the base");
        let Some(wound) = Wound::inflict(&image, target, seed, checksums).expect("a wound") else {
            continue;
        };
        wounds += 1;
        match guarded(image.clone()) {
            Err(what) => panic!("seed {seed} {what}: {wound}"),
            Ok(Some(uext4::Error::Corrupt(corrupt))) => {
                refused += 1;
                let words = corrupt.to_string();
                assert!(
                    words.contains(corrupt.structure),
                    "seed {seed}: {wound}: {words}"
                );
            }
            Ok(Some(_)) => refused += 1,
            Ok(None) => {}
        }
    }
    println!(
        "{wounds} wounds, {refused} noticed, {} KiB of memory",
        peak_kib()
    );
    // Some damage is harmless. If little is noticed, the test damages the wrong places.
    assert!(
        refused * 4 > wounds,
        "{refused} of {wounds} wounds were noticed"
    );
}
