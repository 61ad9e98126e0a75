//! Terms of a change of data, and which files take one.

use super::times::Times;
use crate::state::inode::InodeState;
use crate::state::space::Reserve;
use crate::types::attr::Checks;
use crate::types::error::{Error, Result};
use uext4_format::{FileType, InodeFlags};

/// Terms of a change of data.
#[derive(Clone, Copy)]
pub(crate) struct WritePolicy {
    pub(crate) reserve: Reserve,
    pub(crate) times: Times,
    /// Whether immutable and append-only files refuse it here.
    pub(crate) checks: Checks,
}

impl WritePolicy {
    /// Those of a change by the engine itself, or by a test.
    pub(crate) const INTERNAL: Self = Self {
        reserve: Reserve::MayUse,
        times: Times::Change,
        checks: Checks::Done,
    };
}

/// Refuses encrypted files, since there is no key.
pub(super) fn check_not_encrypted(state: &InodeState) -> Result<()> {
    if state.disk.flags.contains(InodeFlags::ENCRYPT) {
        Err(Error::NoKey)
    } else {
        Ok(())
    }
}

/// Refuses inodes other than regular files.
pub(crate) fn check_regular(state: &InodeState) -> Result<()> {
    match state.disk.file_type() {
        // Loading refuses an inode in use without a type.
        Some(FileType::Regular) | None => Ok(()),
        Some(FileType::Directory) => Err(Error::IsDirectory),
        _ => Err(Error::Invalid("not a regular file")),
    }
}

/// Refuses changes of files that fs-verity sealed.
pub(super) fn check_may_change(state: &InodeState) -> Result<()> {
    check_not_encrypted(state)?;
    if state.disk.flags.contains(InodeFlags::VERITY) {
        Err(Error::NotPermitted)
    } else {
        Ok(())
    }
}
