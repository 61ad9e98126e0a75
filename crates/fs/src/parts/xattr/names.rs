//! Full names of attributes, and the namespaces open to programs.

use super::acl::Which;
use crate::state::engine::Fs;
use crate::types::error::{Error, Result};
use crate::types::settings::Switch;
use uext4_format::xattr::{NameIndex, XattrName};

/// Longest full name in bytes.
const NAME_MAX_BYTES: usize = 255;

/// The storage that a full name refers to.
pub(super) enum Target {
    Plain(XattrName),
    /// A POSIX ACL, which is converted from and to the form on disk.
    Acl(Which),
}

/// The storage of the attribute `full`; [`Error::Range`] if that is empty or over 255 bytes.
pub(super) fn target(full: &[u8]) -> Result<Target> {
    if full.is_empty() || full.len() > NAME_MAX_BYTES {
        return Err(Error::Range);
    }
    match full {
        b"system.posix_acl_access" => return Ok(Target::Acl(Which::Access)),
        b"system.posix_acl_default" => return Ok(Target::Acl(Which::Default)),
        b"user." | b"trusted." | b"security." | b"gnu." => {
            return Err(Error::Invalid("the attribute's name ends with its prefix"));
        }
        _ => {}
    }
    if full.contains(&0) {
        return Err(Error::Invalid("zero byte in the attribute's name"));
    }
    let name = XattrName::from_full(full).filter(|name| is_open(name.index));
    name.map(Target::Plain)
        .ok_or(Error::NotSupported("namespace of extended attributes"))
}

/// The full name, if lists show the attribute to programs.
pub(super) fn listed(fs: &Fs, name: &XattrName) -> Option<Vec<u8>> {
    let shown = match name.index {
        NameIndex::USER | NameIndex::HURD => fs.base.settings.has(Switch::UserXattr),
        NameIndex::POSIX_ACL_ACCESS | NameIndex::POSIX_ACL_DEFAULT => {
            fs.base.settings.has(Switch::Acl)
        }
        index => is_open(index),
    };
    if shown { name.full() } else { None }
}

/// Namespaces without restrictions for programs.
fn is_open(index: NameIndex) -> bool {
    matches!(
        index,
        NameIndex::USER | NameIndex::TRUSTED | NameIndex::SECURITY | NameIndex::HURD
    )
}
