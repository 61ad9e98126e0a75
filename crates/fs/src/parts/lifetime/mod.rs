//! Lifetime of inodes: creation, and the freeing of those without a name.

mod create;
mod evict;

pub(crate) use create::InodeDraft;
pub(crate) use evict::has_blocks;
