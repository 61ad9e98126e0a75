//! Refuses inodes that no name may refer to: hidden ones, and value inodes of attributes.

use super::Inode;
use crate::types::error::{Error, Result};
use uext4_format::{Corrupt, CorruptKind, DamageLocation};
use uext4_volume::HiddenInodes;

/// Refuses inodes that a name must not refer to.
///
/// # Errors
/// `Corrupt`; `NotPermitted` for a journal that may have a name.
pub(crate) fn refuse_hidden(hidden: &HiddenInodes, inode: &Inode) -> Result<()> {
    let nr = inode.nr();
    let problem = if hidden.is_special(nr) {
        CorruptKind::SpecialNamed
    } else if inode.holds_value() {
        CorruptKind::ValueNamed
    } else if hidden.is_journal(nr) {
        return Err(Error::NotPermitted);
    } else {
        return Ok(());
    };
    Err(Corrupt::new(DamageLocation::Inode(nr), "inode", problem).into())
}
