//! Attributes: getattr, setattr, statx, statfs.

use super::{Handled, Server};
use crate::attributes::{put_attr_out, put_statx};
use crate::errno::Errno;
use crate::protocol::fattr;
use crate::reply::Reply;
use crate::request::{Args, Request};
use uext4::{InodeRef, SetAttr, SetTime, Times, Timestamp};
use uext4_num::low_u16;

impl Server {
    pub(super) fn getattr(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let inode = self.get(request.node)?;
        self.check_writer(request, &inode)?;
        put_attr_out(reply, &self.shown(&inode), self.ttl(request.node, &inode));
        Ok(())
    }

    pub(super) fn statx(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let inode = self.get(request.node)?;
        let ttl = self.ttl(request.node, &inode);
        put_statx(reply, &self.shown(&inode), ttl);
        Ok(())
    }

    pub(super) fn setattr(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let inode = self.get(request.node)?;
        let (valid, mut set) = parse(request.args())?;
        self.check_times(&inode, valid, &set)?;
        // The kernel sets the flag for any change of owner, also by the
        // superuser, which keeps setgid. The library applies the superuser's rules itself.
        let kill = valid & fattr::KILL_SUIDGID != 0 && set.mode.is_none();
        let is_given = set.uid.is_some() || set.gid.is_some();
        if kill && !(is_given && self.is_superuser(request)) {
            set.mode = self.mode_without_privileges(request, &inode);
        }
        set.uid = set.uid.map_or(Ok(None), |uid| self.owners.new_user(uid))?;
        set.gid = set.gid.map_or(Ok(None), |gid| self.owners.new_group(gid))?;
        let attr = self
            .filesystem
            .set_attr(&inode, &set, &self.caller(request))?;
        put_attr_out(
            reply,
            &self.show(&inode, attr),
            self.ttl(request.node, &inode),
        );
        Ok(())
    }

    /// The mode after clearing setuid and setgid where the caller may not keep them; `None` if
    /// nothing changes.
    pub(super) fn mode_without_privileges(
        &self,
        request: &Request<'_>,
        inode: &InodeRef,
    ) -> Option<u16> {
        let has_any = self.filesystem.attr(inode).mode & 0o6000 != 0;
        has_any.then(|| {
            self.filesystem
                .mode_without_privileges(inode, &self.caller_in_groups(request))
        })?
    }

    /// Clears setuid and setgid, as a write without privileges does.
    pub(super) fn kill_privileges(
        &self,
        request: &Request<'_>,
        inode: &InodeRef,
        times: Times,
    ) -> Handled {
        if let Some(mode) = self.mode_without_privileges(request, inode) {
            let set = SetAttr {
                mode: Some(mode),
                ctime: (times == Times::Keep).then(|| self.filesystem.attr(inode).ctime),
                ..SetAttr::default()
            };
            self.filesystem
                .set_attr(inode, &set, &self.caller(request))?;
        }
        Ok(())
    }

    pub(super) fn statfs(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let numbers = self.filesystem.statfs_at(&self.get(request.node)?);
        reply.u64(numbers.blocks);
        reply.u64(numbers.blocks_free);
        reply.u64(numbers.blocks_available);
        reply.u64(numbers.inodes);
        reply.u64(numbers.inodes_free);
        for word in [numbers.block_size, numbers.name_max, numbers.block_size] {
            reply.u32(word);
        }
        reply.zeroes(4 + 6 * 4);
        Ok(())
    }
}

/// Reads `struct fuse_setattr_in`; returns its bits of valid fields as well.
fn parse(mut args: Args<'_>) -> Result<(u32, SetAttr), Errno> {
    let (valid, _, _fh) = (args.u32()?, args.u32()?, args.u64()?);
    let (size, _lock_owner) = (args.u64()?, args.u64()?);
    let seconds = [args.u64()?, args.u64()?, args.u64()?];
    let nanoseconds = [args.u32()?, args.u32()?, args.u32()?];
    let (mode, _, uid, gid) = (args.u32()?, args.u32()?, args.u32()?, args.u32()?);
    let has = |bit| valid & bit != 0;
    let at = |which: usize| Timestamp::new(seconds[which].cast_signed(), nanoseconds[which]);
    let time = |bit, now_bit, which| match (has(bit), has(now_bit)) {
        (false, _) => None,
        (true, true) => Some(SetTime::Now),
        (true, false) => Some(SetTime::At(at(which))),
    };
    let set = SetAttr {
        mode: has(fattr::MODE).then_some(low_u16(mode & 0o7777)),
        uid: has(fattr::UID).then_some(uid),
        gid: has(fattr::GID).then_some(gid),
        size_bytes: has(fattr::SIZE).then_some(size),
        atime: time(fattr::ATIME, fattr::ATIME_NOW, 0),
        mtime: time(fattr::MTIME, fattr::MTIME_NOW, 1),
        ctime: has(fattr::CTIME).then(|| at(2)),
        ..SetAttr::default()
    };
    Ok((valid, set))
}
