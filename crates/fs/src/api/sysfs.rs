//! Read-only values of `/sys/fs/ext4/<disk>/` beside the tunables, and the names not offered.

use crate::ops::filesystem::Filesystem;
use crate::types::error::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use uext4_format::{Corrupt, CorruptKind, DamageLocation, Superblock};

/// Value of a sysfs file that is read-only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Reading {
    /// A number, in the unit that its name gives.
    Number(u64),
    /// Text; bytes that are no UTF-8 are replaced.
    Text(String),
}

/// Prefixes of kernel names that have no counterpart here, with the reason.
const NOT_OFFERED: &[(&str, &str)] = &[
    (
        "max_writeback_mb_bump",
        "the kernel's page cache decides how much it writes back",
    ),
    (
        "extent_max_zeroout_kb",
        "unwritten extents are split, and never zeroed instead",
    ),
    (
        "inode_readahead_blks",
        "inode tables are not read ahead: blocks are read when they are needed",
    ),
    (
        "inode_goal",
        "the allocator alone chooses inodes: beside their directory",
    ),
    ("err_ratelimit", NO_LOG),
    ("warning_ratelimit", NO_LOG),
    ("msg_ratelimit", NO_LOG),
    ("msg_count", NO_LOG),
    ("warning_count", NO_LOG),
    (
        "journal_task",
        "the journal is served by threads, not tasks of the kernel",
    ),
    (
        "last_trim_minblks",
        "every trim looks at all groups again; none is remembered as trimmed",
    ),
    (
        "reserved_clusters",
        "nothing is set aside: a request is sure of its metadata before it begins",
    ),
    (
        "sra_exceeded_retry_limit",
        "ENOSPC comes after one exact search, without retries",
    ),
    (
        "sb_update",
        "the superblock is brought up to date at sync and unmount",
    ),
    (
        "simulate_fail",
        "faults are injected in tests, by the recording device",
    ),
];
const NO_LOG: &str = "there is no kernel log to fill";

impl Filesystem {
    /// The read-only values, by their name in `/sys/fs/ext4`, beside [`Self::TUNABLES`].
    pub fn readings(&self) -> BTreeMap<&'static str, Reading> {
        let written = self.fs.lifecycle.lock().written_bytes() >> 10;
        let superblock = self.fs.base.superblock.read();
        let mut found = errors(&superblock.disk);
        let lifetime = superblock.disk.kbytes_written.saturating_add(written);
        let more = [
            ("session_write_kbytes", written),
            ("lifetime_write_kbytes", lifetime),
            // The counters are per thread and always on.
            ("mb_stats", 1),
        ];
        found.extend(more.map(|(name, number)| (name, Reading::Number(number))));
        found
    }

    /// The superblock's error record as a sentence; `None` if the error state is clear.
    pub fn recorded_errors(&self) -> Option<String> {
        let superblock = self.fs.base.superblock.read();
        let disk = &superblock.disk;
        if disk.state & uext4_format::superblock::state::ERROR == 0 {
            return None;
        }
        let end = disk.last_error_func.iter().position(|byte| *byte == 0);
        let end = end.unwrap_or(disk.last_error_func.len());
        let what = String::from_utf8_lossy(&disk.last_error_func[..end]).into_owned();
        let mut said = format!("errors are recorded: {}", disk.error_count);
        if !what.is_empty() {
            said.push_str(&format!(
                ", the last in the structure '{}'",
                what.escape_debug()
            ));
        }
        if disk.last_error_ino != 0 {
            said.push_str(&format!(", inode {}", disk.last_error_ino));
        }
        if disk.last_error_block != 0 {
            said.push_str(&format!(", block {}", disk.last_error_block));
        }
        Some(said)
    }

    /// Whether the mount left orphans of a crash in place, because errors are recorded and e2fsck
    /// must run first.
    pub fn leaves_orphans(&self) -> bool {
        self.fs.orphans.are_left()
    }

    /// The reason why a name of the kernel's `/sys/fs/ext4` is not offered; `None` for other names.
    pub fn reason_not_offered(name: &str) -> Option<&'static str> {
        let why = NOT_OFFERED
            .iter()
            .find(|(start, _)| name.starts_with(start));
        why.map(|(_, why)| *why)
    }

    /// Simulates damage (`trigger_fs_error`): records it in the superblock and applies `errors=`.
    ///
    /// # Errors
    /// [`crate::Error::ReadOnly`].
    pub fn trigger_error(&self) -> Result<()> {
        let problem = CorruptKind::Requested;
        let damage = Corrupt::new(DamageLocation::Superblock, "no structure", problem);
        self.change(|fs| {
            fs.writable()?;
            fs.base.record_result::<()>(Err(damage.into())).or(Ok(()))
        })
    }
}

#[rustfmt::skip]
fn errors(disk: &Superblock) -> BTreeMap<&'static str, Reading> {
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Reading::Text(String::from_utf8_lossy(&bytes[..end]).into_owned())
    };
    let number = |number: u64| Reading::Number(number);
    BTreeMap::from([
        ("errors_count", number(disk.error_count.into())),
        ("first_error_time", number(disk.first_error_time)),
        ("first_error_ino", number(disk.first_error_ino.into())),
        ("first_error_block", number(disk.first_error_block)),
        ("first_error_func", text(&disk.first_error_func)),
        ("first_error_line", number(disk.first_error_line.into())),
        ("first_error_errcode", number(disk.first_error_errcode.into())),
        ("last_error_time", number(disk.last_error_time)),
        ("last_error_ino", number(disk.last_error_ino.into())),
        ("last_error_block", number(disk.last_error_block)),
        ("last_error_func", text(&disk.last_error_func)),
        ("last_error_line", number(disk.last_error_line.into())),
        ("last_error_errcode", number(disk.last_error_errcode.into())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_offered_or_refused_never_both() {
        for (name, why) in NOT_OFFERED {
            assert!(!Filesystem::TUNABLES.contains(name), "{name}: {why}");
        }
        let per_second = Filesystem::reason_not_offered("warning_ratelimit_burst");
        assert_eq!(per_second, Some(NO_LOG));
        assert_eq!(Filesystem::reason_not_offered("mb_prefetch"), None);
    }
}
