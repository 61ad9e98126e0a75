//! Seqlock-published inode fields for lock-free reads of directories. A read lock would be written
//! by every look-up and create in the directory, and its cache line would bounce.
//!
//! Invariants: a directory's facts are published each time its state is released from exclusive use
//! (`Render::released`), so a reader gets a consistent snapshot.
//! Locking: published under the state's lock.

use super::{Inode, InodeState};
use uext4_format::{FileType, InodeFlags, Timestamp, WithExtra};
use uext4_num::{high_u32, low_u16, low_u32};
use uext4_sync::{Arc, OnceLock, SeqLock};

/// Published facts of one directory.
pub(super) type PublishedFacts = SeqLock<6>;

/// Lock-free reads before the lock is taken: a change takes as long as a few of them.
const READS: usize = 8;
const HAS_XATTRS: u64 = 1 << 32;
const CHANGED_ALIKE: u64 = 1 << 33;
const TIMES_HAVE_EXTRA: u64 = 1 << 34;

/// The published fields, of any inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PublishedAttrs {
    pub(crate) mode: u16,
    pub(crate) links: u16,
    pub(crate) flags: InodeFlags,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Size in bytes.
    pub(crate) size: u64,
    pub(crate) generation: u32,
    pub(crate) projid: u32,
    /// The inode may have extended attributes.
    pub(crate) has_xattrs: bool,
    mtime: Timestamp,
    /// `ctime` equals `mtime`, which is kept alone.
    changed_alike: bool,
    /// How times are stored.
    times: WithExtra,
}

impl PublishedAttrs {
    pub(super) fn of(state: &InodeState) -> Self {
        let disk = &state.disk;
        Self {
            mode: disk.mode,
            links: disk.links,
            flags: disk.flags,
            uid: disk.uid,
            gid: disk.gid,
            size: disk.size,
            generation: disk.generation,
            projid: disk.projid,
            has_xattrs: state.has_xattrs(),
            mtime: disk.mtime,
            changed_alike: disk.ctime == disk.mtime,
            times: disk.times_have_extra(),
        }
    }

    pub(crate) fn file_type(&self) -> Option<FileType> {
        FileType::from_mode(self.mode)
    }

    /// As `Inode::project_of_children` of the format.
    pub(crate) fn project_of_children(&self) -> Option<u32> {
        let hands_on = self.flags.contains(InodeFlags::PROJINHERIT);
        hands_on.then_some(self.projid)
    }

    /// Whether the times are `now` already, as the inode stores them.
    pub(crate) fn changed_at(&self, now: Timestamp) -> bool {
        self.changed_alike && self.mtime == now.as_stored(self.times)
    }

    pub(super) fn to_words(self) -> [u64; 6] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let bit = |is: bool, bit: u64| if is { bit } else { 0 };
        let kept = u32::from(self.mode) | u32::from(self.links) << 16;
        let notes = bit(self.has_xattrs, HAS_XATTRS)
            | bit(self.changed_alike, CHANGED_ALIKE)
            | bit(self.times == WithExtra::Yes, TIMES_HAVE_EXTRA);
        [
            pair(kept, self.flags.0),
            pair(self.uid, self.gid),
            self.size,
            pair(self.generation, self.projid),
            self.mtime.seconds.cast_unsigned(),
            u64::from(self.mtime.nanoseconds) | notes,
        ]
    }

    fn from_words(words: [u64; 6]) -> Self {
        let [kept, owners, size, numbers, seconds, rest] = words;
        Self {
            mode: low_u16(kept),
            links: low_u16(kept >> 16),
            flags: InodeFlags(high_u32(kept)),
            uid: low_u32(owners),
            gid: high_u32(owners),
            size,
            generation: low_u32(numbers),
            projid: high_u32(numbers),
            has_xattrs: rest & HAS_XATTRS != 0,
            mtime: Timestamp::new(seconds.cast_signed(), low_u32(rest)),
            changed_alike: rest & CHANGED_ALIKE != 0,
            times: if rest & TIMES_HAVE_EXTRA != 0 {
                WithExtra::Yes
            } else {
                WithExtra::No
            },
        }
    }
}

impl Inode {
    /// A snapshot of the inode's facts; for a directory without its lock.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub(crate) fn facts(&self) -> PublishedAttrs {
        let published = self.published.get();
        match (0..READS).find_map(|_| published.and_then(|facts| facts.read())) {
            Some(words) => PublishedAttrs::from_words(words),
            None => PublishedAttrs::of(&self.read()),
        }
    }

    /// The size of a directory in bytes, without any lock; `None` while it is being published.
    pub(crate) fn size_now(&self) -> Option<u64> {
        let words = self.published.get()?.read()?;
        Some(PublishedAttrs::from_words(words).size)
    }
}

/// Publishes the facts of a directory at `place` from now on.
pub(super) fn publish_in(place: &OnceLock<Arc<PublishedFacts>>, state: &mut InodeState) {
    if state.disk.file_type() == Some(FileType::Directory) {
        let words = PublishedAttrs::of(state).to_words();
        let published = place.get_or_init(|| SeqLock::new(words).into());
        published.publish(words);
        state.published = Some(published.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rig::Rig;
    use crate::types::attr::{Caller, SetAttr, SetTime};

    #[test]
    fn words_say_what_the_facts_said() {
        let facts = PublishedAttrs {
            mode: 0o141_777,
            links: 65_000,
            flags: InodeFlags(0xDEAD_BEEF),
            uid: u32::MAX,
            gid: 1,
            size: u64::MAX - 7,
            generation: 0x8000_0001,
            projid: 77,
            has_xattrs: true,
            mtime: Timestamp::new(-5, 999_999_999),
            changed_alike: false,
            times: WithExtra::Yes,
        };
        assert_eq!(PublishedAttrs::from_words(facts.to_words()), facts);
        let other = PublishedAttrs {
            has_xattrs: false,
            changed_alike: true,
            times: WithExtra::No,
            ..facts
        };
        assert_eq!(PublishedAttrs::from_words(other.to_words()), other);
    }

    #[test]
    fn times_are_compared_as_they_are_stored() {
        let now = Timestamp::new(9, 500);
        let facts = |times, mtime| PublishedAttrs {
            mtime,
            changed_alike: true,
            times,
            ..PublishedAttrs::from_words([0; 6])
        };
        assert!(facts(WithExtra::Yes, now).changed_at(now));
        assert!(facts(WithExtra::No, Timestamp::new(9, 0)).changed_at(now));
        assert!(!facts(WithExtra::Yes, Timestamp::new(9, 0)).changed_at(now));
        assert!(!facts(WithExtra::No, Timestamp::new(8, 0)).changed_at(now));
    }

    /// The published facts are present and current.
    fn is_told(dir: &Inode) {
        let words = dir.published.get().and_then(|facts| facts.read());
        let told = words.map(PublishedAttrs::from_words);
        assert_eq!(told, Some(PublishedAttrs::of(&dir.read())));
    }

    #[test]
    fn every_change_of_a_directory_is_told() {
        let rig = Rig::new(16, &["-b", "1024", "-I", "512", "-O", "project"]);
        let (fs, root, user) = (&rig.mounted, rig.mounted.root().unwrap(), Caller::root());
        let dir = fs.mkdir(&root, b"dir", 0o755, &user).unwrap();
        is_told(&dir);
        let set = |set: SetAttr| {
            fs.set_attr(&dir, &set, &user).unwrap();
            is_told(&dir);
        };
        set(SetAttr {
            mode: Some(0o2711),
            ..SetAttr::default()
        });
        set(SetAttr {
            uid: Some(7),
            gid: Some(9),
            ..SetAttr::default()
        });
        set(SetAttr {
            mtime: Some(SetTime::At(Timestamp::new(5, 6))),
            ..SetAttr::default()
        });
        for nr in 0..300 {
            let name = format!("a name of some length, number {nr}");
            fs.create(&dir, name.as_bytes(), 0o644, &user).unwrap();
            is_told(&dir);
        }
        assert!(dir.facts().size > 1024 && dir.facts().flags.contains(InodeFlags::INDEX));
        fs.mkdir(&dir, b"below", 0o755, &user).unwrap();
        assert_eq!(dir.facts().links, 3);
        is_told(&dir);
        fs.sync().unwrap();
        is_told(&dir);
    }

    #[test]
    fn a_number_that_was_a_files_tells_what_its_directory_is() {
        let rig = Rig::new(16, &[]);
        let (fs, root, user) = (&rig.mounted, rig.mounted.root().unwrap(), Caller::root());
        for round in 0..4 {
            let file = fs.create(&root, b"name", 0o600, &user).unwrap();
            let nr = file.nr();
            assert_eq!(file.facts().mode & 0o777, 0o600);
            drop(file);
            fs.unlink(&root, b"name", &user).unwrap();
            let dir = fs.mkdir(&root, b"dir", 0o750 + round, &user).unwrap();
            is_told(&dir);
            assert_eq!((dir.nr(), dir.facts().mode & 0o777), (nr, 0o750 + round));
            drop(dir);
            fs.rmdir(&root, b"dir", &user).unwrap();
        }
    }
}
