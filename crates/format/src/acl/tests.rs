use proptest::prelude::*;

use super::*;

fn entry(tag: Tag, perm: u16) -> AclEntry {
    AclEntry { tag, perm }
}

fn sample() -> Acl {
    let entries = [
        entry(Tag::Other, 4),
        entry(Tag::User(1000), 7),
        entry(Tag::UserObj, 6),
        entry(Tag::Mask, 5),
        entry(Tag::Group(50), 2),
        entry(Tag::GroupObj, 4),
    ];
    Acl::new(entries.to_vec()).unwrap()
}

#[test]
fn both_encodings_come_back() {
    let acl = sample();
    assert_eq!(acl.to_disk().len(), 4 + 4 * 4 + 2 * 8);
    assert_eq!(acl.to_xattr().len(), 4 + 6 * 8);
    assert_eq!(Acl::from_disk(&acl.to_disk()), Ok(Some(acl.clone())));
    assert_eq!(Acl::from_xattr(&acl.to_xattr()), Ok(Some(acl.clone())));
    assert_eq!(Acl::from_xattr(&[2, 0, 0, 0]), Ok(None));
    assert_eq!(Acl::from_disk(&acl.to_xattr()), Err(AclError::Version));
    assert_eq!(
        Acl::from_xattr(&acl.to_xattr()[..20]),
        Err(AclError::Structure)
    );
    assert_eq!(
        Acl::from_xattr(&acl.to_xattr()[..21]),
        Err(AclError::Length)
    );
    assert_eq!(Acl::from_disk(&[1, 0, 0, 0]), Ok(None));
    assert_eq!(Acl::from_disk(&[1]), Err(AclError::Length));
}

#[test]
fn incomplete_or_contradicting_lists_are_refused() {
    let base = Acl::from_mode(0o644).entries().to_vec();
    let with = |more: &[AclEntry]| Acl::new([&base[..], more].concat());
    assert!(with(&[]).is_ok());
    assert_eq!(with(&[entry(Tag::User(1), 7)]), Err(AclError::Structure));
    assert!(with(&[entry(Tag::User(1), 7), entry(Tag::Mask, 7)]).is_ok());
    assert_eq!(with(&[entry(Tag::Other, 1)]), Err(AclError::Structure));
    assert_eq!(with(&[entry(Tag::Mask, 8)]), Err(AclError::Entry));
    let twice = [
        entry(Tag::User(1), 7),
        entry(Tag::User(1), 6),
        entry(Tag::Mask, 7),
    ];
    assert!(with(&twice).is_ok(), "Linux takes an id twice");
    assert_eq!(with(&twice[..2]), Err(AclError::Structure));
    assert_eq!(Acl::new(base[..2].to_vec()), Err(AclError::Structure));
    assert_eq!(
        with(&[entry(Tag::User(u32::MAX), 7), entry(Tag::Mask, 7)]),
        Err(AclError::Entry)
    );
}

#[test]
fn the_group_bits_of_the_mode_are_the_mask() {
    let acl = sample();
    assert_eq!(acl.mode_bits(), 0o654);
    assert!(!acl.is_equivalent_to_mode());
    let after = acl.clone().with_mode(0o100_710);
    assert_eq!(after.mode_bits(), 0o710);
    assert!(after.entries().contains(&entry(Tag::Mask, 1)));
    assert!(after.entries().contains(&entry(Tag::GroupObj, 4)));
    let plain = Acl::from_mode(0o640).with_mode(0o751);
    assert_eq!(
        (plain.mode_bits(), plain.is_equivalent_to_mode()),
        (0o751, true)
    );
}

#[test]
fn permission_follows_the_first_class_that_matches() {
    let acl = sample();
    let allows = |uid, gids: &[u32], want| acl.allows(Subject { uid, gids }, 1, 20, want);
    assert!(allows(1, &[50], 6) && !allows(1, &[50], 1));
    assert!(allows(1000, &[], 5), "the mask allows read and execute");
    assert!(!allows(1000, &[], 2), "the mask takes write away");
    assert!(allows(5, &[20], 4) && !allows(5, &[20], 1));
    assert!(
        !allows(5, &[50], 2),
        "the mask takes write away from the group"
    );
    assert!(
        !allows(5, &[50], 4),
        "a matching group hides what others may"
    );
    assert!(allows(5, &[50, 20], 4), "one of several groups is enough");
    assert!(allows(5, &[99], 4) && !allows(5, &[99], 2));
}

#[test]
fn new_files_get_the_default_list_cut_by_the_mode() {
    let default = sample();
    let file = default.inherit(0o100_640, NewFile::Other);
    assert_eq!(file.mode, 0o100_640);
    let access = file.access.unwrap();
    assert!(access.entries().contains(&entry(Tag::Mask, 4)));
    assert!(access.entries().contains(&entry(Tag::User(1000), 7)));
    assert!(access.entries().contains(&entry(Tag::Other, 0)));
    assert_eq!(file.default, None);
    let directory = default.inherit(0o040_777, NewFile::Directory);
    assert_eq!(
        (directory.mode, directory.default),
        (0o040_654, Some(default))
    );
    let plain = Acl::from_mode(0o750).inherit(0o100_666, NewFile::Other);
    assert_eq!((plain.mode, plain.access), (0o100_640, None));
}

proptest! {
    #[test]
    fn random_bytes_never_panic_and_what_parses_comes_back(
        mut bytes in prop::collection::vec(0..0x21_u8, 0..60), version in 1..3_u8
    ) {
        if let Some(head) = bytes.first_chunk_mut::<4>() {
            *head = [version, 0, 0, 0];
        }
        if let Ok(Some(acl)) = Acl::from_disk(&bytes) {
            prop_assert_eq!(Acl::from_disk(&acl.to_disk()), Ok(Some(acl)));
        }
        if let Ok(Some(acl)) = Acl::from_xattr(&bytes) {
            prop_assert_eq!(Acl::from_xattr(&acl.to_xattr()), Ok(Some(acl)));
        }
    }
}

#[test]
fn ids_of_users_and_groups_are_replaced_until_one_is_refused() {
    let mut value = sample().to_xattr();
    let shift = |kind, id| match kind {
        IdKind::User => Ok(id + 1),
        IdKind::Group => Err(id),
    };
    assert_eq!(replace_ids(&mut value, shift), Err(50));
    let ids = |value: &[u8]| {
        let acl = Acl::from_xattr(value).unwrap().unwrap();
        acl.entries()
            .iter()
            .fold((0, 0), |ids, entry| match entry.tag {
                Tag::User(id) => (id, ids.1),
                Tag::Group(id) => (ids.0, id),
                _ => ids,
            })
    };
    assert_eq!(ids(&value), (1001, 50));
    replace_ids(&mut value, |_, id| Ok::<_, ()>(id * 2)).unwrap();
    assert_eq!(ids(&value), (2002, 100));
    // What is not an entry stays: a header, and bytes behind the last entry.
    let mut short = value[..9].to_vec();
    replace_ids(&mut short, |_, _| Err(())).unwrap();
    assert_eq!(short, value[..9]);
}

#[test]
fn entries_lose_what_groups_or_others_lack() {
    let mut value = sample().to_xattr();
    let perms = |value: &[u8]| {
        let acl = Acl::from_xattr(value).unwrap().unwrap();
        let perms = acl.entries().iter().map(|entry| entry.perm);
        perms.collect::<Vec<_>>()
    };
    restrict(&mut value, |tag| !matches!(tag, Tag::User(1000)));
    assert_eq!(perms(&value), [6, 0, 4, 2, 5, 4]);
    // An entry that loses its rights counts no more for the others.
    let mut value = sample().to_xattr();
    let loses = |tag| matches!(tag, Tag::User(_) | Tag::Group(_) | Tag::GroupObj);
    restrict(&mut value, |tag| !loses(tag));
    assert_eq!(perms(&value), [6, 4, 4, 4, 5, 4]);
}
