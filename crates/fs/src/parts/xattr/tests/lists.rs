//! ACLs: mode bits, inheritance, permission.

use super::*;
use crate::parts::access::Want;
use crate::types::attr::{Checks, SetAttr};
use crate::types::error::Error;
use uext4_format::acl::{Acl, AclEntry, Tag};

fn list(entries: &[(Tag, u16)]) -> Vec<u8> {
    let entries = entries
        .iter()
        .map(|&(tag, perm)| AclEntry { tag, perm })
        .collect();
    Acl::new(entries).expect("a valid list").to_xattr()
}

/// Owner rw, user 1000 as given, group r, mask rwx, others none.
fn named(perm: u16) -> Vec<u8> {
    let (user, group) = (Tag::User(1000), Tag::GroupObj);
    list(&[
        (Tag::UserObj, 6),
        (user, perm),
        (group, 4),
        (Tag::Mask, 7),
        (Tag::Other, 0),
    ])
}

fn user(uid: u32) -> Caller {
    Caller {
        uid,
        gid: uid,
        groups: Vec::new(),
        umask: 0,
        checks: Checks::Library,
        owner: None,
    }
}

fn mode(rig: &Rig, inode: &InodeRef) -> u16 {
    rig.mounted.attr(inode).mode
}

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

#[test]
fn a_list_sets_the_mode_and_grants_access() {
    let rig = Rig::new(24, &["-I", "128"]);
    let file = &rig.file;
    // mke2fs gives it to the user that runs the test.
    let to_root = SetAttr {
        uid: Some(0),
        gid: Some(0),
        ..SetAttr::default()
    };
    let changed = rig.mounted.set_attr(file, &to_root, &Caller::root());
    changed.expect("root may");
    let may = |uid, want| rig.mounted.access(file, &user(uid), want).is_ok();
    assert!(
        rig.mounted
            .get_xattr(file, ACCESS.as_bytes(), &Caller::root())
            .is_err()
    );
    set(&rig, file, ACCESS, &named(6)).unwrap();
    assert_eq!(mode(&rig, file), 0o670);
    assert!(may(1000, Want::READ.and(Want::WRITE)) && !may(1000, Want::EXECUTE));
    assert!(!may(1001, Want::READ));
    let got = rig
        .mounted
        .get_xattr(file, ACCESS.as_bytes(), &Caller::root())
        .unwrap();
    assert_eq!(got, named(6));
    // chmod changes the mask.
    let chmod = SetAttr {
        mode: Some(0o640),
        ..SetAttr::default()
    };
    rig.mounted.set_attr(file, &chmod, &Caller::root()).unwrap();
    assert!(may(1000, Want::READ) && !may(1000, Want::WRITE));
    // An ACL equivalent to a mode is not stored.
    let plain = list(&[(Tag::UserObj, 7), (Tag::GroupObj, 5), (Tag::Other, 1)]);
    set(&rig, file, ACCESS, &plain).unwrap();
    assert_eq!((mode(&rig, file), dump(&rig, file).len()), (0o751, 0));
    assert_eq!(file.read().disk.file_acl.0, 0);
    rig.assert_clean();
}

#[test]
fn clear_group_bits_keep_the_list_out() {
    let rig = Rig::new(24, &[]);
    set(&rig, &rig.file, ACCESS, &named(7)).unwrap();
    let chmod = SetAttr {
        mode: Some(0o604),
        ..SetAttr::default()
    };
    rig.mounted
        .set_attr(&rig.file, &chmod, &Caller::root())
        .unwrap();
    // Linux evaluates the mode alone then.
    assert!(
        rig.mounted
            .access(&rig.file, &user(1000), Want::READ)
            .is_ok()
    );
    rig.assert_clean();
}

#[test]
fn new_files_inherit_the_default_list() {
    for options in [
        &["-I", "128"][..],
        &["-I", "256"],
        &["-I", "256", "-O", "inline_data"],
    ] {
        let rig = Rig::new(24, options);
        let root = rig.mounted.root().unwrap();
        let caller = Caller {
            umask: 0o077,
            ..Caller::root()
        };
        let dir = rig.mounted.mkdir(&root, b"dir", 0o755, &caller).unwrap();
        assert_eq!(mode(&rig, &dir), 0o700);
        set(&rig, &dir, DEFAULT, &named(7)).unwrap();
        let file = rig.mounted.create(&dir, b"file", 0o664, &caller).unwrap();
        let sub = rig.mounted.mkdir(&dir, b"sub", 0o777, &caller).unwrap();
        let link = rig
            .mounted
            .symlink(&dir, b"link", b"target", &caller)
            .unwrap();
        // The umask is ignored; the mask takes the requested group bits.
        assert_eq!((mode(&rig, &file), mode(&rig, &sub)), (0o660, 0o670));
        assert_eq!(dump(&rig, &file).len(), 1);
        assert_eq!(dump(&rig, &sub)[DEFAULT.as_bytes()], named(7));
        assert_eq!(dump(&rig, &link).len(), 0);
        assert!(set(&rig, &file, DEFAULT, &named(7)).is_err());
        let access = rig
            .mounted
            .access(&file, &user(1000), Want::READ.and(Want::WRITE));
        assert!(access.is_ok());
        drop((root, dir, file, sub, link));
        rig.assert_clean();
    }
}

#[test]
fn a_caller_outside_the_group_loses_setgid() {
    let rig = Rig::new(24, &[]);
    let own = SetAttr {
        uid: Some(5),
        gid: Some(6),
        ..SetAttr::default()
    };
    rig.mounted
        .set_attr(&rig.file, &own, &Caller::root())
        .unwrap();
    let chmod = SetAttr {
        mode: Some(0o2755),
        ..SetAttr::default()
    };
    rig.mounted
        .set_attr(&rig.file, &chmod, &Caller::root())
        .unwrap();
    let any = crate::parts::xattr::SetMode::Any;
    rig.mounted
        .set_xattr(&rig.file, ACCESS.as_bytes(), &named(7), any, &user(5))
        .unwrap();
    assert_eq!(mode(&rig, &rig.file), 0o670);
    rig.assert_clean();
}

#[test]
fn bad_lists_are_refused() {
    let rig = Rig::new(24, &[]);
    for bad in [
        &b"\x02\0\0"[..],
        b"\x01\0\0\0",
        b"\x02\0\0\0abc",
        &named(7)[..12],
    ] {
        assert!(matches!(
            set(&rig, &rig.file, ACCESS, bad),
            Err(Error::Invalid(_))
        ));
    }
    // An ACL without entries removes the list.
    set(&rig, &rig.file, ACCESS, &named(7)).unwrap();
    set(&rig, &rig.file, ACCESS, b"\x02\0\0\0").unwrap();
    assert_eq!(dump(&rig, &rig.file).len(), 0);
    rig.assert_clean();
}
