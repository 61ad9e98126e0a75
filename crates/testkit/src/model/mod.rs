//! Naive model of a file system in a `BTreeMap`, with the answers of Linux.
//!
//! It gives the expected answers and tree of random streams of operations. The kernel's ext4
//! validates the model (see the tests).
//!
//! Not here: times, space, permissions (the caller is root).

mod inode;
mod names;
mod rename;

use std::collections::BTreeMap;

use crate::manifest::{Entry, FileKind, Hasher, Manifest};
use crate::ops::{Errno, Node, Op, Target, XattrHow, written_bytes};
use inode::{Body, Inode};

/// Number of an inode of the model.
type Number = u64;

const ROOT: Number = 1;

type OpResult<T> = Result<T, Errno>;

/// Name of the attribute with the access ACL.
const ACCESS_ACL: &[u8] = b"system.posix_acl_access";
/// Name of the attribute with the default ACL.
const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

/// A plain model of a file system: all inodes with their contents.
#[derive(Clone, Debug)]
pub struct Model {
    inodes: BTreeMap<Number, Inode>,
    next: Number,
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Model {
    /// A file system with an empty root directory.
    pub fn new() -> Self {
        let root = Inode::new(Body::directory(ROOT), 0o755);
        Self {
            inodes: BTreeMap::from([(ROOT, root)]),
            next: ROOT + 1,
        }
    }

    /// The tree, to compare with a walk of the real one. Times, allocated space and directory sizes
    /// are unknown.
    pub fn manifest(&self) -> Manifest {
        let mut entries = BTreeMap::new();
        let mut paths: BTreeMap<Number, Vec<Vec<u8>>> = BTreeMap::new();
        let mut waiting = vec![(Vec::new(), ROOT)];
        while let Some((path, number)) = waiting.pop() {
            let inode = self.inode(number);
            entries.insert(path.clone(), inode.entry());
            paths.entry(number).or_default().push(path.clone());
            for (name, child) in inode.children().into_iter().flatten() {
                let separator: &[u8] = if path.is_empty() { b"" } else { b"/" };
                waiting.push(([&path, separator, name].concat(), *child));
            }
        }
        name_link_groups(&mut entries, paths);
        Manifest { entries }
    }

    /// Every path with its inode number (never reused).
    pub fn numbers(&self) -> BTreeMap<Vec<u8>, u64> {
        self.walk().into_iter().collect()
    }

    fn walk(&self) -> Vec<(Vec<u8>, Number)> {
        let mut found = Vec::new();
        let mut waiting = vec![(Vec::new(), ROOT)];
        while let Some((path, number)) = waiting.pop() {
            for (name, child) in self.inode(number).children().into_iter().flatten() {
                let separator: &[u8] = if path.is_empty() { b"" } else { b"/" };
                waiting.push(([&path, separator, name].concat(), *child));
            }
            found.push((path, number));
        }
        found
    }

    /// Every path of a regular file, with its inode number (never reused) and content.
    pub fn files(&self) -> BTreeMap<Vec<u8>, (u64, &[u8])> {
        let mut files = BTreeMap::new();
        for (path, number) in self.walk() {
            if let Body::File(data) = &self.inode(number).body {
                files.insert(path, (number, data.as_slice()));
            }
        }
        files
    }

    /// Sets an access ACL with a mask, given as the bytes of `system.posix_acl_access`, and the
    /// matching permission bits.
    ///
    /// # Errors
    /// The path does not exist, or is a symlink.
    pub fn set_acl(&mut self, path: &[u8], value: &[u8], mode: u32) -> Result<(), Errno> {
        let number = self.lookup(path)?;
        let inode = self.inode_mut(number);
        if matches!(inode.body, Body::Symlink(_)) {
            return Err(Errno::EOPNOTSUPP);
        }
        inode.mode = inode.mode & !0o777 | mode & 0o777;
        inode.xattrs.insert(ACCESS_ACL.to_vec(), value.to_vec());
        Ok(())
    }

    /// Sets the default ACL with a mask of a directory.
    ///
    /// # Errors
    /// The path does not exist, or is not a directory.
    pub fn set_default_acl(&mut self, path: &[u8], value: &[u8]) -> Result<(), Errno> {
        let number = self.lookup(path)?;
        let inode = self.inode_mut(number);
        if !inode.is_directory() {
            return Err(Errno::EACCES);
        }
        inode.xattrs.insert(DEFAULT_ACL.to_vec(), value.to_vec());
        Ok(())
    }

    /// Writes bytes to a file.
    ///
    /// # Errors
    /// The path is not a file.
    pub fn write(&mut self, path: &[u8], offset_bytes: u64, bytes: &[u8]) -> Result<(), Errno> {
        let data = self.data(path)?;
        // A write of no bytes does not extend a file.
        if bytes.is_empty() {
            return Ok(());
        }
        let start = offset_bytes as usize;
        let end = start + bytes.len();
        if data.len() < end {
            data.resize(end, 0);
        }
        data[start..end].copy_from_slice(bytes);
        Ok(())
    }

    /// Content of a regular file, to be written.
    fn data(&mut self, path: &[u8]) -> OpResult<&mut Vec<u8>> {
        let number = self.lookup(path)?;
        match &mut self.inode_mut(number).body {
            Body::File(data) => Ok(data),
            Body::Directory { .. } => Err(Errno::EISDIR),
            Body::Symlink(_) => Err(Errno::ELOOP),
            Body::Fifo | Body::Node(_) => Err(Errno::ENXIO),
        }
    }

    fn chmod(&mut self, path: &[u8], mode: u32) -> OpResult<()> {
        let number = self.lookup(path)?;
        let inode = self.inode_mut(number);
        if matches!(inode.body, Body::Symlink(_)) {
            return Err(Errno::EOPNOTSUPP);
        }
        inode.mode = mode;
        if let Some(acl) = inode.xattrs.get_mut(ACCESS_ACL) {
            follow_mode(acl, mode);
        }
        Ok(())
    }

    /// A change of owner clears setuid, and setgid of a group-executable file.
    fn chown(&mut self, path: &[u8], uid: u32, gid: u32) -> OpResult<()> {
        let number = self.lookup(path)?;
        let inode = self.inode_mut(number);
        inode.owner = (uid, gid);
        if !matches!(inode.body, Body::Directory { .. }) {
            inode.mode &= !0o4000;
            if inode.mode & 0o010 != 0 {
                inode.mode &= !0o2000;
            }
        }
        Ok(())
    }

    fn set_xattr(&mut self, path: &[u8], name: &str, value: &[u8], how: XattrHow) -> OpResult<()> {
        let number = self.lookup(path)?;
        let inode = self.inode_mut(number);
        inode.admits_xattr(name)?;
        match (how, inode.xattrs.contains_key(name.as_bytes())) {
            (XattrHow::Create, true) => return Err(Errno::EEXIST),
            (XattrHow::Replace, false) => return Err(Errno::ENODATA),
            _ => {}
        }
        inode.xattrs.insert(name.into(), value.to_vec());
        Ok(())
    }

    fn remove_xattr(&mut self, path: &[u8], name: &str) -> OpResult<()> {
        let number = self.lookup(path)?;
        let inode = self.inode_mut(number);
        inode.admits_xattr(name)?;
        inode
            .xattrs
            .remove(name.as_bytes())
            .map(drop)
            .ok_or(Errno::ENODATA)
    }

    /// Opens for reading, then fsync.
    fn fsync(&mut self, path: &[u8]) -> OpResult<()> {
        let number = self.lookup(path)?;
        match self.inode(number).body {
            Body::File(_) | Body::Directory { .. } => Ok(()),
            Body::Symlink(_) => Err(Errno::ELOOP),
            Body::Fifo => Err(Errno::EINVAL),
            Body::Node(_) => Err(Errno::ENXIO),
        }
    }
}

impl Target for Model {
    fn run(&mut self, op: &Op) -> Result<(), Errno> {
        match op {
            Op::Create { path, mode } => self.make(path, *mode, |_| Body::File(Vec::new())),
            Op::Mkdir { path, mode } => self.make(path, *mode, Body::directory),
            Op::Mkfifo { path, mode } => self.make(path, *mode, |_| Body::Fifo),
            Op::Mknod { path, mode, node } => self.make(path, *mode, |_| Body::Node(*node)),
            Op::Symlink { path, target } => {
                self.make(path, 0o777, |_| Body::Symlink(target.clone()))
            }
            Op::Link { from, to } => self.link(from, to),
            Op::Unlink { path } => self.unlink(path),
            Op::Rmdir { path } => self.rmdir(path),
            Op::Rename { from, to, how } => self.rename(from, to, *how),
            Op::Write {
                path,
                offset_bytes,
                len_bytes,
                seed,
            } => self.write(path, *offset_bytes, &written_bytes(*seed, *len_bytes)),
            Op::Truncate { path, size_bytes } => {
                self.data(path)?.resize(*size_bytes as usize, 0);
                Ok(())
            }
            Op::Chmod { path, mode } => self.chmod(path, *mode),
            Op::Chown { path, uid, gid } => self.chown(path, *uid, *gid),
            Op::SetXattr {
                path,
                name,
                value,
                how,
            } => self.set_xattr(path, name, value, *how),
            Op::RemoveXattr { path, name } => self.remove_xattr(path, name),
            Op::Fsync { path } => self.fsync(path),
        }
    }
}

/// ACL and mode of an inode created with `mode` below a default ACL: each is limited by the other.
fn inherit(default: &[u8], mode: u32) -> (Vec<u8>, u32) {
    let (mut acl, mut rights) = (default.to_vec(), 0);
    for entry in acl.get_mut(4..).unwrap_or_default().chunks_exact_mut(8) {
        let shift = match entry[0] {
            0x01 => 6,
            0x10 => 3,
            0x20 => 0,
            _ => continue,
        };
        entry[2] &= (mode >> shift & 7) as u8;
        rights |= u32::from(entry[2]) << shift;
    }
    (acl, mode & !0o777 | rights)
}

/// Sets owner, mask and others of an ACL to the permission bits.
fn follow_mode(acl: &mut [u8], mode: u32) {
    for entry in acl.get_mut(4..).unwrap_or_default().chunks_exact_mut(8) {
        let shift = match entry[0] {
            0x01 => 6,
            0x10 => 3,
            0x20 => 0,
            _ => continue,
        };
        entry[2] = (mode >> shift & 7) as u8;
    }
}

fn name_link_groups(entries: &mut BTreeMap<Vec<u8>, Entry>, paths: BTreeMap<Number, Vec<Vec<u8>>>) {
    for group in paths.into_values().filter(|group| group.len() > 1) {
        let first = group.iter().min().cloned();
        for path in &group {
            if let Some(entry) = entries.get_mut(path) {
                entry.link_group.clone_from(&first);
            }
        }
    }
}

impl Inode {
    fn entry(&self) -> Entry {
        let mut entry = Entry::new(self.kind());
        entry.mode = self.mode;
        (entry.uid, entry.gid) = self.owner;
        entry.nlink = self.nlink;
        entry.xattrs = self.xattrs.clone();
        match &self.body {
            Body::File(data) => {
                let mut hasher = Hasher::new();
                hasher.update(data);
                entry.size_bytes = data.len() as u64;
                entry.hash = Some(hasher.finish());
            }
            Body::Symlink(target) => {
                entry.size_bytes = target.len() as u64;
                entry.target = Some(target.clone());
            }
            Body::Node(Node::Char(major, minor) | Node::Block(major, minor)) => {
                let (major, minor) = (*major, *minor);
                entry.device = Some(crate::tree::Device { major, minor });
            }
            Body::Node(Node::Socket) | Body::Directory { .. } | Body::Fifo => {}
        }
        entry
    }

    fn kind(&self) -> FileKind {
        match self.body {
            Body::File(_) => FileKind::File,
            Body::Directory { .. } => FileKind::Directory,
            Body::Symlink(_) => FileKind::Symlink,
            Body::Fifo => FileKind::Fifo,
            Body::Node(Node::Char(..)) => FileKind::CharDevice,
            Body::Node(Node::Block(..)) => FileKind::BlockDevice,
            Body::Node(Node::Socket) => FileKind::Socket,
        }
    }
}
