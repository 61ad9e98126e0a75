//! Modes, owners, times, extended attributes and ACLs.

use std::collections::BTreeMap;

use super::{Attributes, NodeKind, Privilege, Shape, Time};
use crate::rng::Rng;

/// First and last second of an ext4 inode of 256 bytes (1901 and 2446).
const TIME_FIRST: i64 = -(1 << 31);
const TIME_LAST: i64 = (1 << 34) - (1 << 31) - 1;

const ACL_VERSION: u32 = 2;
const ACL_USER_OBJ: u16 = 0x01;
const ACL_USER: u16 = 0x02;
const ACL_GROUP_OBJ: u16 = 0x04;
const ACL_GROUP: u16 = 0x08;
const ACL_MASK: u16 = 0x10;
const ACL_OTHER: u16 = 0x20;
const ACL_NO_ID: u32 = u32::MAX;

/// `security.capability`, revision 2, with `cap_net_raw` effective and permitted.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

pub(super) fn attributes(rng: &mut Rng, shape: &Shape, kind: &NodeKind) -> Attributes {
    let mode = mode(rng, kind);
    let (uid, gid) = match shape.privilege {
        Privilege::Root => (id(rng), id(rng)),
        Privilege::User => (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        ),
    };
    let xattrs = xattrs(rng, shape, kind, mode);
    Attributes {
        mode,
        uid,
        gid,
        atime: time(rng),
        mtime: time(rng),
        xattrs,
    }
}

fn mode(rng: &mut Rng, kind: &NodeKind) -> u32 {
    match kind {
        // Linux gives every symlink this mode.
        NodeKind::Symlink(_) => 0o777,
        NodeKind::Directory => *rng.pick(&[0o755, 0o755, 0o755, 0o700, 0o750, 0o1777, 0o2775]),
        NodeKind::File(_) => *rng.pick(&[
            0o644, 0o644, 0o644, 0o644, 0o755, 0o600, 0o4755, 0o2755, 0o6711, 0o400,
        ]),
        _ => *rng.pick(&[0o600, 0o660, 0o666]),
    }
}

fn id(rng: &mut Rng) -> u32 {
    match rng.below(10) {
        0..=4 => 0,
        5..=7 => rng.between(1000, 1100) as u32,
        8 => 65535,
        _ => rng.between(65536, u64::from(u32::MAX) - 1) as u32,
    }
}

fn time(rng: &mut Rng) -> Time {
    let seconds = match rng.below(20) {
        0 => -rng.between(1, 1 << 31).cast_signed(),
        1 => TIME_FIRST,
        2 => rng.between(1 << 31, TIME_LAST as u64) as i64,
        3 => TIME_LAST,
        4 => 0,
        5 => (1 << 31) - 1,
        _ => rng.between(946_684_800, 1_800_000_000) as i64,
    };
    // Linux drops the nanoseconds of the first and the last second of a file system's range.
    let is_limit = seconds == TIME_FIRST || seconds == TIME_LAST;
    let nanos = if is_limit || rng.chance(20) {
        0
    } else {
        rng.below(1_000_000_000) as u32
    };
    Time { seconds, nanos }
}

fn xattrs(rng: &mut Rng, shape: &Shape, kind: &NodeKind, mode: u32) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut set = Set {
        left_bytes: shape.xattr_max_bytes,
        pairs: BTreeMap::new(),
    };
    let is_root = shape.privilege == Privilege::Root;
    let is_file = matches!(kind, NodeKind::File(_));
    let is_dir = matches!(kind, NodeKind::Directory);
    // Linux allows user attributes on regular files and directories only.
    if (is_file || is_dir) && rng.chance(12) {
        for number in 0..rng.between(1, 5) {
            let value = value(rng, shape.xattr_max_bytes);
            set.add(format!("user.kit.{number}"), value);
        }
    }
    if is_root && rng.chance(4) {
        let value = value(rng, 200);
        set.add("trusted.kit".into(), value);
    }
    if is_root && rng.chance(4) {
        let value = value(rng, 100);
        set.add("security.kit".into(), value);
    }
    if is_root && is_file && mode & 0o6111 == 0o111 && rng.chance(20) {
        set.add("security.capability".into(), CAPABILITY.to_vec());
    }
    if (is_file || is_dir) && rng.chance(4) {
        set.add("system.posix_acl_access".into(), acl(rng, mode));
    }
    if is_dir && rng.chance(6) {
        set.add("system.posix_acl_default".into(), acl(rng, 0o750));
    }
    set.pairs
}

/// Extended attributes within a size limit.
struct Set {
    left_bytes: usize,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Set {
    fn add(&mut self, name: String, value: Vec<u8>) {
        // An entry costs 16 bytes; name and value are padded to 4.
        let cost = 24 + name.len() + value.len();
        if cost <= self.left_bytes {
            self.left_bytes -= cost;
            self.pairs.insert(name.into_bytes(), value);
        }
    }
}

fn value(rng: &mut Rng, max_bytes: usize) -> Vec<u8> {
    let len = match rng.below(10) {
        0 => 0,
        1..=6 => rng.between(1, 40),
        _ => rng.between(40, max_bytes as u64),
    };
    rng.bytes(len as usize)
}

/// An ACL in the kernel's format that matches `mode`, so setting it changes no mode bit.
fn acl(rng: &mut Rng, mode: u32) -> Vec<u8> {
    let bits = |shift: u32| ((mode >> shift) & 7) as u16;
    let mut entries = vec![(ACL_USER_OBJ, bits(6), ACL_NO_ID)];
    entries.push((ACL_USER, rng.below(8) as u16, rng.between(1, 999) as u32));
    if rng.chance(50) {
        entries.push((
            ACL_USER,
            rng.below(8) as u16,
            rng.between(70_000, 80_000) as u32,
        ));
    }
    entries.push((ACL_GROUP_OBJ, rng.below(8) as u16, ACL_NO_ID));
    entries.push((
        ACL_GROUP,
        rng.below(8) as u16,
        rng.between(1, 80_000) as u32,
    ));
    entries.push((ACL_MASK, bits(3), ACL_NO_ID));
    entries.push((ACL_OTHER, bits(0), ACL_NO_ID));
    let mut bytes = ACL_VERSION.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}
