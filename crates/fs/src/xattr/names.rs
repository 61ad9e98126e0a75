//! Full names of attributes, and which of them programs can use.

use super::acl::Which;
use crate::settings::Switch;
use crate::{Error, Fs, Result};
use uext4_format::xattr::{NameIndex, XattrName};

/// The longest full name in bytes.
const NAME_MAX_BYTES: usize = 255;

/// What a full name means.
pub(super) enum Target {
    /// An attribute that is kept as it is.
    Plain(XattrName),
    /// An access control list.
    Acl(Which),
}

/// Finds out what a program's name means.
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

/// The full name, if programs see the attribute in a list.
pub(super) fn listed(fs: &Fs, name: &XattrName) -> Option<Vec<u8>> {
    let shown = match name.index {
        NameIndex::USER | NameIndex::HURD => fs.settings.has(Switch::UserXattr),
        NameIndex::POSIX_ACL_ACCESS | NameIndex::POSIX_ACL_DEFAULT => fs.settings.has(Switch::Acl),
        index => is_open(index),
    };
    if shown { name.full() } else { None }
}

/// Namespaces that programs read and write as they like.
fn is_open(index: NameIndex) -> bool {
    matches!(
        index,
        NameIndex::USER | NameIndex::TRUSTED | NameIndex::SECURITY | NameIndex::HURD
    )
}
