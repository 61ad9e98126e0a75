//! One inode of the model.

use std::collections::BTreeMap;

use super::{Number, OpResult};
use crate::ops::{Errno, Node};

#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub(super) body: Body,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    pub(super) nlink: u64,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    File(Vec<u8>),
    Directory {
        parent: Number,
        children: BTreeMap<Vec<u8>, Number>,
    },
    Symlink(Vec<u8>),
    Fifo,
    /// A socket or device; a whiteout is the character device 0:0.
    Node(Node),
}

impl Body {
    pub(super) fn directory(parent: Number) -> Self {
        Self::Directory {
            parent,
            children: BTreeMap::new(),
        }
    }
}

impl Inode {
    pub(super) fn new(body: Body, mode: u32) -> Self {
        let nlink = if matches!(body, Body::Directory { .. }) {
            2
        } else {
            1
        };
        Self {
            body,
            mode,
            owner: (0, 0),
            nlink,
            xattrs: BTreeMap::new(),
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory { .. })
    }

    pub(super) fn children(&self) -> Option<&BTreeMap<Vec<u8>, Number>> {
        match &self.body {
            Body::Directory { children, .. } => Some(children),
            _ => None,
        }
    }

    /// User attributes are allowed on regular files and directories only.
    pub(super) fn admits_xattr(&self, name: &str) -> OpResult<()> {
        let has_user = matches!(self.body, Body::File(_) | Body::Directory { .. });
        if name.starts_with("user.") && !has_user {
            Err(Errno::EPERM)
        } else {
            Ok(())
        }
    }
}
