//! Tar files in all dialects: old, ustar, star, GNU, pax.
//!
//! Layout: `tape` has the bytes, `header` the fields of a block, `pax` the extended headers,
//! `sparse` the maps of sparse files, `acl` lists as text, `name` the rules for names; `reader`
//! puts them together to members, and `feed` gives members to a sink.
//! Invariants: memory does not depend on what sizes a header claims: extended headers, long names
//! and sparse maps have limits.

mod acl;
mod feed;
mod header;
pub(crate) mod name;
mod pax;
mod reader;
mod sparse;
mod tape;

pub(crate) use feed::{Feed, Whiteouts};
pub(crate) use reader::{EndMark, Reader};
#[cfg(feature = "oci")]
pub(crate) use reader::{Member, MemberType};
pub(crate) use tape::Tape;
