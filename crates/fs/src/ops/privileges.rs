//! Clears setuid, setgid and file capabilities on unprivileged writes.

use crate::ops::filesystem::Filesystem;
use crate::parts::access::without_privileges;
use crate::parts::xattr;
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef};
use crate::types::attr::Caller;
use crate::types::credits;
use crate::types::error::Result;
use uext4_format::FileType;

/// Effect of a write on setuid and setgid bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillPrivileges {
    /// They are cleared (the writer is unprivileged).
    Yes,
    /// They stay (the writer is privileged).
    No,
}

impl Filesystem {
    /// The mode after a change of data by an unprivileged `caller` in a file with setuid or setgid;
    /// `None` if it does not change.
    pub fn mode_without_privileges(&self, inode: &InodeRef, caller: &Caller) -> Option<u16> {
        mode_without_privileges(inode, caller)
    }

    /// Removes the file capabilities (`security.capability`), as every change of data does, also
    /// one by the superuser. For a cache above that passes a change on without having removed them.
    ///
    /// # Errors
    /// Those of an attribute removal.
    pub fn kill_capabilities(&self, inode: &InodeRef) -> Result<()> {
        self.change(|fs| fs.kill_capabilities(inode))
    }
}

impl Fs {
    /// Clears the privileges of a file that an unprivileged `caller` changes.
    pub(super) fn kill_privileges(&self, inode: &InodeRef, caller: &Caller) -> Result<()> {
        if let Some(mode) = mode_without_privileges(inode, caller) {
            let handle = self.start_recorded(credits::ATTRIBUTES)?;
            let mut state = handle.write(inode.arc());
            state.disk.mode = state.disk.mode & !0o7777 | mode;
            state.disk.set_ctime(self.now());
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

/// The mode after a change by an unprivileged `caller`, if it differs.
fn mode_without_privileges(inode: &Inode, caller: &Caller) -> Option<u16> {
    let state = inode.read();
    let old = state.disk.mode;
    let mode = without_privileges(old, state.disk.gid, caller);
    (state.disk.file_type() == Some(FileType::Regular) && mode != old).then_some(mode & 0o7777)
}
