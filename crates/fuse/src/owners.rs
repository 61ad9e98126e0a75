//! Owner mapping between image and mount (`uid=`, `gid=`, `map=`), as an idmapped mount.
//!
//! *Inside* is an id in the image, *outside* an id in the kernel and its programs. Users and groups
//! are each mapped identically, all to one owner, or by ranges. An id outside all ranges is shown
//! as [`OVERFLOW`] and cannot be assigned. Modes and access lists are shown so that the owner
//! [`OVERFLOW`] has no more rights than others: in the kernel an unmapped id is that of no process.
//!
//! Invariants: ranges overlap neither inside nor outside, so each direction maps to at most one id.
//! Not here: permissions. The kernel checks them with outside ids; the superuser outside is the
//! superuser for the server as well, whatever its inside id.

use crate::errno::Errno;
use std::fmt;
use std::str::FromStr;
use uext4::FileType;
use uext4_format::acl::{IdKind, Tag, replace_ids, restrict};

/// Shown for an unmapped owner, as in the kernel (`/proc/sys/kernel/overflowuid`).
pub(crate) const OVERFLOW: u32 = 65534;

/// Range of consecutive ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    inside: u32,
    outside: u32,
    count: u32,
}

/// Mapping of the ids of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Side {
    #[default]
    Same,
    /// All ids are shown as this one.
    One(u32),
    Spans(Vec<Span>),
}

/// What gives the group of an inode its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decides {
    Mode,
    /// An access control list.
    List,
}

/// Mapping of owners; see the module. The default is the identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    users: Side,
    groups: Side,
}

/// Reason for a rejected option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOwners(String);

impl fmt::Display for BadOwners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An option: name, value in the help text, purpose, parser.
type Word = (
    &'static str,
    &'static str,
    &'static str,
    fn(&mut Owners, &str) -> Result<(), &'static str>,
);

const WORDS: [Word; 3] = [
    (
        "uid",
        "N",
        "show all files as owned by this user",
        |owners, value| owners.users.show_as(value),
    ),
    (
        "gid",
        "N",
        "show all files as owned by this group",
        |owners, value| owners.groups.show_as(value),
    ),
    (
        "map",
        "KIND:INSIDE:OUTSIDE:COUNT",
        "map COUNT IDs from INSIDE on in the image to IDs from OUTSIDE on, in both directions; \
         KIND is u (users), g (groups) or b (both); may be given several times",
        Owners::add,
    ),
];

impl Owners {
    /// Name, value and purpose of the options that [`Self::take`] accepts.
    pub fn words() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        WORDS
            .iter()
            .map(|(name, value, about, _)| (*name, *value, *about))
    }

    /// Parses an option of owners; returns false for any other option.
    ///
    /// # Errors
    /// A malformed value, or one that contradicts an earlier option.
    pub fn take(&mut self, word: &str) -> Result<bool, BadOwners> {
        let Some((name, value)) = word.split_once('=') else {
            return Ok(false);
        };
        let Some((.., take)) = WORDS.iter().find(|(known, ..)| *known == name) else {
            return Ok(false);
        };
        let taken = take(self, value).map_err(|why| BadOwners(format!("{word}: {why}")));
        taken.map(|()| true)
    }

    fn add(&mut self, value: &str) -> Result<(), &'static str> {
        let (kind, span) = value.split_once(':').ok_or(SYNTAX)?;
        let span: Span = span.parse()?;
        match kind {
            "u" => self.users.add(span),
            "g" => self.groups.add(span),
            "b" => {
                self.users.add(span)?;
                self.groups.add(span)
            }
            _ => Err(SYNTAX),
        }
    }

    /// Whether the mapping is the identity.
    pub(crate) fn are_same(&self) -> bool {
        *self == Self::default()
    }

    /// Outside user and group of an inode.
    pub(crate) fn shown(&self, uid: u32, gid: u32) -> (u32, u32) {
        (self.users.shown(uid), self.groups.shown(gid))
    }

    /// Mode of an inode as shown. To the kernel the user [`OVERFLOW`] owns what an unmapped user
    /// owns, and members of that group have the rights of an unmapped group. So the owner's bits
    /// are what group and others both have, the group's are those of others, and no program runs
    /// as an unmapped owner. Where an access list decides, the group's bits are its mask, which
    /// stays ([`Self::restrict_list`]).
    pub(crate) fn shown_mode(
        &self,
        (uid, gid): (u32, u32),
        (kind, mut mode): (FileType, u16),
        decides: Decides,
    ) -> u16 {
        let others = mode & 0o7;
        if self.groups.out(gid).is_none() && decides == Decides::Mode {
            mode = mode & !0o070 | others << 3;
        }
        if self.users.out(uid).is_none() {
            let both = others & mode >> 3;
            mode = mode & !0o700 | both << 6;
        }
        match kind {
            FileType::Directory => mode,
            _ => mode & !0o6000,
        }
    }

    /// Whether both owners of an inode are mapped.
    pub(crate) fn are_known(&self, uid: u32, gid: u32) -> bool {
        self.users.out(uid).is_some() && self.groups.out(gid).is_some()
    }

    /// Inside id of an outside user; `None` if unmapped.
    pub(crate) fn user_inside(&self, uid: u32) -> Option<u32> {
        self.users.inside(uid)
    }

    /// As [`Self::user_inside`], for a group.
    pub(crate) fn group_inside(&self, gid: u32) -> Option<u32> {
        self.groups.inside(gid)
    }

    /// Inside id for a chown to `uid`; `None` if the owner stays.
    ///
    /// # Errors
    /// `EINVAL` if `uid` is unmapped, `EPERM` if all owners are shown as one.
    pub(crate) fn new_user(&self, uid: u32) -> Result<Option<u32>, Errno> {
        self.users.new_owner(uid)
    }

    /// As [`Self::new_user`].
    pub(crate) fn new_group(&self, gid: u32) -> Result<Option<u32>, Errno> {
        self.groups.new_owner(gid)
    }

    /// Whether all owners of a kind are shown as one, so that ACLs have no meaning.
    pub(crate) fn hide_lists(&self) -> bool {
        matches!(self.users, Side::One(_)) || matches!(self.groups, Side::One(_))
    }

    /// Whether new files get the user of their directory, because all are shown as one user.
    pub(crate) fn take_user_of_directory(&self) -> bool {
        matches!(self.users, Side::One(_))
    }

    /// As [`Self::take_user_of_directory`].
    pub(crate) fn take_group_of_directory(&self) -> bool {
        matches!(self.groups, Side::One(_))
    }

    /// Takes the rights of unmapped ids away from the access list of an inode with group `gid`: the
    /// kernel takes each for [`OVERFLOW`].
    pub(crate) fn restrict_list(&self, list: &mut [u8], gid: u32) {
        restrict(list, |tag| match tag {
            Tag::User(id) => self.users.out(id).is_some(),
            Tag::Group(id) => self.groups.out(id).is_some(),
            Tag::GroupObj => self.groups.out(gid).is_some(),
            Tag::UserObj | Tag::Mask | Tag::Other => true,
        });
    }

    /// Maps the ids of a POSIX ACL from inside to outside.
    pub(crate) fn show_list(&self, list: &mut [u8]) -> Result<(), Errno> {
        replace_ids(list, |kind, id| {
            Ok(match kind {
                IdKind::User => self.users.shown(id),
                IdKind::Group => self.groups.shown(id),
            })
        })
    }

    /// Inverse of [`Self::show_list`].
    ///
    /// # Errors
    /// `EINVAL` if the ACL names an unmapped id.
    pub(crate) fn take_list(&self, list: &mut [u8]) -> Result<(), Errno> {
        replace_ids(list, |kind, id| {
            let inside = match kind {
                IdKind::User => self.users.inside(id),
                IdKind::Group => self.groups.inside(id),
            };
            inside.ok_or(Errno::EINVAL)
        })
    }
}

const SYNTAX: &str = "not KIND:INSIDE:OUTSIDE:COUNT (KIND u, g or b for both)";
const MIXED: &str = "one owner for all and ranges do not go together";
/// Largest user or group id.
const ID_MAX: u32 = u32::MAX - 1;

impl FromStr for Span {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words: Result<Vec<u32>, _> = text.split(':').map(str::parse).collect();
        let words: [u32; 3] = words.map_err(|_| SYNTAX)?.try_into().map_err(|_| SYNTAX)?;
        let [inside, outside, count] = words;
        let fits = |first: u32| {
            let room = ID_MAX.checked_sub(first);
            count > 0 && room.is_some_and(|room| count - 1 <= room)
        };
        if !fits(inside) || !fits(outside) {
            return Err("the range is empty, or goes beyond the largest id");
        }
        Ok(Span {
            inside,
            outside,
            count,
        })
    }
}

impl Span {
    fn overlaps(&self, other: &Self) -> bool {
        let meet = |a: u32, b: u32| {
            let (a, b) = (u64::from(a), u64::from(b));
            a < b + u64::from(other.count) && b < a + u64::from(self.count)
        };
        meet(self.inside, other.inside) || meet(self.outside, other.outside)
    }
}

impl Side {
    fn show_as(&mut self, value: &str) -> Result<(), &'static str> {
        let id: u32 = value.parse().map_err(|_| "not a number")?;
        if matches!(self, Side::Spans(_)) {
            return Err(MIXED);
        }
        if id > ID_MAX {
            return Err("no id");
        }
        *self = Side::One(id);
        Ok(())
    }

    fn add(&mut self, span: Span) -> Result<(), &'static str> {
        match self {
            Side::Same => *self = Side::Spans(vec![span]),
            Side::One(_) => return Err(MIXED),
            Side::Spans(spans) => {
                if spans.iter().any(|other| span.overlaps(other)) {
                    return Err("it overlaps another range");
                }
                spans.push(span);
            }
        }
        Ok(())
    }

    fn out(&self, inside: u32) -> Option<u32> {
        match self {
            Side::Same => Some(inside),
            Side::One(id) => Some(*id),
            Side::Spans(spans) => spans.iter().find_map(|span| {
                let at = inside.checked_sub(span.inside)?;
                (at < span.count).then(|| span.outside + at)
            }),
        }
    }

    fn shown(&self, inside: u32) -> u32 {
        self.out(inside).unwrap_or(OVERFLOW)
    }

    fn inside(&self, outside: u32) -> Option<u32> {
        match self {
            Side::Same => Some(outside),
            Side::One(_) => None,
            Side::Spans(spans) => spans.iter().find_map(|span| {
                let at = outside.checked_sub(span.outside)?;
                (at < span.count).then(|| span.inside + at)
            }),
        }
    }

    fn new_owner(&self, outside: u32) -> Result<Option<u32>, Errno> {
        match self {
            Side::One(id) if *id == outside => Ok(None),
            Side::One(_) => Err(Errno::EPERM),
            _ => self.inside(outside).map(Some).ok_or(Errno::EINVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(words: &[&str]) -> Result<Owners, BadOwners> {
        let mut owners = Owners::default();
        for word in words {
            assert!(owners.take(word)?, "{word}");
        }
        Ok(owners)
    }

    #[test]
    fn ranges_lead_both_ways_and_no_other_id_gets_in() {
        let words = ["map=u:0:100000:1000", "map=u:2000:7:1", "map=g:5:50:2"];
        let owners = owners(&words).expect("they go together");
        for (inside, outside) in [(0, 100_000), (999, 100_999), (2000, 7)] {
            assert_eq!(owners.shown(inside, 6), (outside, 51));
            assert_eq!(owners.user_inside(outside), Some(inside));
            assert_eq!(owners.new_user(outside), Ok(Some(inside)));
        }
        assert_eq!(owners.shown(1000, 7), (OVERFLOW, OVERFLOW));
        assert!(owners.are_known(999, 5) && !owners.are_known(999, 7));
        assert_eq!(owners.user_inside(0), None);
        assert_eq!(owners.new_group(52), Err(Errno::EINVAL));
        assert!(Owners::default().are_same() && !owners.are_same());
    }

    #[test]
    fn unmapped_owners_have_the_rights_of_others() {
        let owners = owners(&["map=b:0:100000:1000"]).expect("it makes sense");
        for (ids, decides, inside, shown) in [
            ((5000, 5000), Decides::Mode, 0o6755, 0o555),
            ((5000, 5000), Decides::Mode, 0o640, 0),
            ((5000, 5), Decides::Mode, 0o640, 0o040),
            ((5000, 5), Decides::Mode, 0o604, 0o004),
            ((5, 5000), Decides::Mode, 0o642, 0o622),
            ((5, 5000), Decides::List, 0o642, 0o642),
            ((5000, 5000), Decides::List, 0o755, 0o555),
        ] {
            let mode = owners.shown_mode(ids, (FileType::Regular, inside), decides);
            assert_eq!(mode, shown, "{ids:?} {inside:o}");
        }
    }

    #[test]
    fn one_owner_for_all_is_given_nothing_away() {
        let owners = owners(&["uid=1000"]).expect("it makes sense");
        assert_eq!(owners.shown(0, 8), (1000, 8));
        assert_eq!(owners.new_user(1000), Ok(None));
        assert_eq!(owners.new_user(1001), Err(Errno::EPERM));
        assert_eq!(owners.new_group(9), Ok(Some(9)));
        assert!(owners.hide_lists() && !owners.take_group_of_directory());
    }

    #[test]
    fn nonsense_is_refused() {
        for words in [
            &["uid=x"][..],
            &["uid=4294967295"],
            &["map=u:0:0"],
            &["map=x:0:0:1"],
            &["map=u:0:0:0"],
            &["map=u:1:0:4294967295"],
            &["map=u:0:0:10", "map=u:9:100:1"],
            &["map=u:0:0:10", "map=u:100:9:1"],
            &["uid=5", "map=b:0:0:1"],
            &["map=g:0:0:1", "gid=5"],
        ] {
            assert!(owners(words).is_err(), "{words:?}");
        }
        assert_eq!(Owners::default().take("uidx=5"), Ok(false));
    }

    #[test]
    fn lists_name_the_right_people() {
        let mut list = vec![2, 0, 0, 0];
        for (tag, id) in [
            (1, [0xFF; 4]),
            (2, [3, 0, 0, 0]),
            (8, [3, 0, 0, 0]),
            (16, [3; 4]),
        ] {
            list.extend([tag, 0, 7, 0]);
            list.extend(id);
        }
        let before = list.clone();
        let owners = owners(&["map=u:3:30:1", "map=g:3:40:1"]).expect("they go together");
        owners.show_list(&mut list).expect("showing never fails");
        assert_eq!((list[16], list[24], list[32]), (30, 40, 3));
        assert_eq!(owners.take_list(&mut list), Ok(()));
        assert_eq!(list, before);
        assert_eq!(owners.take_list(&mut list), Err(Errno::EINVAL));
    }
}
