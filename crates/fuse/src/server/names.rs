//! Names: lookup, create, link, rename, unlink, forget.

use super::{Handled, Server};
use crate::attributes::{device_of, put_entry, put_no_entry};
use crate::errno::Errno;
use crate::reply::Reply;
use crate::request::Request;
use uext4::{Error, FileType, InodeRef, RenameFlags};
use uext4_num::low_u16;

/// `RENAME_*` of `renameat2(2)`.
const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;
const RENAME_WHITEOUT: u32 = 4;

impl Server {
    pub(super) fn lookup(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let name = request.args().name()?;
        let caller = request.caller(0);
        // NFS servers look up "." and ".." of inodes that the kernel may have forgotten.
        let found = match name {
            b"." => Ok(self.get_named(request.node)?),
            b".." => self
                .filesystem
                .lookup(&self.get_any(request.node)?, name, &caller),
            _ => self
                .filesystem
                .lookup(&self.get(request.node)?, name, &caller),
        };
        match found {
            Ok(inode) => self.entry(inode, reply),
            Err(Error::NotFound) => {
                put_no_entry(reply);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Counts a lookup of `inode` and puts its entry.
    pub(super) fn entry(&self, inode: InodeRef, reply: &mut Reply) -> Handled {
        let attr = self.shown(&inode);
        let node = self.nodes.insert(&inode);
        put_entry(reply, node, &attr, self.ttl(node, &inode));
        Ok(())
    }

    pub(super) fn forget(&self, request: &Request<'_>) -> Handled {
        self.forget_node(request.node, request.args().u64()?);
        Ok(())
    }

    pub(super) fn batch_forget(&self, request: &Request<'_>) -> Handled {
        let mut args = request.args();
        let (count, _) = (args.u32()?, args.u32()?);
        for _ in 0..count {
            self.forget_node(args.u64()?, args.u64()?);
        }
        Ok(())
    }

    fn forget_node(&self, node: u64, lookups: u64) {
        if let Some(inode) = self.nodes.forget(node, lookups) {
            self.let_go(inode);
        }
    }

    /// Drops a hold. Any operation frees inodes that lost their last user; an idle mount has none,
    /// so the space would stay allocated.
    fn let_go(&self, inode: InodeRef) {
        let nameless = inode.is_nameless();
        drop(inode);
        if nameless {
            // An error is recorded in the superblock.
            let _ = self.filesystem.root();
        }
    }

    /// Runs a removal, and holds the inode that lost its last name while the kernel knows it.
    fn remove(
        &self,
        removal: impl FnOnce(&mut dyn FnMut(&InodeRef)) -> uext4::Result<()>,
    ) -> Handled {
        let mut victim = None;
        let done = removal(&mut |inode| victim = Some(inode.clone()));
        let nameless = victim.filter(|inode: &InodeRef| inode.is_nameless());
        if let Some(unknown) = nameless.and_then(|inode| self.nodes.keep(inode)) {
            self.let_go(unknown);
        }
        Ok(done?)
    }

    pub(super) fn mknod(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let mut args = request.args();
        let (mode, rdev, umask) = (args.u32()?, args.u32()?, args.u32()?);
        args.skip(4)?;
        let name = args.name()?;
        let parent = self.get(request.node)?;
        let caller = self.maker(request, umask, &parent)?;
        let permissions = low_u16(mode & 0o7777);
        let kind = FileType::from_mode(low_u16(mode)).unwrap_or(FileType::Regular);
        let device = device_of(rdev);
        let made = self
            .filesystem
            .mknod(&parent, name, kind, permissions, device, &caller)?;
        self.entry(made, reply)
    }

    pub(super) fn mkdir(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let mut args = request.args();
        let (mode, umask) = (args.u32()?, args.u32()?);
        let name = args.name()?;
        let parent = self.get(request.node)?;
        let permissions = low_u16(mode & 0o7777);
        let caller = self.maker(request, umask, &parent)?;
        let made = self.filesystem.mkdir(&parent, name, permissions, &caller)?;
        self.entry(made, reply)
    }

    pub(super) fn symlink(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let mut args = request.args();
        let (name, target) = (args.name()?, args.name()?);
        let parent = self.get(request.node)?;
        let caller = self.maker(request, 0, &parent)?;
        let made = self.filesystem.symlink(&parent, name, target, &caller)?;
        self.entry(made, reply)
    }

    pub(super) fn link(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let mut args = request.args();
        let inode = self.get(args.u64()?)?;
        let parent = self.get(request.node)?;
        self.filesystem
            .link(&inode, &parent, args.name()?, &self.caller(request))?;
        self.entry(inode, reply)
    }

    pub(super) fn unlink(&self, request: &Request<'_>) -> Handled {
        let parent = self.get(request.node)?;
        let (name, caller) = (request.args().name()?, request.caller(0));
        self.remove(|victim| {
            self.filesystem
                .unlink_watched(&parent, name, &caller, victim)
        })
    }

    pub(super) fn rmdir(&self, request: &Request<'_>) -> Handled {
        let parent = self.get(request.node)?;
        let (name, caller) = (request.args().name()?, request.caller(0));
        self.remove(|victim| {
            self.filesystem
                .rmdir_watched(&parent, name, &caller, victim)
        })
    }

    pub(super) fn rename(&self, request: &Request<'_>) -> Handled {
        let mut args = request.args();
        let to = args.u64()?;
        self.move_name(
            request,
            args.name()?,
            to,
            args.name()?,
            RenameFlags::Replace,
        )
    }

    pub(super) fn rename2(&self, request: &Request<'_>) -> Handled {
        let mut args = request.args();
        let (to, flags, _) = (args.u64()?, args.u32()?, args.u32()?);
        self.move_name(
            request,
            args.name()?,
            to,
            args.name()?,
            rename_flags(flags)?,
        )
    }

    fn move_name(
        &self,
        request: &Request<'_>,
        from_name: &[u8],
        to: u64,
        to_name: &[u8],
        flags: RenameFlags,
    ) -> Handled {
        let (from, to) = (self.get(request.node)?, self.get(to)?);
        let caller = match flags {
            RenameFlags::Whiteout | RenameFlags::WhiteoutNoReplace => {
                self.maker(request, 0, &from)?
            }
            _ => self.caller(request),
        };
        let (from, to) = ((&from, from_name), (&to, to_name));
        self.remove(|victim| {
            self.filesystem
                .rename_watched(from, to, flags, &caller, victim)
        })
    }
}

fn rename_flags(flags: u32) -> Result<RenameFlags, Errno> {
    const WHITEOUT_NOREPLACE: u32 = RENAME_WHITEOUT | RENAME_NOREPLACE;
    match flags {
        0 => Ok(RenameFlags::Replace),
        RENAME_NOREPLACE => Ok(RenameFlags::NoReplace),
        RENAME_EXCHANGE => Ok(RenameFlags::Exchange),
        RENAME_WHITEOUT => Ok(RenameFlags::Whiteout),
        WHITEOUT_NOREPLACE => Ok(RenameFlags::WhiteoutNoReplace),
        _ => Err(Errno::EINVAL),
    }
}
