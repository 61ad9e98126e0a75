//! Access control lists as text, as pax headers have them: `user::rwx,user:7:r-x:7,…`.
//!
//! Ids are numbers, in the place of the name and in the field for the id that star added: GNU tar
//! takes the first, libarchive the second.
//!
//! References: acl(5), "ACL TEXT FORMS"; tar(5), `SCHILY.acl`.

use uext4::format::acl::{Acl, Tag};

/// The list in the text form of acl(5), lines joined by commas.
pub(super) fn text(acl: &Acl) -> String {
    let lines = acl.entries().iter().map(|entry| {
        let perm = perm(entry.perm);
        match entry.tag {
            Tag::UserObj => format!("user::{perm}"),
            Tag::User(id) => format!("user:{id}:{perm}:{id}"),
            Tag::GroupObj => format!("group::{perm}"),
            Tag::Group(id) => format!("group:{id}:{perm}:{id}"),
            Tag::Mask => format!("mask::{perm}"),
            Tag::Other => format!("other::{perm}"),
        }
    });
    lines.collect::<Vec<_>>().join(",")
}

fn perm(bits: u16) -> String {
    [(4, 'r'), (2, 'w'), (1, 'x')]
        .map(|(bit, letter)| if bits & bit != 0 { letter } else { '-' })
        .iter()
        .collect()
}
