//! A small image with changed bytes: mounted, walked, changed and unmounted through the library.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use uext4::device::{BlockDevice, MemDevice};
use uext4::mkfs::{self, MkfsOptions, Preset};
use uext4::{Caller, Filesystem, MountOptions, Result, SetMode, Threads, Visit};

const IMAGE_BYTES: u64 = 2 << 20;
/// Entries of a walk: damage can make a tree endless.
const WALK_MAX: usize = 300;
/// Bytes of a change: where (3) and what (1).
const CHANGE_BYTES: usize = 4;

/// The sound image, made once.
fn base() -> &'static [u8] {
    static BASE: OnceLock<Vec<u8>> = OnceLock::new();
    BASE.get_or_init(|| {
        let device = Arc::new(MemDevice::new(IMAGE_BYTES));
        let options = MkfsOptions {
            block_size: Some(1024),
            uuid: Some([7; 16]),
            hash_seed: Some([9; 16]),
            time: Some(1_700_000_000),
            ..MkfsOptions::new(Preset::Ext4)
        };
        mkfs::format(&*device, &options).expect("mkfs");
        let fs = open(device.clone()).expect("a sound image");
        fill(&fs).expect("a sound image");
        fs.unmount().expect("a sound image");
        let mut bytes = vec![0; IMAGE_BYTES as usize];
        device.read_at(0, &mut bytes).expect("it is in memory");
        bytes
    })
}

fn open(device: Arc<MemDevice>) -> Result<Filesystem> {
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    Filesystem::mount(device, options)
}

fn fill(fs: &Filesystem) -> Result<()> {
    let paths = fs.paths();
    paths.create_dir("/wide")?;
    for i in 0..100 {
        paths.write(format!("/wide/a name in a directory {i}"), b"")?;
    }
    let file = paths.create("/holes")?;
    for i in 0..40 {
        file.write_at(i * 5000, &[7; 100])?;
    }
    fs.set_xattr(
        file.inode(),
        b"user.a",
        &[3; 300],
        SetMode::Any,
        &Caller::root(),
    )?;
    paths.symlink("/wide", "/fast")?;
    Ok(paths.symlink([b's'; 200], "/slow")?)
}

/// The first 4-byte pieces of the input change a byte each.
pub fn image(data: &[u8]) {
    let mut bytes = base().to_vec();
    for change in data.as_chunks::<CHANGE_BYTES>().0.iter().take(64) {
        let [low, middle, high, value] = *change;
        let at = u32::from_le_bytes([low, middle, high, 0]) as usize % bytes.len();
        bytes[at] = value;
    }
    let device = Arc::new(MemDevice::new(IMAGE_BYTES));
    device.write_at(0, &bytes).expect("it is in memory");
    if let Ok(fs) = open(device) {
        let _ = walk(&fs);
        let _ = change(&fs);
        let _ = fs.unmount();
    }
}

fn walk(fs: &Filesystem) -> Result<()> {
    let (caller, mut seen) = (Caller::root(), HashSet::new());
    let mut waiting = vec![fs.root()?];
    while let Some(dir) = waiting.pop() {
        let mut names = Vec::new();
        let _ = fs.read_dir(&dir, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            if names.len() < WALK_MAX {
                Visit::Continue
            } else {
                Visit::Stop
            }
        });
        for name in names.iter().filter(|name| *name != b"." && *name != b"..") {
            let Ok(inode) = fs.lookup(&dir, name, &caller) else {
                continue;
            };
            if seen.len() < WALK_MAX && seen.insert(inode.nr()) {
                let mut buf = [0; 8192];
                let _ = (fs.read(&inode, 0, &mut buf), fs.read_link(&inode));
                for name in fs.list_xattrs(&inode, &caller).unwrap_or_default() {
                    let _ = fs.get_xattr(&inode, &name, &caller);
                }
                if inode.is_dir() {
                    waiting.push(inode);
                }
            }
        }
    }
    Ok(())
}

fn change(fs: &Filesystem) -> Result<()> {
    let paths = fs.paths();
    let _ = paths.write("/holes", [5; 30_000]);
    let _ = paths.rename("/wide/a name in a directory 7", "/moved");
    let _ = paths.write("/new", [6; 3000]);
    let _ = paths.remove_file("/slow");
    let _ = paths.remove_dir_all("/wide");
    fs.sync()
}
