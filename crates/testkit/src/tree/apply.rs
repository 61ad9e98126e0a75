//! Creates a tree in a mounted directory.
//!
//! Invariants: attributes of a directory are set after all of its children, which change its times
//! and would inherit its default ACL.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs as sys;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

use super::{Attributes, Device, Node, NodeKind, Time, TreeSpec};

impl TreeSpec {
    /// Creates every node below `root`, a mounted directory.
    ///
    /// # Errors
    /// The error of the file system, with the path.
    pub fn apply(&self, root: &Path) -> Result<()> {
        for node in &self.nodes {
            self.create(root, node)
                .with_context(|| format!("create {}", show(node)))?;
        }
        for node in self
            .nodes
            .iter()
            .rev()
            .filter(|node| node.kind == NodeKind::Directory)
        {
            let path = under(root, &node.path);
            dress(&path, node).with_context(|| format!("attributes of {}", show(node)))?;
        }
        Ok(())
    }

    fn create(&self, root: &Path, node: &Node) -> Result<()> {
        let path = under(root, &node.path);
        match &node.kind {
            NodeKind::Directory => return Ok(fs::create_dir(&path)?),
            NodeKind::HardLink(first) => {
                let first = under(root, &self.nodes[*first].path);
                // The link changes only ctime, which manifests do not contain.
                return Ok(fs::hard_link(first, &path)?);
            }
            NodeKind::File(content) => content.write_to(&File::create_new(&path)?)?,
            NodeKind::Symlink(target) => symlink(std::ffi::OsStr::from_bytes(target), &path)?,
            NodeKind::CharDevice(device) => make(&path, FileType::CharacterDevice, *device)?,
            NodeKind::BlockDevice(device) => make(&path, FileType::BlockDevice, *device)?,
            NodeKind::Fifo => make(&path, FileType::Fifo, NO_DEVICE)?,
            NodeKind::Socket => make(&path, FileType::Socket, NO_DEVICE)?,
        }
        dress(&path, node)
    }
}

const NO_DEVICE: Device = Device { major: 0, minor: 0 };

fn make(path: &Path, kind: FileType, device: Device) -> Result<()> {
    let device = sys::makedev(device.major, device.minor);
    Ok(sys::mknodat(
        CWD,
        path,
        kind,
        Mode::from_raw_mode(0o600),
        device,
    )?)
}

/// Sets the owner first: a change of it clears setuid, setgid and capabilities. Times last.
fn dress(path: &Path, node: &Node) -> Result<()> {
    let attributes = &node.attributes;
    std::os::unix::fs::lchown(path, Some(attributes.uid), Some(attributes.gid))?;
    if !matches!(node.kind, NodeKind::Symlink(_)) {
        fs::set_permissions(path, fs::Permissions::from_mode(attributes.mode))?;
    }
    for (name, value) in &attributes.xattrs {
        sys::lsetxattr(path, name.as_slice(), value, XattrFlags::empty())
            .with_context(|| format!("xattr {}", name.escape_ascii()))?;
    }
    set_times(path, attributes)
}

fn set_times(path: &Path, attributes: &Attributes) -> Result<()> {
    let times = Timestamps {
        last_access: timespec(attributes.atime),
        last_modification: timespec(attributes.mtime),
    };
    Ok(sys::utimensat(
        CWD,
        path,
        &times,
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

fn timespec(time: Time) -> Timespec {
    Timespec {
        tv_sec: time.seconds,
        tv_nsec: time.nanos.into(),
    }
}

fn under(root: &Path, path: &[u8]) -> PathBuf {
    root.join(std::ffi::OsStr::from_bytes(path))
}

fn show(node: &Node) -> String {
    node.path.escape_ascii().to_string()
}
