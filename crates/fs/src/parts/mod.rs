//! Parts of a file system on that state: maps, directories, files, attributes.

pub(crate) mod access;
pub(crate) mod dir;
pub(crate) mod fast_commit;
pub(crate) mod file;
pub(crate) mod iget;
pub(crate) mod lifetime;
pub(crate) mod map;
pub(crate) mod orphan_recovery;
pub(crate) mod quota_files;
pub(crate) mod times;
pub(crate) mod xattr;
