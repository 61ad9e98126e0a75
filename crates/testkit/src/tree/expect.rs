//! Expected manifest of a created tree.

use std::collections::BTreeMap;

use super::{Content, Node, NodeKind, TreeSpec};
use crate::manifest::{Entry, FileKind, Hasher, Manifest};

impl TreeSpec {
    /// The expected result of [`crate::manifest::Manifest::of_dir`], without the root. Directory
    /// sizes, ctime and allocated blocks are unknown.
    pub fn manifest(&self) -> Manifest {
        let names = self.names_per_inode();
        let subdirectories = self.subdirectories();
        let entries = self.nodes.iter().enumerate().map(|(index, node)| {
            let first = match node.kind {
                NodeKind::HardLink(first) => first,
                _ => index,
            };
            let mut entry = self.entry(&self.nodes[first]);
            entry.nlink = match node.kind {
                NodeKind::Directory => 2 + subdirectories.get(&node.path).copied().unwrap_or(0),
                _ => names[&first].len() as u64,
            };
            entry.link_group = names.get(&first).filter(|all| all.len() > 1).map(|all| {
                // A group is named after its first path in order.
                all.iter().min().expect("a group has a name").to_vec()
            });
            (node.path.clone(), entry)
        });
        Manifest {
            entries: entries.collect(),
        }
    }

    fn names_per_inode(&self) -> BTreeMap<usize, Vec<&[u8]>> {
        let mut names: BTreeMap<usize, Vec<&[u8]>> = BTreeMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let first = match node.kind {
                NodeKind::HardLink(first) => first,
                _ => index,
            };
            names.entry(first).or_default().push(&node.path);
        }
        names
    }

    fn subdirectories(&self) -> BTreeMap<Vec<u8>, u64> {
        let mut counts = BTreeMap::new();
        for node in self
            .nodes
            .iter()
            .filter(|node| node.kind == NodeKind::Directory)
        {
            let cut = node
                .path
                .iter()
                .rposition(|byte| *byte == b'/')
                .unwrap_or(0);
            *counts.entry(node.path[..cut].to_vec()).or_default() += 1;
        }
        counts
    }

    fn entry(&self, node: &Node) -> Entry {
        let mut entry = Entry::new(file_kind(&node.kind));
        entry.mode = node.attributes.mode;
        entry.uid = node.attributes.uid;
        entry.gid = node.attributes.gid;
        entry.atime = node.attributes.atime;
        entry.mtime = node.attributes.mtime;
        entry.xattrs = node.attributes.xattrs.clone();
        match &node.kind {
            NodeKind::File(content) => {
                entry.size_bytes = content.size_bytes;
                entry.hash = Some(hash(content));
            }
            NodeKind::Symlink(target) => {
                entry.size_bytes = target.len() as u64;
                entry.target = Some(target.clone());
            }
            NodeKind::CharDevice(device) | NodeKind::BlockDevice(device) => {
                entry.device = Some(*device)
            }
            _ => {}
        }
        entry
    }
}

fn hash(content: &Content) -> u128 {
    let mut hasher = Hasher::new();
    content.feed(|bytes| hasher.update(bytes));
    hasher.finish()
}

fn file_kind(kind: &NodeKind) -> FileKind {
    match kind {
        NodeKind::File(_) => FileKind::File,
        NodeKind::Directory => FileKind::Directory,
        NodeKind::Symlink(_) => FileKind::Symlink,
        NodeKind::CharDevice(_) => FileKind::CharDevice,
        NodeKind::BlockDevice(_) => FileKind::BlockDevice,
        NodeKind::Fifo => FileKind::Fifo,
        NodeKind::Socket => FileKind::Socket,
        NodeKind::HardLink(_) => unreachable!("a hard link is looked up at its first name"),
    }
}
