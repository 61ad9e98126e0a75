//! New inodes: number, owner, mode, flags inherited from the parent.

use crate::parts::{file, map, quota_files, xattr};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef, NewInode, flags};
use crate::state::quota::rights_of as quota_rights;
use crate::state::quota::{Claim, Owners, Usage};
use crate::types::attr::Caller;
use crate::types::error::Result;
use crate::types::settings::Switch;
use uext4_format::extent::ExtentNode;
use uext4_format::{
    DeviceNumber, Feature, FileType, Inode as DiskInode, InodeFlags, LogicalBlock, WithExtra,
};
use uext4_journal::Handle;
use uext4_sync::Arc;

/// A prepared inode, complete except for its number. It is drafted without a handle, which shortens
/// the time that a transaction waits for the handle.
pub(crate) struct InodeDraft {
    pub(crate) kind: FileType,
    disk: DiskInode,
    acl: xattr::Inherited,
}

impl Fs {
    /// Drafts an inode for `parent`: one link (two for a directory), owner, mode after umask and
    /// default ACL.
    pub(crate) fn draft_inode(
        &self,
        parent: &Inode,
        new: &NewInode<'_>,
        caller: &Caller,
    ) -> Result<InodeDraft> {
        let acl = xattr::inherit_acl(self, parent, new, caller.umask)?;
        let mut disk = self.blank_inode(parent, new, caller);
        disk.generation = self.base.random.next();
        disk.mode = new.kind.mode_bits() | (disk.mode & 0o7000) | acl.mode;
        let kind = new.kind;
        Ok(InodeDraft { kind, disk, acl })
    }

    /// Allocates an inode in the handle's transaction and fills it from the draft. It has no name
    /// yet.
    pub(crate) fn new_inode(
        &self,
        handle: &Handle<'_>,
        parent: &Inode,
        draft: &InodeDraft,
    ) -> Result<InodeRef> {
        let InodeDraft { kind, disk, acl } = draft;
        let nr = self.space.alloc_inode(
            &self.base,
            handle,
            &parent.near(*kind, disk.generation),
            *kind,
        )?;
        let inode = self.inodes.insert_new(&self.space, handle, nr, disk)?;
        let inode = InodeRef::new(inode);
        {
            let state = inode.read();
            self.quota.charge(handle, (nr, &state.disk), Usage::INODE);
        }
        if let Err(error) = self.furnish(handle, inode.arc(), *kind, acl) {
            self.abandon_inode(handle, inode.arc())?;
            return Err(error);
        }
        Ok(inode)
    }

    /// Stores the initial attributes of a new inode.
    fn furnish(
        &self,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
        kind: FileType,
        acl: &xattr::Inherited,
    ) -> Result<()> {
        xattr::store_inherited(self, handle, inode, acl)?;
        if kind == FileType::Regular {
            file::init_inline(self, handle, inode)?;
        }
        Ok(())
    }

    /// Turns an inode that got no name into an orphan; its last user frees it.
    pub(crate) fn abandon_inode(&self, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        handle.write(inode).disk.links = 0;
        inode.set_links(0);
        self.orphans.add(&self.base, handle, inode)
    }

    /// Ensures quota entries for the future owners, and reserves quota for the inode and for the
    /// first block of a directory. The caller has no handle.
    pub(crate) fn reserve_inode_quota(&self, draft: &InodeDraft, caller: &Caller) -> Result<Claim> {
        if !self.quota.is_on() {
            return Ok(Claim::default());
        }
        let owners = Owners::of(&draft.disk);
        let kept = quota_files::ensure(self, owners)?;
        let has_block =
            draft.kind == FileType::Directory && !self.base.features.has(Feature::INLINE_DATA);
        let bytes = u64::from(has_block) * self.base.geometry.cluster_size();
        let reserve = quota_rights(caller);
        let claim = self.quota.claim_inode(&self.base, owners, bytes, reserve)?;
        Ok(claim.with(kept))
    }

    /// Reserves quota for blocks that a directory grows by. The caller has no handle.
    pub(crate) fn reserve_growth_quota(
        &self,
        dir: &Inode,
        blocks: u32,
        caller: &Caller,
    ) -> Result<Claim> {
        if blocks == 0 {
            return Ok(Claim::default());
        }
        self.quota
            .claim_blocks(&self.base, quota_rights(caller), || {
                let state = dir.read();
                let end = state.disk.size >> self.base.geometry.block_bits;
                let at = LogicalBlock(u32::try_from(end).unwrap_or(u32::MAX));
                let tree = if state.disk.flags.contains(InodeFlags::INLINE_DATA) {
                    0
                } else {
                    map::tree_growth(self, &state, at)?
                };
                let ratio = u64::from(self.base.geometry.blocks_per_cluster());
                Ok((
                    Owners::of(&state.disk),
                    u64::from(blocks).div_ceil(ratio) + tree,
                ))
            })
    }

    fn blank_inode(&self, parent: &Inode, new: &NewInode<'_>, caller: &Caller) -> DiskInode {
        let now = self.now();
        let mut disk = DiskInode::new(&self.base.geometry, self.extra_isize.want);
        let parent = parent.facts();
        let directory = new.kind == FileType::Directory;
        disk.mode = new.mode;
        disk.links = if directory { 2 } else { 1 };
        (disk.uid, disk.gid) = caller.new_ids();
        if parent.mode & 0o2000 != 0 || self.base.settings.has(Switch::GroupFromParent) {
            disk.gid = parent.gid;
        }
        if parent.mode & 0o2000 != 0 {
            disk.mode = set_gid(disk.mode, directory, caller, parent.gid);
        }
        let extra = disk.times_have_extra();
        let now = now.as_stored(extra);
        (disk.atime, disk.mtime, disk.ctime) = (now, now, now);
        if extra == WithExtra::Yes {
            disk.crtime = now;
        }
        disk.flags = self.new_flags(parent.flags, new.kind);
        if let Some(project) = parent.project_of_children()
            && disk.has_projid()
        {
            disk.projid = project;
        }
        if matches!(new.kind, FileType::CharDevice | FileType::BlockDevice) {
            let (major, minor) = new.device;
            disk.set_device_number(DeviceNumber { major, minor });
        } else if disk.flags.contains(InodeFlags::EXTENTS) {
            ExtentNode::init_root(&mut disk.i_block[..], 0);
        }
        disk
    }

    fn new_flags(&self, parent: InodeFlags, kind: FileType) -> InodeFlags {
        let mut flags = flags::inherited(parent, kind);
        let has_data = matches!(
            kind,
            FileType::Regular | FileType::Directory | FileType::Symlink
        );
        if has_data && self.base.features.has(Feature::EXTENTS) {
            flags.insert(InodeFlags::EXTENTS);
        }
        let inlines = matches!(kind, FileType::Regular | FileType::Directory);
        if inlines && self.base.features.has(Feature::INLINE_DATA) {
            flags.remove(InodeFlags::EXTENTS);
            flags.insert(InodeFlags::INLINE_DATA);
        }
        flags
    }
}

/// In a setgid directory, directories inherit the bit; a group-executable file keeps its own bit
/// only if the caller belongs to the group.
fn set_gid(mode: u16, directory: bool, caller: &Caller, gid: u32) -> u16 {
    if directory {
        return mode | 0o2000;
    }
    let executable = mode & 0o2010 == 0o2010;
    if executable && !caller.is_superuser() && !caller.creates_in_group(gid) {
        mode & !0o2000
    } else {
        mode
    }
}
