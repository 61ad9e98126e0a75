//! What a change of data by who is not the superuser takes away: setuid, setgid, capabilities.

use crate::access::without_privileges;
use crate::inode::Inode;
use crate::{Caller, Filesystem, Fs, InodeRef, Result, credits, xattr};
use uext4_format::FileType;

/// What a write does to setuid and setgid bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillPrivileges {
    /// They are taken away (the writer is not the superuser).
    Yes,
    /// They stay.
    No,
}

impl Filesystem {
    /// The mode that is left when `caller`, who is not the superuser, changes the data of a file
    /// with setuid or setgid; `None` when that takes nothing away.
    pub fn mode_without_privileges(&self, inode: &InodeRef, caller: &Caller) -> Option<u16> {
        mode_without_privileges(inode, caller)
    }

    /// Removes the file capabilities (`security.capability`), which every change of data does, also
    /// one by the superuser. For a cache above that lets a change through without having done so.
    ///
    /// # Errors
    /// Those of removing an attribute.
    pub fn kill_capabilities(&self, inode: &InodeRef) -> Result<()> {
        self.change(|fs| fs.kill_capabilities(inode))
    }
}

impl Fs {
    /// Takes away what a change by `caller` takes away, who is not the superuser.
    pub(super) fn kill_privileges(&self, inode: &InodeRef, caller: &Caller) -> Result<()> {
        if let Some(mode) = mode_without_privileges(inode, caller) {
            let handle = self.start(credits::ATTRIBUTES)?;
            let mut state = handle.write(inode.arc());
            state.disk.mode = state.disk.mode & !0o7777 | mode;
            state.disk.ctime = self.now();
        }
        self.kill_capabilities(inode)
    }

    fn kill_capabilities(&self, inode: &InodeRef) -> Result<()> {
        const CAPABILITIES: &[u8] = b"security.capability";
        match xattr::get(self, inode, CAPABILITIES)? {
            Some(_) => xattr::remove(self, inode.arc(), CAPABILITIES),
            None => Ok(()),
        }
    }
}

/// The mode after a change by `caller`, who is not the superuser, if it is another one then.
fn mode_without_privileges(inode: &Inode, caller: &Caller) -> Option<u16> {
    let state = inode.read();
    let old = state.disk.mode;
    let mode = without_privileges(old, state.disk.gid, caller);
    (state.disk.file_type() == Some(FileType::Regular) && mode != old).then_some(mode & 0o7777)
}
