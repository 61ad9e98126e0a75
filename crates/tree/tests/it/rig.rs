//! A scratch directory of the host and a file system in memory.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use uext4::device::{Cause, Fault, Faulty, MemDevice, Operation, When};
use uext4::mkfs::{self, MkfsOptions, Preset};
use uext4::{Filesystem, MountOptions, Threads};
use uext4_testkit::oracle;

pub(crate) struct Rig {
    scratch: tempfile::TempDir,
    pub(crate) device: Arc<MemDevice>,
    pub(crate) fs: Filesystem,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::of_size(16 << 20)
    }

    pub(crate) fn of_size(bytes: u64) -> Self {
        let device = MemDevice::new(bytes);
        mkfs::format(&device, &MkfsOptions::new(Preset::Ext4)).expect("makes a file system");
        Self::on(Arc::new(device))
    }

    pub(crate) fn on(device: Arc<MemDevice>) -> Self {
        let options = MountOptions {
            threads: Threads::Inline,
            ..MountOptions::default()
        };
        let fs = Filesystem::mount(device.clone(), options).expect("mounts");
        let scratch = oracle::scratch_dir().expect("a scratch directory");
        Self {
            scratch,
            device,
            fs,
        }
    }

    /// A path on the host.
    pub(crate) fn host(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Makes files with their name as content; names with a slash at the end are directories.
    pub(crate) fn make(&self, names: &[&str]) {
        for name in names {
            match name.strip_suffix('/') {
                Some(dir) => fs::create_dir_all(self.host(dir)).expect("makes it"),
                None => fs::write(self.host(name), name).expect("makes it"),
            }
        }
    }

    /// A mount of a copy in which the block of this byte of a file cannot be read.
    pub(crate) fn unreadable(&self, path: &str, byte: u64) -> Filesystem {
        self.fs.sync().expect("writes home");
        let inode = self.fs.paths().inode(path).expect("a file");
        let maps = self.fs.fiemap(&inode, byte, 1).expect("has a map");
        let bad = maps[0].physical_bytes + (byte - maps[0].logical_bytes);
        let faulty = Arc::new(Faulty::new(Arc::new(self.device.snapshot())));
        let fs = Filesystem::mount(faulty.clone(), MountOptions::default()).expect("mounts");
        faulty.arm(Fault {
            operation: Operation::Read,
            when: When::Touching(bad..bad + 1),
            cause: Cause::Io,
        });
        fs
    }

    /// Unmounts; e2fsck must find nothing.
    pub(crate) fn assert_clean(self) {
        self.fs.unmount().expect("unmounts");
        let image = self.host("image");
        fs::write(&image, self.device.to_bytes()).expect("writes the image");
        oracle::assert_clean(&image);
    }
}
