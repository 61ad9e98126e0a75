//! Rename with all flags; checks are in the order of Linux.

use super::inode::{Body, Inode};
use super::names::NameInDir;
use super::{Model, Number, OpResult, ROOT};
use crate::ops::{Errno, Node, RenameHow};

impl Model {
    pub(super) fn rename(&mut self, from: &[u8], to: &[u8], how: RenameHow) -> OpResult<()> {
        if how == RenameHow::NoReplaceExchange {
            return Err(Errno::EINVAL);
        }
        let (from, to) = (self.parent_and_name(from)?, self.parent_and_name(to)?);
        let old = self.child(&from)?.ok_or(Errno::ENOENT)?;
        let new = self.child(&to)?;
        let is_no_replace = matches!(how, RenameHow::NoReplace | RenameHow::WhiteoutNoReplace);
        match new {
            Some(_) if is_no_replace => return Err(Errno::EEXIST),
            None if how == RenameHow::Exchange => return Err(Errno::ENOENT),
            _ => {}
        }
        if self.is_inside(to.parent, old) {
            return Err(Errno::EINVAL);
        }
        if new.is_some_and(|new| self.is_inside(from.parent, new)) {
            let is_exchange = how == RenameHow::Exchange;
            return Err(if is_exchange {
                Errno::EINVAL
            } else {
                Errno::ENOTEMPTY
            });
        }
        match new {
            // Two names of one inode: nothing happens.
            Some(new) if new == old => Ok(()),
            Some(new) if how == RenameHow::Exchange => {
                self.put(&from, new);
                self.put(&to, old);
                Ok(())
            }
            other => self.replace(&from, &to, old, other, how),
        }
    }

    fn replace(
        &mut self,
        from: &NameInDir<'_>,
        to: &NameInDir<'_>,
        old: Number,
        new: Option<Number>,
        how: RenameHow,
    ) -> OpResult<()> {
        if let Some(new) = new {
            self.may_replace(old, new)?;
            self.remove(to);
        }
        self.children_mut(from.parent).remove(from.name);
        if self.inode(old).is_directory() {
            self.inode_mut(from.parent).nlink -= 1;
            self.inode_mut(to.parent).nlink += 1;
        }
        self.set_parent(old, to.parent);
        self.children_mut(to.parent).insert(to.name.to_vec(), old);
        if matches!(how, RenameHow::Whiteout | RenameHow::WhiteoutNoReplace) {
            self.add(from, Inode::new(Body::Node(Node::Char(0, 0)), 0));
        }
        Ok(())
    }

    fn may_replace(&self, old: Number, new: Number) -> OpResult<()> {
        match (self.inode(old).is_directory(), self.inode(new).children()) {
            (true, None) => Err(Errno::ENOTDIR),
            (false, Some(_)) => Err(Errno::EISDIR),
            (true, Some(children)) if !children.is_empty() => Err(Errno::ENOTEMPTY),
            _ => Ok(()),
        }
    }

    /// One half of an exchange: sets the inode of `place` to `number`.
    fn put(&mut self, place: &NameInDir<'_>, number: Number) {
        let before = self
            .children_mut(place.parent)
            .insert(place.name.to_vec(), number);
        let was_directory = before.is_some_and(|before| self.inode(before).is_directory());
        let is_directory = self.inode(number).is_directory();
        let parent = self.inode_mut(place.parent);
        parent.nlink = parent.nlink + u64::from(is_directory) - u64::from(was_directory);
        self.set_parent(number, place.parent);
    }

    fn set_parent(&mut self, number: Number, new_parent: Number) {
        if let Body::Directory { parent, .. } = &mut self.inode_mut(number).body {
            *parent = new_parent;
        }
    }

    /// Whether directory `inner` is `outer` or below it.
    fn is_inside(&self, mut inner: Number, outer: Number) -> bool {
        loop {
            if inner == outer {
                return true;
            }
            match self.inode(inner).body {
                Body::Directory { parent, .. } if inner != ROOT => inner = parent,
                _ => return false,
            }
        }
    }
}
