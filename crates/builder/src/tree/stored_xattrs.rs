//! Extended attributes in the form of the disk: names split, lists of ACLs converted, sorted.

use uext4_format::acl::Acl;
use uext4_format::xattr::{NameIndex, VALUE_MAX_BYTES, XattrName};

use crate::error::{Error, Result};
use crate::sources::entry::Attributes;

/// Extended attributes as they are stored, sorted.
pub(crate) fn stored(path: &[u8], given: &Attributes) -> Result<Vec<(XattrName, Vec<u8>)>> {
    let mut xattrs = Vec::with_capacity(given.xattrs.len());
    for xattr in &given.xattrs {
        let refuse = |problem: &str| {
            let problem = format!("the attribute {} {problem}", xattr.name.escape_ascii());
            Err(Error::refused(path, problem, "remove the attribute"))
        };
        let Some(name) = XattrName::from_full(&xattr.name) else {
            return refuse("has no name that ext4 can store");
        };
        if xattr.value.len() > VALUE_MAX_BYTES {
            return refuse("is longer than 16 MiB");
        }
        let is_acl = [NameIndex::POSIX_ACL_ACCESS, NameIndex::POSIX_ACL_DEFAULT];
        if !is_acl.contains(&name.index) {
            xattrs.push((name, xattr.value.clone()));
            continue;
        }
        match Acl::from_xattr(&xattr.value) {
            Ok(Some(acl)) => xattrs.push((name, acl.to_disk())),
            Ok(None) => {}
            Err(error) => return refuse(&format!("is no list: {error}")),
        }
    }
    xattrs.sort();
    let twice = xattrs.windows(2).find(|pair| pair[0].0 == pair[1].0);
    match twice {
        None => Ok(xattrs),
        Some(pair) => {
            let name = pair[0].0.full().unwrap_or_default();
            let problem = format!("the attribute {} is there twice", name.escape_ascii());
            Err(Error::refused(path, problem, "keep one of them"))
        }
    }
}
