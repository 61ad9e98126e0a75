//! Look-ups of names, and reads of attributes.

use super::attr::attr_of;
use super::{check_name, retry_lookup, settled};
use crate::ops::filesystem::Filesystem;
use crate::parts::access::Want;
use crate::parts::dir::{self, DirEntry, Visit};
use crate::parts::file;
use crate::parts::times::ChangeTimes;
use crate::state::engine::Fs;
use crate::state::inode::InodeRef;
use crate::state::space::Reserve;
use crate::types::attr::{Attr, Caller, FreeSpace, StatFs};
use crate::types::error::{Error, Result};
use uext4_format::superblock::default_mount_option;
use uext4_format::{FileType, InodeNr};

impl Filesystem {
    /// The root directory, inode 2.
    pub fn root(&self) -> Result<InodeRef> {
        self.run(Fs::root)
    }

    /// The inode with this number, if it is in use and a name may refer to it; else
    /// [`Error::Stale`], because the number is no disk structure and a wrong one no damage.
    pub fn inode(&self, nr: InodeNr) -> Result<InodeRef> {
        self.run(|fs| {
            if fs.hidden.contains(nr) || !fs.base.geometry.contains_inode(nr) {
                return Err(Error::Stale);
            }
            if !fs.space.is_inode_allocated(&fs.base, nr)? {
                return Err(Error::Stale);
            }
            let inode = InodeRef::new(fs.load_inode(nr)?);
            if inode.holds_value() {
                return Err(Error::Stale);
            }
            fs.checked(inode)
        })
    }

    /// As [`Self::inode`], for a number that an earlier call answered and that has been in use
    /// since. A cached inode is answered even after a shutdown.
    pub fn known_inode(&self, nr: InodeNr) -> Result<InodeRef> {
        match self.fs.inodes.cached(nr).map(InodeRef::new) {
            Some(inode) if inode.is_freed() => Err(Error::Stale),
            Some(inode) => Ok(inode),
            None => self.run(|fs| fs.inode(nr)),
        }
    }

    /// Finds `name` in `parent`.
    pub fn lookup(&self, parent: &InodeRef, name: &[u8], caller: &Caller) -> Result<InodeRef> {
        self.run(|fs| {
            check_name(name)?;
            if !parent.is_dir() {
                return Err(Error::NotDirectory);
            }
            fs.may(parent, caller, Want::EXECUTE)?;
            let name = &fs.hashed(name);
            if let Some(known) = dir::lookup_cached(fs, parent, name)? {
                return Ok(known);
            }
            let found = retry_lookup(parent, || dir::lookup(fs, parent.arc(), name))?;
            found.ok_or(Error::NotFound)
        })
    }

    /// Attributes of an inode at present. Takes the inode's lock shared.
    pub fn attr(&self, inode: &InodeRef) -> Attr {
        attr_of(&self.fs, inode)
    }

    /// Calls `visit` for the entries of `dir` from `cookie` on (0 is the start) until it returns
    /// [`Visit::Stop`]. Cookies stay valid while the directory changes.
    pub fn read_dir(
        &self,
        dir: &InodeRef,
        cookie: u64,
        visit: &mut dyn FnMut(DirEntry<'_>) -> Visit,
    ) -> Result<()> {
        self.run(|fs| {
            if !dir.is_dir() {
                return Err(Error::NotDirectory);
            }
            {
                let _shared = dir.index.read();
                settled(dir::read(fs, dir.arc(), cookie, visit).map_err(Into::into))?;
            }
            fs.touch_atime(dir, ChangeTimes::Here);
            Ok(())
        })
    }

    /// Target of a symbolic link.
    pub fn read_link(&self, inode: &InodeRef) -> Result<Vec<u8>> {
        self.run(|fs| match inode.kind() {
            FileType::Symlink => {
                let target = file::read_link(fs, inode)?;
                fs.touch_atime(inode, ChangeTimes::Here);
                Ok(target)
            }
            _ => Err(Error::Invalid("not a symbolic link")),
        })
    }

    /// Returns whether `caller` may do `want`.
    pub fn access(&self, inode: &InodeRef, caller: &Caller, want: Want) -> Result<()> {
        self.run(|fs| fs.may(inode, caller, want))
    }

    /// Timestamp granularity in nanoseconds: a second where inodes have 128 bytes.
    pub fn time_granularity_ns(&self) -> u32 {
        self.fs.base.time_granularity_ns()
    }

    /// The label of the file system, up to 16 bytes; [`Self::tune`] changes it.
    pub fn label(&self) -> Vec<u8> {
        self.fs.base.superblock.read().disk.label().to_vec()
    }

    /// Whether the superblock asks for `data=journal` (`tune2fs -o journal_data`), which is handled
    /// as `data=ordered`: data are on the device before the transaction that maps them, and a crash
    /// may leave a partial overwrite.
    pub fn wants_data_journal(&self) -> bool {
        let bits = self.fs.base.superblock.read().disk.default_mount_opts;
        bits & default_mount_option::JMODE == default_mount_option::JMODE_DATA
    }

    /// Totals of the whole file system.
    pub fn statfs(&self) -> StatFs {
        self.fs.try_reap();
        self.fs.space.statfs(&self.fs.base)
    }

    /// Free capacity for data: none if nothing can be written. Freed blocks count after their
    /// commit.
    pub fn free_space(&self) -> FreeSpace {
        let left = |reserve| match self.fs.writable() {
            Ok(()) => self.fs.space.room_bytes(reserve),
            Err(_) => 0,
        };
        FreeSpace {
            users_bytes: left(Reserve::Keep),
            all_bytes: left(Reserve::MayUse),
        }
    }

    /// As [`Self::statfs`]; a directory with an inheritable project shows the limits of the
    /// project, if they are lower and enforced on this mount.
    pub fn statfs_at(&self, inode: &InodeRef) -> StatFs {
        let mut numbers = self.statfs();
        let project = inode.read().disk.project_of_children();
        if let Some(limits) = project.and_then(|id| self.fs.quota.project_limits(&self.fs.base, id))
        {
            numbers.narrow(&limits);
        }
        numbers
    }
}
