//! Images in memory, and their check by e2fsck.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uext4::device::{BlockDevice, CrashLog, Error, MemDevice, Survivors, Tearing};
use uext4::mkfs::{self, MkfsOptions, Preset};
use uext4::{Filesystem, MountOptions, Threads};
use uext4_testkit::oracle;

/// A fresh file system of this many MiB.
pub(crate) fn fresh(mib: u64, options: &MkfsOptions) -> Arc<MemDevice> {
    let device = Arc::new(MemDevice::new(mib << 20));
    mkfs::format(&*device, options).expect("mkfs of a plain image");
    device
}

/// The default ext4.
pub(crate) fn ext4(mib: u64) -> Arc<MemDevice> {
    fresh(mib, &MkfsOptions::new(Preset::Ext4))
}

/// A device that accepts writes only after a request, as an image opened for reading does.
pub(crate) struct Sealed {
    device: Arc<dyn BlockDevice>,
    is_open: AtomicBool,
}

impl Sealed {
    pub(crate) fn new(device: Arc<dyn BlockDevice>) -> Arc<Self> {
        let is_open = AtomicBool::new(false);
        Arc::new(Self { device, is_open })
    }
}

impl BlockDevice for Sealed {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.device.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        match self.is_read_only() {
            true => Err(Error::ReadOnly),
            false => self.device.write_at(offset, buf),
        }
    }
    fn flush(&self) -> Result<(), Error> {
        self.device.flush()
    }
    fn is_read_only(&self) -> bool {
        !self.is_open.load(Ordering::SeqCst)
    }
    fn begin_writing(&self) -> Result<(), Error> {
        self.is_open.store(true, Ordering::SeqCst);
        Ok(())
    }
    fn describe(&self) -> String {
        self.device.describe()
    }
}

/// An image made by mke2fs.
pub(crate) fn mke2fs(mib: u64, options: &[&str]) -> Arc<MemDevice> {
    let (_dir, path) = oracle::mke2fs_image(mib << 20, options).expect("mke2fs");
    Arc::new(MemDevice::from_bytes(
        &std::fs::read(path).expect("the image"),
    ))
}

/// Mounts without background threads.
pub(crate) fn mount(device: &Arc<MemDevice>) -> Filesystem {
    mount_with(device, "").expect("mount of a good image")
}

/// As [`mount`], with a list of options.
pub(crate) fn mount_with(device: &Arc<MemDevice>, list: &str) -> uext4::Result<Filesystem> {
    let options = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    Filesystem::mount(device.clone(), options.parse(list)?)
}

/// The image as a file, for the kernel and the tools.
pub(crate) fn on_disk(device: &MemDevice) -> (tempfile::TempDir, PathBuf) {
    let dir = oracle::scratch_dir().expect("a scratch directory");
    let path = dir.path().join("image");
    let file = std::fs::File::create(&path).expect("an image file");
    file.set_len(device.size_bytes()).expect("a sparse image");
    copy_out(device, &path);
    (dir, path)
}

/// Panics with e2fsck's report unless the image is clean.
pub(crate) fn assert_clean(device: &MemDevice) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("image");
    let file = std::fs::File::create(&path).expect("an image file");
    file.set_len(device.size_bytes()).expect("a sparse image");
    copy_out(device, &path);
    let out = Command::new("e2fsck")
        .arg("-fn")
        .arg(&path)
        .output()
        .expect("e2fsck is installed");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success(),
        "e2fsck -fn: {text}{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

fn copy_out(device: &MemDevice, path: &std::path::Path) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .expect("the image file");
    let mut chunk = vec![0; 1 << 16];
    for at in (0..device.size_bytes()).step_by(chunk.len()) {
        let len = (device.size_bytes() - at).min(chunk.len() as u64) as usize;
        device.read_at(at, &mut chunk[..len]).expect("memory reads");
        if chunk[..len].iter().any(|byte| *byte != 0) {
            file.write_all_at(&chunk[..len], at)
                .expect("the temporary file system has room");
        }
    }
}

/// Cuts power at every event of `log`; none, all or some of the pending writes survive. Each image
/// is mounted and passed to `check` with the cut. e2fsck checks every fourth cut, unless all writes
/// survived.
pub(crate) fn at_every_cut(log: &mut CrashLog, check: impl Fn(&Filesystem, &CrashLog, usize)) {
    log.keep_whole(1024..2048);
    assert!(log.len() > 10);
    for cut in 0..=log.len() {
        let (seed, tearing) = (cut as u64, Tearing::Sectors);
        let some = Survivors::Seeded { seed, tearing };
        for survivors in [Survivors::All, Survivors::None, some] {
            let image = Arc::new(log.image(cut, survivors));
            let fs = mount(&image);
            check(&fs, log, cut);
            fs.unmount().unwrap();
            if cut % 4 == 0 && survivors != Survivors::All {
                assert_clean(&image);
            }
        }
    }
}
