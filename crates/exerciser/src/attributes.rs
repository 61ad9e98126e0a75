//! Expected attributes of one file: permissions, owners, mtime, user attributes and an access ACL.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Result, ensure};
use rustix::fs::{self as sys, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use uext4_testkit::rng::Rng;

/// Names of attributes: few, so that operations collide.
const NAMES: [&str; 3] = ["user.a", "user.second", "trusted.third"];
/// Longest value in bytes: all of them fit into one block of 1 KiB.
const VALUE_BYTES_MAX: u64 = 200;
/// Size of the buffer for reads of values, in bytes.
const READ_BYTES_MAX: usize = 4096;
const ACCESS_LIST: &str = "system.posix_acl_access";
/// Permission bits that writes and changes of owner do not clear.
const MODES: [u32; 5] = [0o644, 0o600, 0o755, 0o640, 0o777];
const IDS: [u32; 4] = [0, 1000, 70_000, 4_000_000_000];
/// Range of the times that are set, in seconds: some need more than 32 bits.
const SECONDS_FIRST: u64 = 1_000_000_000;
const SECONDS_LAST: u64 = 9_000_000_000;

/// Named user and group entries of an access ACL; its other entries are the permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AccessList {
    user: u32,
    user_may: u16,
    group_may: u16,
}

impl AccessList {
    /// The value of the ACL attribute, with the permission bits of the file.
    fn bytes(self, mode: u32) -> Vec<u8> {
        let may = |shift: u32| (mode >> shift & 7) as u16;
        let entries = [
            (0x01, may(6), u32::MAX),
            (0x02, self.user_may, self.user),
            (0x04, self.group_may, u32::MAX),
            (0x10, may(3), u32::MAX),
            (0x20, may(0), u32::MAX),
        ];
        let mut bytes = 2u32.to_le_bytes().to_vec();
        for (tag, may, id) in entries {
            bytes.extend(u16::to_le_bytes(tag));
            bytes.extend(may.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Attributes {
    mode: u32,
    owner: (u32, u32),
    /// Seconds and nanoseconds; `None` after a change of the content.
    modified: Option<(i64, i64)>,
    values: BTreeMap<&'static str, Vec<u8>>,
    access_list: Option<AccessList>,
}

impl Attributes {
    /// For a file just created by this process; sets its permissions, whatever the umask.
    pub(crate) fn of_new(file: &File) -> Result<Self> {
        sys::fchmod(file, Mode::from_raw_mode(MODES[0]))?;
        Ok(Self {
            mode: MODES[0],
            owner: (0, 0),
            modified: None,
            values: BTreeMap::new(),
            access_list: None,
        })
    }

    /// Notes a change of the content: the mtime is unknown from now on.
    pub(crate) fn content_changed(&mut self) {
        self.modified = None;
    }

    pub(crate) fn change(&mut self, path: &Path, file: &File, rng: &mut Rng) -> Result<()> {
        match rng.below(8) {
            0 => self.set_mode(file, rng),
            1 => self.set_owner(path, rng),
            2 | 3 => self.set_time(file, rng),
            4 => self.set_value(path, rng),
            5 => self.remove_value(path, rng),
            6 => self.set_access_list(path, rng),
            _ => self.remove_access_list(path),
        }
    }

    fn set_mode(&mut self, file: &File, rng: &mut Rng) -> Result<()> {
        let mode = *rng.pick(&MODES);
        sys::fchmod(file, Mode::from_raw_mode(mode))?;
        self.mode = mode;
        Ok(())
    }

    fn set_owner(&mut self, path: &Path, rng: &mut Rng) -> Result<()> {
        let (user, group) = (*rng.pick(&IDS), *rng.pick(&IDS));
        sys::chown(path, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        self.owner = (user, group);
        Ok(())
    }

    fn set_time(&mut self, file: &File, rng: &mut Rng) -> Result<()> {
        let seconds = rng.between(SECONDS_FIRST, SECONDS_LAST) as i64;
        let nanos = rng.below(1_000_000_000) as i64;
        let time = Timespec {
            tv_sec: seconds,
            tv_nsec: nanos,
        };
        let both = Timestamps {
            last_access: time,
            last_modification: time,
        };
        sys::futimens(file, &both)?;
        self.modified = Some((seconds, nanos));
        let seen = file.metadata()?;
        let seen = (seen.atime(), seen.atime_nsec());
        ensure!(
            seen == (seconds, nanos),
            "access at {seen:?}, set to {:?}",
            (seconds, nanos)
        );
        Ok(())
    }

    fn set_value(&mut self, path: &Path, rng: &mut Rng) -> Result<()> {
        let (name, len) = (*rng.pick(&NAMES), rng.below(VALUE_BYTES_MAX));
        let value = rng.bytes(len as usize);
        sys::setxattr(path, name, &value, XattrFlags::empty())?;
        self.values.insert(name, value);
        Ok(())
    }

    fn remove_value(&mut self, path: &Path, rng: &mut Rng) -> Result<()> {
        let name = *rng.pick(&NAMES);
        let removed = sys::removexattr(path, name);
        let expected = self.values.remove(name).map(drop).ok_or(Errno::NODATA);
        ensure!(
            removed == expected,
            "removing {name}: {removed:?}, expected {expected:?}"
        );
        Ok(())
    }

    fn set_access_list(&mut self, path: &Path, rng: &mut Rng) -> Result<()> {
        let mode = *rng.pick(&MODES);
        let list = AccessList {
            user: *rng.pick(&IDS),
            user_may: rng.below(8) as u16,
            group_may: rng.below(8) as u16,
        };
        sys::setxattr(path, ACCESS_LIST, &list.bytes(mode), XattrFlags::empty())?;
        self.mode = mode;
        self.access_list = Some(list);
        Ok(())
    }

    /// Removes the ACL; the permission bits do not change.
    fn remove_access_list(&mut self, path: &Path) -> Result<()> {
        match sys::removexattr(path, ACCESS_LIST) {
            Err(error) if error != Errno::NODATA || self.access_list.is_some() => Err(error.into()),
            _ => {
                self.access_list = None;
                Ok(())
            }
        }
    }

    pub(crate) fn compare(&self, path: &Path, seen: &Metadata) -> Result<()> {
        let mode = seen.mode() & 0o7777;
        ensure!(mode == self.mode, "mode {mode:o}, expected {:o}", self.mode);
        let owner = (seen.uid(), seen.gid());
        ensure!(
            owner == self.owner,
            "owner {owner:?}, expected {:?}",
            self.owner
        );
        if let Some(expected) = self.modified {
            let found = (seen.mtime(), seen.mtime_nsec());
            ensure!(
                found == expected,
                "modified at {found:?}, set to {expected:?}"
            );
        }
        let list = self.access_list.map(|list| list.bytes(self.mode));
        let list = list.iter().map(|bytes| (ACCESS_LIST, bytes));
        let expected: BTreeMap<&str, &Vec<u8>> = list
            .chain(self.values.iter().map(|(name, value)| (*name, value)))
            .collect();
        self.compare_values(path, &expected)
    }

    fn compare_values(&self, path: &Path, expected: &BTreeMap<&str, &Vec<u8>>) -> Result<()> {
        for name in NAMES.iter().chain([&ACCESS_LIST]) {
            let mut value = vec![0; READ_BYTES_MAX];
            let found = sys::getxattr(path, *name, &mut value);
            let found = match found {
                Err(Errno::NODATA) => None,
                len => Some(&value[..len?]),
            };
            let wanted = expected.get(name).map(|value| value.as_slice());
            ensure!(found == wanted, "{name} is {found:?}, expected {wanted:?}");
        }
        let mut names = vec![0; READ_BYTES_MAX];
        let len = sys::listxattr(path, &mut names)?;
        let mut found: Vec<_> = names[..len].split(|byte| *byte == 0).collect();
        found.retain(|name| !name.is_empty());
        found.sort_unstable();
        let wanted: Vec<_> = expected.keys().map(|name| name.as_bytes()).collect();
        ensure!(found == wanted, "attributes {found:?}, expected {wanted:?}");
        Ok(())
    }
}
