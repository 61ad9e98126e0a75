//! Damaged areas give errors, and never panic.

use super::*;
use crate::types::error::Error;
use uext4_format::{BlockNr, InodeNr};

/// Changes every byte of the header and of the first entries, to several values.
#[test]
fn a_damaged_block_is_an_error_or_other_attributes() {
    for options in [
        &["-b", "4096", "-I", "128", "-O", "^metadata_csum"][..],
        &["-b", "4096", "-I", "128", "-O", "^metadata_csum,ea_inode"],
    ] {
        let rig = Rig::new(24, options);
        set(&rig, &rig.file, "user.value", &bytes(300, 1)).unwrap();
        set(&rig, &rig.file, "user.other", b"short").unwrap();
        let nr = rig.file.read().disk.file_acl;
        let file = rig.file.nr();
        let device = rig.device.clone();
        rig.assert_clean();
        let good = device.to_bytes();
        let at = nr.0 as usize * 4096;
        for byte in (0..96).chain(4096 - 16..4096) {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut bytes = good.clone();
                bytes[at + byte] = value;
                let rig = Rig::mount_image(&bytes);
                poke(&rig, file);
            }
        }
    }
}

/// Reads and changes all attributes; errors are accepted.
fn poke(rig: &Rig, file: InodeNr) {
    let Ok(inode) = rig.mounted.inode(file) else {
        return;
    };
    let caller = Caller::root();
    if let Ok(names) = rig.mounted.list_xattrs(&inode, &caller) {
        for name in names {
            let _ = rig.mounted.get_xattr(&inode, &name, &caller);
        }
    }
    let _ = set(rig, &inode, "user.new", b"new");
    let _ = remove(rig, &inode, "user.value");
}

#[test]
fn a_damaged_area_in_the_inode_is_an_error() {
    let rig = Rig::new(24, &[]);
    set(&rig, &rig.file, "user.value", &bytes(20, 1)).unwrap();
    let area = {
        let handle = rig.fs().start(1).unwrap();
        let mut state = handle.write(rig.file.arc());
        // The offset of the first value.
        state.disk.tail[6] = 0xFF;
        state.disk.tail[7] = 0xFF;
        state.disk.tail.clone()
    };
    let got = rig
        .mounted
        .get_xattr(&rig.file, b"user.value", &Caller::root());
    assert!(matches!(got, Err(Error::Corrupt(_))));
    assert!(set(&rig, &rig.file, "user.value", b"1").is_err());
    assert_eq!(rig.file.read().disk.tail, area);
}

#[test]
fn a_block_number_that_cannot_be_is_an_error() {
    for nr in [1, u64::from(u32::MAX)] {
        let rig = Rig::new(24, &[]);
        {
            let handle = rig.fs().start(1).unwrap();
            handle.write(rig.file.arc()).disk.file_acl = BlockNr(nr);
        }
        let got = rig.mounted.list_xattrs(&rig.file, &Caller::root());
        assert!(matches!(got, Err(Error::Corrupt(_))));
    }
}

/// An entry with an ordinary file, the inode itself, or a missing inode as its value inode.
#[test]
fn value_inodes_that_hold_no_value_are_errors() {
    let rig = Rig::new(
        24,
        &["-b", "4096", "-I", "128", "-O", "ea_inode,^metadata_csum"],
    );
    set(&rig, &rig.file, "user.value", &bytes(5000, 1)).unwrap();
    let nr = rig.file.read().disk.file_acl;
    let file = rig.file.nr();
    let other = create(&rig, "other").nr();
    let device = rig.device.clone();
    rig.assert_clean();
    for inode in [file, other, InodeNr(1), InodeNr(u32::MAX)] {
        let mut bytes = device.to_bytes();
        let at = nr.0 as usize * 4096 + 32 + 4;
        bytes[at..at + 4].copy_from_slice(&inode.0.to_le_bytes());
        let rig = Rig::mount_image(&bytes);
        let held = rig.mounted.inode(file).unwrap();
        let got = rig.mounted.get_xattr(&held, b"user.value", &Caller::root());
        assert!(matches!(got, Err(Error::Corrupt(_))), "{inode:?}");
        drop(held);
        poke(&rig, file);
    }
}
