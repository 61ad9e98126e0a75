//! Access control lists as text (`SCHILY.acl.access`): entries `TAG:NAME:PERMISSIONS`, separated by
//! commas or lines, with a comment behind `#`.
//!
//! A user or a group is known by number: in the place of the name, or as a fourth field, which
//! bsdtar and star write. A name alone is refused, because its number would be the one of the host.
//! Reference: acl(5), "ACL TEXT FORMS"; tar(5) of libarchive.

use crate::fault::{Checked, DAMAGED, Fault, shown};
use uext4_format::acl::{Acl, AclEntry, Tag};

const BY_NUMBER: &str = "make the archive with numbers of users and groups in its ACLs, as \
                         tar --numeric-owner or bsdtar does";

/// The list of a text; `None` for an empty one.
pub(crate) fn parse(text: &[u8]) -> Checked<Option<Acl>> {
    let lines = text.split(|byte| matches!(byte, b',' | b'\n'));
    let mut entries = Vec::new();
    for line in lines {
        let end = line.iter().position(|byte| *byte == b'#');
        let line = line[..end.unwrap_or(line.len())].trim_ascii();
        if !line.is_empty() {
            entries.push(entry(line)?);
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let mut ids: Vec<(u8, u32)> = entries
        .iter()
        .filter_map(|entry| match entry.tag {
            Tag::User(id) => Some((0, id)),
            Tag::Group(id) => Some((1, id)),
            _ => None,
        })
        .collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        let problem = "has an ACL with two entries of one user or group";
        return Err(Fault::refused(problem, DAMAGED));
    }
    Acl::new(entries)
        .map(Some)
        .map_err(|error| Fault::refused(format!("has a bad ACL: {error}"), DAMAGED))
}

fn entry(line: &[u8]) -> Checked<AclEntry> {
    let bad = || {
        let problem = format!("has the entry {} in its ACL, which is none", shown(line));
        Fault::refused(problem, DAMAGED)
    };
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
    let (kind, name, permissions, number) = match fields[..] {
        // `other:r-x` and `mask:r-x` have no place for a name in some texts.
        [kind, permissions] => (kind, &b""[..], permissions, None),
        [kind, name, permissions] => (kind, name, permissions, None),
        [kind, name, permissions, number] => (kind, name, permissions, Some(number)),
        _ => return Err(bad()),
    };
    let id = || id(line, number.unwrap_or(name));
    let tag = match (kind, name) {
        (b"user" | b"u", b"") => Tag::UserObj,
        (b"group" | b"g", b"") => Tag::GroupObj,
        (b"mask" | b"m", _) => Tag::Mask,
        (b"other" | b"o", _) => Tag::Other,
        (b"user" | b"u", _) => Tag::User(id()?),
        (b"group" | b"g", _) => Tag::Group(id()?),
        _ => return Err(bad()),
    };
    let perm = bits(permissions).ok_or_else(bad)?;
    Ok(AclEntry { tag, perm })
}

fn id(line: &[u8], number: &[u8]) -> Checked<u32> {
    let id = str::from_utf8(number)
        .ok()
        .and_then(|text| text.parse().ok());
    id.ok_or_else(|| {
        let problem = format!("has the ACL entry {} without a number", shown(line));
        Fault::refused(problem, BY_NUMBER)
    })
}

fn bits(permissions: &[u8]) -> Option<u16> {
    permissions.trim_ascii().iter().try_fold(0, |bits, letter| {
        Some(
            bits | match letter {
                b'r' => 4,
                b'w' => 2,
                b'x' => 1,
                b'-' => 0,
                _ => return None,
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_gnu_tar_and_bsdtar() {
        let long = b"user::rw-\nuser:1000:r--\ngroup::r--\nmask::r--\nother::---\n";
        let short = b"user::rw-,user:adm:r--:1000,group::r--,mask::r--,other::---";
        let both = [long.as_slice(), short].map(|text| parse(text).ok().flatten());
        assert!(both[0].is_some());
        assert_eq!(both[0], both[1]);
        assert_eq!(parse(b"\n").ok(), Some(None));
        for bad in [
            "user:adm:r--",
            "user::rw-",
            "x::r",
            "user::q",
            "a",
            "user:1:r:x",
            "a:b:c:d:e",
            "user::rw-,user:1:r--,user:1:rw-,group::r--,mask::r--,other::---",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
