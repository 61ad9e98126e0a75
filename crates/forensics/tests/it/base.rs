//! Images with a history: files made, changed and deleted in several transactions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::device::{Access, BlockDevice, FileDevice};
use uext4::{Caller, Filesystem, MountOptions, Threads, WriteContext};
use uext4_forensics::{Image, Memory, Ring};
use uext4_testkit::oracle;

pub(crate) const MODERN: &[&str] = &["-b", "1024", "-J", "size=1"];
pub(crate) const WIDE: &[&str] = &["-b", "4096", "-J", "size=4"];
pub(crate) const OLD: &[&str] = &["-b", "1024", "-O", "^extents,^metadata_csum,^64bit"];

/// An image whose log is to be replayed, and the same after its unmount.
pub(crate) struct Made {
    _dir: tempfile::TempDir,
    pub(crate) live: PathBuf,
    pub(crate) clean: PathBuf,
}

/// Makes the images.
pub(crate) fn made(options: &[&str]) -> Made {
    let dir = oracle::scratch_dir().expect("a directory");
    let (live, clean) = (dir.path().join("live"), dir.path().join("clean"));
    oracle::mke2fs(&clean, 16 << 20, options).expect("mke2fs");
    let fs = mount(&clean);
    fill(&fs).expect("there is space");
    std::fs::copy(&clean, &live).expect("a copy");
    fs.unmount().expect("it closes");
    Made {
        _dir: dir,
        live,
        clean,
    }
}

pub(crate) fn mount(path: &Path) -> Filesystem {
    let device = Arc::new(FileDevice::open(path, Access::ReadWrite).expect("it is there"));
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    Filesystem::mount(device, options).expect("it is sound")
}

/// The content of a file, by its name.
pub(crate) fn content(name: &str, len: usize) -> Vec<u8> {
    let mut rng = uext4_testkit::rng::Rng::new(name.bytes().map(u64::from).sum());
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}

fn fill(fs: &Filesystem) -> uext4::Result<()> {
    let (root, caller) = (fs.root()?, Caller::root());
    let dir = fs.mkdir(&root, b"dir", 0o755, &caller)?;
    for i in 0..20 {
        let name = format!("file{i}");
        let file = fs.create(&dir, name.as_bytes(), 0o644, &caller)?;
        let bytes = content(&name, 700 * (i + 1));
        fs.write(&file, 0, &bytes, &WriteContext::ROOT)?;
    }
    // A file with nodes in blocks of their own.
    let holes = fs.create(&dir, b"holes", 0o644, &caller)?;
    for i in 0..200 {
        fs.write(
            &holes,
            i * 8192,
            &content("holes", 600),
            &WriteContext::ROOT,
        )?;
    }
    fs.sync()?;
    let gone = fs.mkdir(&root, b"gone", 0o755, &caller)?;
    let inner = fs.create(&gone, b"inner", 0o600, &caller)?;
    fs.write(&inner, 0, &content("inner", 5000), &WriteContext::ROOT)?;
    fs.sync()?;
    for i in (0..20).step_by(2) {
        fs.unlink(&dir, format!("file{i}").as_bytes(), &caller)?;
    }
    fs.sync()?;
    drop((inner, holes));
    fs.unlink(&gone, b"inner", &caller)?;
    fs.unlink(&dir, b"holes", &caller)?;
    fs.rmdir(&root, b"gone", &caller)?;
    drop(gone);
    fs.sync()
}

/// Opens an image with its log.
pub(crate) fn open(path: &Path, memory: &Memory) -> uext4_forensics::Result<(Image, Option<Ring>)> {
    let device = FileDevice::open(path, Access::ReadOnly)?;
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let mut image = Image::open(device, None, memory)?;
    let ring = image.read_log(None, memory)?;
    Ok((image, ring))
}
