//! Differential test against the kernel: the same operations by the same users on a kernel mount
//! and on the library give the same errno, attributes and changed times.

mod host;
mod library;
mod ranges;
mod rights;
mod times;

use crate::image;
use host::Host;
use library::Library;
use uext4_testkit::oracle::{self, KernelMount};

/// Umask on both sides.
const UMASK: u16 = 0o022;

/// Identity of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    uid: u32,
    gid: u32,
    groups: &'static [u32],
}

const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: &[],
};

/// One operation on paths relative to the root directory, of at most two components.
#[derive(Clone, Debug)]
enum Op {
    Create(String, u16),
    Mkdir(String, u16),
    Symlink(String),
    Unlink(String),
    Rmdir(String),
    Rename(String, String),
    Link(String, String),
    Chmod(String, u16),
    Chown(String, Option<u32>, Option<u32>),
    Touch(String),
    SetTimes(String),
    SetAtime(String),
    Truncate(String, u64),
    Write(String),
    Read(String),
    ReadDir(String),
    ReadLink(String),
    SetXattr(String, &'static str, Vec<u8>),
    GetXattr(String, &'static str),
    RemoveXattr(String, &'static str),
}

/// Attributes of a file that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stat {
    mode: u32,
    links: u32,
    uid: u32,
    gid: u32,
    size: Option<u64>,
    /// Access, modification and change time in nanoseconds, compared only with earlier values of
    /// the same side.
    times: Times,
}

type Times = [i128; 3];

/// One implementation; operations return an errno, 0 for success.
trait Side {
    fn run(&self, caller: Identity, op: &Op) -> i32;
    fn stat(&self, path: &str) -> Option<Stat>;
}

impl Op {
    /// The paths that it touches, without their parent directories.
    fn paths(&self) -> Vec<&str> {
        use Op::*;
        match self {
            Rename(a, b) | Link(a, b) => vec![a, b],
            Create(a, _) | Mkdir(a, _) | Chmod(a, _) | Chown(a, ..) | Truncate(a, _) => vec![a],
            Symlink(a) | Unlink(a) | Rmdir(a) | Touch(a) | SetTimes(a) | SetAtime(a) => vec![a],
            Write(a) | Read(a) | ReadDir(a) | ReadLink(a) => vec![a],
            SetXattr(a, ..) | GetXattr(a, _) | RemoveXattr(a, _) => vec![a],
        }
    }
}

/// The directory of a path, and the name in it.
fn split(path: &str) -> (&str, &str) {
    path.split_once('/').unwrap_or(("", path))
}

/// The bytes of an ACL attribute from (tag, permissions, id).
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(perm.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// Runs `test` on a kernel mount and the library, on two copies of an image that `prepare` filled.
fn side_by_side(
    shape: &[&str],
    prepare: impl FnOnce(&std::path::Path),
    test: impl FnOnce(&Host, &Library),
) {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(UMASK.into()));
    let (dir, path) = oracle::mke2fs_image(24 << 20, shape).expect("mke2fs");
    let mount = KernelMount::new(&path, "").expect("the kernel mounts it");
    prepare(mount.path());
    mount.unmount().expect("unmounts");
    let bytes = std::fs::read(&path).expect("the image");
    let device = std::sync::Arc::new(uext4::device::MemDevice::from_bytes(&bytes));
    let mount = KernelMount::new(&path, "").expect("the kernel mounts it");
    let library = Library::new(image::mount(&device));
    test(&Host::new(mount.path()), &library);
    library.unmount();
    image::assert_clean(&device);
    mount.unmount().expect("unmounts");
    oracle::assert_clean(&path);
    drop(dir);
}
