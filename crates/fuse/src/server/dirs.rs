//! Directory listings.
//!
//! Directories are opened without a request. A cookie is a position that stays valid while the
//! directory changes.

use super::{Handled, Server};
use crate::attributes::{ENTRY_BYTES, put_entry};
use crate::errno::Errno;
use crate::reply::Reply;
use crate::request::Request;
use uext4::{DirEntry, FileType, InodeRef, Visit};
use uext4_format::InodeNr;
use uext4_num::{clamp_u32, usize_of};

/// Bytes of `struct fuse_dirent` before the name.
const DIRENT_BYTES: usize = 24;

/// Entry read under the directory's locks.
struct Found {
    inode: InodeNr,
    next_cookie: u64,
    kind: Option<FileType>,
    name: Box<[u8]>,
}

impl Server {
    pub(super) fn readdir(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let (dir, cookie, size) = self.parse_readdir(request)?;
        self.filesystem.read_dir(&dir, cookie, &mut |entry| {
            if reply.len() + dirent_bytes(entry.name) > size {
                return Visit::Stop;
            }
            put_dirent(
                reply,
                entry.inode,
                entry.next_cookie,
                entry.kind,
                entry.name,
            );
            Visit::Continue
        })?;
        Ok(())
    }

    fn parse_readdir(&self, request: &Request<'_>) -> Result<(InodeRef, u64, usize), Errno> {
        let mut args = request.args();
        let (_fh, cookie, size) = (args.u64()?, args.u64()?, args.u32()?);
        let size = usize_of(size.min(self.agreement.read_bytes_max()));
        Ok((self.get(request.node)?, cookie, size))
    }

    /// Reads the entries first and the inodes afterwards, because an inode must not be loaded under
    /// the directory's locks. The kernel locks the directory, so no name disappears in between.
    pub(super) fn readdirplus(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let (dir, cookie, size) = self.parse_readdir(request)?;
        let mut found = Vec::new();
        let mut room = size;
        self.filesystem.read_dir(&dir, cookie, &mut |entry| {
            match room.checked_sub(ENTRY_BYTES + dirent_bytes(entry.name)) {
                None => return Visit::Stop,
                Some(left) => room = left,
            }
            found.push(Found::new(&entry));
            Visit::Continue
        })?;
        for entry in &found {
            self.put_with_attributes(entry, reply);
        }
        Ok(())
    }

    /// Entries without attributes (`.`, `..`, an inode that cannot be read) count no lookup.
    fn put_with_attributes(&self, entry: &Found, reply: &mut Reply) {
        let dots = matches!(&*entry.name, b"." | b"..");
        let inode = if dots {
            None
        } else {
            self.filesystem.inode(entry.inode).ok()
        };
        let mut kind = entry.kind;
        match inode {
            None => reply.zeroes(ENTRY_BYTES),
            Some(inode) => {
                let attr = self.shown(&inode);
                kind = Some(attr.kind);
                let node = self.nodes.insert(&inode);
                put_entry(reply, node, &attr, self.ttl(node, &inode));
            }
        }
        put_dirent(reply, entry.inode, entry.next_cookie, kind, &entry.name);
    }
}

impl Found {
    fn new(entry: &DirEntry<'_>) -> Self {
        Self {
            inode: entry.inode,
            next_cookie: entry.next_cookie,
            kind: entry.kind,
            name: entry.name.into(),
        }
    }
}

fn dirent_bytes(name: &[u8]) -> usize {
    (DIRENT_BYTES + name.len()).next_multiple_of(8)
}

fn put_dirent(
    reply: &mut Reply,
    inode: InodeNr,
    next_cookie: u64,
    kind: Option<FileType>,
    name: &[u8],
) {
    reply.u64(u64::from(inode.0));
    reply.u64(next_cookie);
    reply.u32(clamp_u32(name.len()));
    reply.u32(kind.map_or(0, |kind| u32::from(kind.mode_bits() >> 12)));
    reply.put(name);
    reply.align();
}
