//! Attributes against a map in memory, checked by e2fsck and the kernel.

mod damage;
mod kernel;
mod lists;
mod model;
mod sharing;

use crate::state::inode::InodeRef;
use crate::test_rig::Rig;
use crate::types::attr::Caller;
use crate::types::error::Result;
use std::collections::BTreeMap;

/// All attributes of an inode as programs see them.
fn dump(rig: &Rig, inode: &InodeRef) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let names = rig
        .mounted
        .list_xattrs(inode, &Caller::root())
        .expect("lists");
    let value = |name: &Vec<u8>| {
        rig.mounted
            .get_xattr(inode, name, &Caller::root())
            .expect("a listed attribute")
    };
    names
        .into_iter()
        .map(|name| (name.clone(), value(&name)))
        .collect()
}

fn set(rig: &Rig, inode: &InodeRef, name: &str, value: &[u8]) -> Result<()> {
    let mode = super::SetMode::Any;
    rig.mounted
        .set_xattr(inode, name.as_bytes(), value, mode, &Caller::root())
}

fn remove(rig: &Rig, inode: &InodeRef, name: &str) -> Result<()> {
    rig.mounted
        .remove_xattr(inode, name.as_bytes(), &Caller::root())
}

fn create(rig: &Rig, name: &str) -> InodeRef {
    let root = rig.mounted.root().expect("the root");
    rig.mounted
        .create(&root, name.as_bytes(), 0o644, &Caller::root())
        .expect("a new file")
}

fn unlink(rig: &Rig, name: &str) {
    let root = rig.mounted.root().expect("the root");
    rig.mounted
        .unlink(&root, name.as_bytes(), &Caller::root())
        .expect("unlinks");
}

fn lookup(rig: &Rig, name: &str) -> InodeRef {
    let root = rig.mounted.root().expect("the root");
    rig.mounted
        .lookup(&root, name.as_bytes(), &Caller::root())
        .expect("the file")
}

/// Bytes that vary with position and seed.
fn bytes(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32)
        .map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ seed.wrapping_mul(97)) as u8)
        .collect()
}
