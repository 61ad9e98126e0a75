//! Lookup, creation and removal of names.

use std::collections::BTreeMap;

use super::inode::{Body, Inode};
use super::{ACCESS_ACL, DEFAULT_ACL, Model, Number, OpResult, ROOT, inherit};
use crate::ops::Errno;

/// Longest name in bytes.
const NAME_MAX_BYTES: usize = 255;

/// A name in an existing directory.
pub(super) struct NameInDir<'a> {
    pub(super) parent: Number,
    pub(super) name: &'a [u8],
}

impl Model {
    pub(super) fn inode(&self, number: Number) -> &Inode {
        // Entries have existing inodes: the model's own invariant.
        &self.inodes[&number]
    }

    pub(super) fn inode_mut(&mut self, number: Number) -> &mut Inode {
        self.inodes
            .get_mut(&number)
            .expect("an entry leads to an inode that exists")
    }

    pub(super) fn children_mut(&mut self, number: Number) -> &mut BTreeMap<Vec<u8>, Number> {
        match &mut self.inode_mut(number).body {
            Body::Directory { children, .. } => children,
            _ => unreachable!("a place is in a directory"),
        }
    }

    /// Resolves a path to the parent directory and the last name.
    pub(super) fn parent_and_name<'a>(&self, path: &'a [u8]) -> OpResult<NameInDir<'a>> {
        let mut parent = ROOT;
        let mut parts = path.split(|byte| *byte == b'/').peekable();
        loop {
            let name = parts.next().unwrap_or_default();
            if parts.peek().is_none() {
                return Ok(NameInDir { parent, name });
            }
            let child = self
                .child(&NameInDir { parent, name })?
                .ok_or(Errno::ENOENT)?;
            if !self.inode(child).is_directory() {
                return Err(Errno::ENOTDIR);
            }
            parent = child;
        }
    }

    pub(super) fn child(&self, place: &NameInDir<'_>) -> OpResult<Option<Number>> {
        if place.name.len() > NAME_MAX_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        let children = self.inode(place.parent).children();
        Ok(children
            .and_then(|children| children.get(place.name))
            .copied())
    }

    pub(super) fn lookup(&self, path: &[u8]) -> OpResult<Number> {
        self.child(&self.parent_and_name(path)?)?
            .ok_or(Errno::ENOENT)
    }

    /// As [`Self::parent_and_name`], for a name that does not exist.
    fn absent_name<'a>(&self, path: &'a [u8]) -> OpResult<NameInDir<'a>> {
        let place = self.parent_and_name(path)?;
        match self.child(&place)? {
            Some(_) => Err(Errno::EEXIST),
            None => Ok(place),
        }
    }

    pub(super) fn make(
        &mut self,
        path: &[u8],
        mode: u32,
        body: impl FnOnce(Number) -> Body,
    ) -> OpResult<()> {
        let place = self.absent_name(path)?;
        self.add(&place, Inode::new(body(place.parent), mode));
        Ok(())
    }

    /// Adds a new inode under a free name.
    pub(super) fn add(&mut self, place: &NameInDir<'_>, mut inode: Inode) {
        let default = self.inode(place.parent).xattrs.get(DEFAULT_ACL);
        if let Some(default) = default.filter(|_| !matches!(inode.body, Body::Symlink(_))) {
            let (acl, mode) = inherit(default, inode.mode);
            inode.mode = mode;
            inode.xattrs.insert(ACCESS_ACL.to_vec(), acl);
            if inode.is_directory() {
                inode.xattrs.insert(DEFAULT_ACL.to_vec(), default.clone());
            }
        }
        let number = self.next;
        self.next += 1;
        if inode.is_directory() {
            self.inode_mut(place.parent).nlink += 1;
        }
        self.inodes.insert(number, inode);
        self.children_mut(place.parent)
            .insert(place.name.to_vec(), number);
    }

    pub(super) fn link(&mut self, from: &[u8], to: &[u8]) -> OpResult<()> {
        let number = self.lookup(from)?;
        let place = self.absent_name(to)?;
        if self.inode(number).is_directory() {
            return Err(Errno::EPERM);
        }
        self.inode_mut(number).nlink += 1;
        self.children_mut(place.parent)
            .insert(place.name.to_vec(), number);
        Ok(())
    }

    pub(super) fn unlink(&mut self, path: &[u8]) -> OpResult<()> {
        let place = self.parent_and_name(path)?;
        let number = self.child(&place)?.ok_or(Errno::ENOENT)?;
        if self.inode(number).is_directory() {
            return Err(Errno::EISDIR);
        }
        self.remove(&place);
        Ok(())
    }

    pub(super) fn rmdir(&mut self, path: &[u8]) -> OpResult<()> {
        let place = self.parent_and_name(path)?;
        let number = self.child(&place)?.ok_or(Errno::ENOENT)?;
        match self.inode(number).children() {
            None => Err(Errno::ENOTDIR),
            Some(children) if !children.is_empty() => Err(Errno::ENOTEMPTY),
            Some(_) => {
                self.remove(&place);
                Ok(())
            }
        }
    }

    /// Removes a name, and its inode with the last one. A directory is known to be empty.
    pub(super) fn remove(&mut self, place: &NameInDir<'_>) {
        let Some(number) = self.children_mut(place.parent).remove(place.name) else {
            return;
        };
        let inode = self.inode_mut(number);
        inode.nlink -= 1;
        if inode.is_directory() {
            self.inodes.remove(&number);
            self.inode_mut(place.parent).nlink -= 1;
        } else if inode.nlink == 0 {
            self.inodes.remove(&number);
        }
    }
}
