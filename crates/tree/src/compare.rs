//! Compares the trees of two file systems by path.
//!
//! Invariants: memory is bounded by the names on one path, and the numbers of directories and of
//! files with several names. Names are compared in the order of their bytes, so differences come in
//! one order whatever the hash seeds are.
//!
//! Layout: `walk` goes through both trees at once, `file` compares two files.

mod file;
mod walk;

use crate::{Error, Result};
use std::ops::ControlFlow;
use uext4::{FileType, Filesystem, Timestamp};

/// Whether times are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareTimes {
    /// No time is compared.
    No,
    /// Those of access, change of data, change of inode, and birth.
    All,
}

/// One of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The old tree.
    A,
    /// The new tree.
    B,
}

/// One difference between the trees, or a file that cannot be compared.
#[derive(Debug)]
#[non_exhaustive]
pub enum Compared<'c> {
    /// A name is in B only.
    Added(&'c [u8], FileType),
    /// A name is in A only.
    Removed(&'c [u8], FileType),
    /// A file has these changes.
    Changed(&'c [u8], &'c [Change]),
    /// A file of this tree cannot be read; what else it has is compared.
    Failed(Side, &'c Error),
}

/// A difference of two files: the value in A, then in B.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Type; nothing else is compared then.
    Kind(FileType, FileType),
    /// Permission bits with setuid, setgid and sticky.
    Mode(u16, u16),
    /// User id and group id.
    Owner((u32, u32), (u32, u32)),
    /// Size in bytes, except of directories.
    Size(u64, u64),
    /// Major and minor number of a device.
    Device((u32, u32), (u32, u32)),
    /// Target of a symbolic link.
    Target(Vec<u8>, Vec<u8>),
    /// A time, by its name.
    Time(&'static str, Timestamp, Timestamp),
    /// Value of an extended attribute; `None` where it is not there.
    Xattr(Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>),
    /// First byte that differs, up to the end of the shorter file.
    Content(u64),
    /// First name of the file, in the order of the comparison: names are linked differently.
    Links(Vec<u8>, Vec<u8>),
}

/// A comparison of two trees.
///
/// ```
/// # use std::sync::Arc;
/// # use uext4::{Filesystem, MountOptions, device::MemDevice, mkfs};
/// use std::ops::ControlFlow;
/// use uext4_tree::{Compare, Compared};
/// # let made = || {
/// #     let device = Arc::new(MemDevice::new(16 << 20));
/// #     mkfs::format(&*device, &mkfs::MkfsOptions::new(mkfs::Preset::Ext4)).unwrap();
/// #     Filesystem::mount(device, MountOptions::default()).unwrap()
/// # };
/// # let (a, b) = (made(), made());
/// b.paths().write("/new", "Hello").unwrap();
/// let mut added = Vec::new();
/// Compare::new(&a, &b)
///     .run(&mut |compared| {
///         if let Compared::Added(path, _) = compared {
///             added.push(path.to_vec());
///         }
///         ControlFlow::Continue(())
///     })
///     .unwrap();
/// assert_eq!(added, [b"/new"]);
/// ```
pub struct Compare {
    a: Filesystem,
    b: Filesystem,
    times: CompareTimes,
}

impl Compare {
    /// A comparison of `a` with `b` that ignores times.
    pub fn new(a: &Filesystem, b: &Filesystem) -> Self {
        Self {
            a: a.clone(),
            b: b.clone(),
            times: CompareTimes::No,
        }
    }

    /// Whether times are compared.
    pub fn times(self, times: CompareTimes) -> Self {
        Self { times, ..self }
    }

    /// Compares both trees; calls `tell` for each difference and failure.
    ///
    /// # Errors
    /// [`Error::Cancelled`] after `tell` returned `Break`; an unreadable root directory.
    pub fn run(&self, tell: &mut dyn FnMut(Compared<'_>) -> ControlFlow<()>) -> Result<()> {
        walk::Walk::new(self, tell).run()
    }

    fn fs(&self, side: Side) -> &Filesystem {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }
}
