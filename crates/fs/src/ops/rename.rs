//! Rename, in all its forms.
//!
//! Locking: a move of a directory to another parent takes the single `Rank::Rename` lock, so that
//! concurrent moves make no cycle. Then the rename takes DirIndex of every directory involved,
//! ascending by inode number: shared if only entries change, and for a renamed directory, which
//! must not be removed meanwhile; exclusive for removed directories, and for format changes that
//! need it. A full leaf is split while optimistic operations continue.

mod carry_out;
mod checks;

use super::{NameChange, check_alive};
use crate::ops::filesystem::Filesystem;
use crate::parts::access::Want;
use crate::parts::dir::{DirError, DirResult, LockMode};
use crate::parts::file;
use crate::state::engine::Fs;
use crate::state::inode::InodeRef;
use crate::types::attr::Caller;
use crate::types::error::{Error, Result};
use crate::types::settings::Switch;
use checks::check_names;

/// Treatment of the target name (`renameat2(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameFlags {
    /// Replace the target if it exists.
    Replace,
    /// Fail if the target exists (`RENAME_NOREPLACE`).
    NoReplace,
    /// Exchange source and target, which must both exist (`RENAME_EXCHANGE`).
    Exchange,
    /// Leave a whiteout at the source (`RENAME_WHITEOUT`).
    Whiteout,
    /// Leave a whiteout at the source, and fail if the target exists.
    WhiteoutNoReplace,
}

impl RenameFlags {
    fn keeps_target(self) -> bool {
        matches!(
            self,
            RenameFlags::NoReplace | RenameFlags::WhiteoutNoReplace
        )
    }

    fn leaves_whiteout(self) -> bool {
        matches!(self, RenameFlags::Whiteout | RenameFlags::WhiteoutNoReplace)
    }
}

/// A rename with both sides looked up.
struct Rename<'a> {
    from: &'a NameChange<'a>,
    to: &'a NameChange<'a>,
    source: InodeRef,
    target: Option<InodeRef>,
    flags: RenameFlags,
}

impl Filesystem {
    /// Renames `from_name` in `from` to `to_name` in `to`.
    pub fn rename(
        &self,
        from: &InodeRef,
        from_name: &[u8],
        to: &InodeRef,
        to_name: &[u8],
        flags: RenameFlags,
        caller: &Caller,
    ) -> Result<()> {
        let (from, to) = ((from, from_name), (to, to_name));
        self.rename_watched(from, to, flags, caller, &mut |_| ())
    }

    /// As [`Self::rename`], with a `victim` as for [`Self::unlink_watched`]: the inode that is
    /// replaced, if there is one.
    pub fn rename_watched(
        &self,
        (from, from_name): (&InodeRef, &[u8]),
        (to, to_name): (&InodeRef, &[u8]),
        flags: RenameFlags,
        caller: &Caller,
        victim: &mut dyn FnMut(&InodeRef),
    ) -> Result<()> {
        self.change(|fs| {
            check_names(from_name, to_name, flags)?;
            for dir in [from, to] {
                check_alive(dir)?;
                fs.may(dir, caller, Want::EXECUTE)?;
            }
            let old = NameChange::new(fs, from, from_name, caller);
            let new = NameChange::new(fs, to, to_name, caller);
            new.with_locks(|index| rename(&old, &new, flags, index, victim))?;
            fs.sync_if_asked(from)?;
            fs.sync_if_asked(to)
        })
    }
}

/// [`DirError::Moved`] if a name changed between its look-up and the change.
fn rename(
    from: &NameChange<'_>,
    to: &NameChange<'_>,
    flags: RenameFlags,
    index: LockMode,
    victim: &mut dyn FnMut(&InodeRef),
) -> DirResult<()> {
    let fs = from.fs;
    let source = from.lookup_once()?.ok_or(Error::NotFound)?;
    let moves_dir = source.is_dir() && from.dir.nr() != to.dir.nr();
    let is_topology = moves_dir || flags == RenameFlags::Exchange;
    let topology = is_topology.then(|| fs.rename.lock());
    let target = to.lookup_once()?;
    let rename = Rename {
        from,
        to,
        source,
        target,
        flags,
    };
    rename.check(fs)?;
    if rename.is_same() {
        return Ok(());
    }
    if let Some(target) = rename.replaced() {
        victim(target);
    }
    rename.write_out_first(fs);
    let answer = rename.carry_out(fs, index);
    drop(topology);
    match answer {
        Err(DirError::Fs(Error::NotFound | Error::Exists)) if rename.is_outdated()? => {
            Err(DirError::Moved)
        }
        other => other,
    }
}

impl Rename<'_> {
    /// The inode that loses its name.
    fn replaced(&self) -> Option<&InodeRef> {
        let exchanges = self.flags == RenameFlags::Exchange;
        self.target.as_ref().filter(|_| !exchanges)
    }

    /// Writes out the data of a file that replaces another before the rename (`auto_da_alloc`). Its
    /// `fsync` reports a failure.
    fn write_out_first(&self, fs: &Fs) {
        if self.replaced().is_some() && fs.base.settings.has(Switch::AutoDaAlloc) {
            let _told_by_fsync = fs
                .base
                .record_result(file::write_out(fs, self.source.arc()));
        }
    }

    /// Both names refer to one inode: no change is needed.
    fn is_same(&self) -> bool {
        let target = self.target.as_ref();
        target.is_some_and(|target| target.nr() == self.source.nr())
    }

    /// Whether a name no longer refers to the inode that was looked up.
    fn is_outdated(&self) -> Result<bool> {
        let number = |inode: Option<InodeRef>| inode.map(|inode| inode.nr());
        let source = number(self.from.lookup_once()?);
        let target = number(self.to.lookup_once()?);
        let known = self.target.as_ref().map(|target| target.nr());
        Ok(source != Some(self.source.nr()) || target != known)
    }
}
