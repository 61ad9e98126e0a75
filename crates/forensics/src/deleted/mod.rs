//! Deleted files, and how much of each is left.
//!
//! Mechanism: ext4 clears map and size of an inode that it deletes. The log has older images of the
//! inode tables, of the nodes of maps and of directories ([`history`]). So the last state of the
//! inode before its deletion is found there ([`versions`]), or in the inode itself, where the
//! deletion has left it. Its name is in an older image of its directory, or between the entries
//! ([`names`]). Its blocks count if nothing has taken them since ([`claims`]).
//!
//! Limits: a block that was used for data and freed again since is taken for the old one.

mod claims;
mod history;
mod names;
mod versions;

use crate::content::Content;
use crate::fast::FastBlocks;
use crate::{Image, Memory, Result, Ring};
use claims::Claims;
pub(crate) use history::{AsOf, History};
use names::Names;
pub(crate) use names::plausible;
use std::cmp::Reverse;
use uext4_format::{FileType, InodeNr, Tid, Timestamp};
use uext4_num::u64_of;
pub(crate) use versions::inline_content;
use versions::{Version, versions};

/// Memory for each file that is returned, in bytes.
const DELETED_BYTES: u64 = 256;

/// A deleted file.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// The number that it had.
    pub inode: InodeNr,
    /// Its generation: the number may have had other files.
    pub generation: u32,
    /// Its path, without the first `/`; `None` if no name is left.
    pub path: Option<Vec<u8>>,
    /// The permissions and the type.
    pub mode: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Time of the deletion, where it is known.
    pub deleted: Option<Timestamp>,
    /// Time of the last transaction with the file.
    pub last_seen: Option<Timestamp>,
    /// The transaction with its inode; `None` if the inode is in its table.
    pub transaction: Option<Tid>,
    /// What is left of it.
    pub content: Content,
}

/// Finds the deleted regular files of an image, in the order of their paths.
///
/// # Errors
/// Those of the device; too little memory.
pub fn deleted(
    image: &Image,
    mut ring: Option<&mut Ring>,
    memory: &Memory,
) -> Result<Vec<Deleted>> {
    let fast = FastBlocks::find(image, ring.as_deref_mut(), memory)?;
    let history = History::new(image, ring, memory)?;
    let mut all = versions(&history, memory)?;
    // The blocks of the file that was deleted last are its own.
    all.sort_by_cached_key(|version| {
        let time = time_of(&history, version);
        (Reverse((order_of(&history, version), time)), version.nr)
    });
    let mut names = Names::find(&history, &all, memory)?;
    let mut claims = Claims::new(&history, fast, memory);
    let mut contents = Vec::new();
    for version in &all {
        let content = claims.content(version)?;
        if version.inode.file_type() == Some(FileType::Directory) {
            names.read_deleted(version, &content)?;
            continue;
        }
        memory.take(DELETED_BYTES)?;
        contents.push((version, content));
    }
    let mut found = Vec::new();
    for (version, content) in contents {
        let path = names.path(version);
        memory.take(u64_of(path.as_ref().map_or(0, Vec::len)))?;
        found.push(of(&history, version, path, content));
    }
    found.sort_by(|a, b| (&a.path, a.inode, a.generation).cmp(&(&b.path, b.inode, b.generation)));
    Ok(found)
}

/// The place of a version in the order of transactions. Of an inode in its table it is that of the
/// transaction before its deletion: clocks of the host are all that is known there.
fn order_of(history: &History<'_>, version: &Version) -> Option<u32> {
    match version.order {
        Some(order) => Some(order),
        None => version
            .deleted
            .and_then(|deleted| history.order_at(deleted)),
    }
}

/// The time of the deletion; else that of the last transaction with the inode.
fn time_of(history: &History<'_>, version: &Version) -> Option<Timestamp> {
    version.deleted.or_else(|| last_seen(history, version))
}

fn last_seen(history: &History<'_>, version: &Version) -> Option<Timestamp> {
    let era = version.order.and_then(|order| history.era(order));
    era.and_then(|era| era.committed)
}

fn of(
    history: &History<'_>,
    version: &Version,
    path: Option<Vec<u8>>,
    content: Content,
) -> Deleted {
    let inode = &version.inode;
    let era = version.order.and_then(|order| history.era(order));
    Deleted {
        inode: version.nr,
        generation: inode.generation,
        path,
        mode: inode.mode,
        uid: inode.uid,
        gid: inode.gid,
        mtime: inode.mtime,
        deleted: version.deleted,
        last_seen: last_seen(history, version),
        transaction: era.map(|era| era.tid),
        content,
    }
}
