//! Words for access, permissions and durability.

use super::super::fields::QuotaLimits;
use super::super::values::{BATCH_US_MAX, ID_MAX, commit, data, errors, limited};
use super::row::{Section, flag, row, value};
use std::time::Duration;
use uext4_num::clamp_u32;
use uext4_volume::Access;

pub(super) const ACCESS: Section = Section {
    title: "Access",
    rows: &[
        row(
            &[
                flag("ro", |o| o.access = Access::ReadOnly),
                flag("rw", |o| o.access = Access::ReadWrite),
            ],
            "mount read-only, or read-write (default)",
        ),
        row(
            &[
                flag("noload", |o| o.replay = false),
                flag("norecovery", |o| o.replay = false),
            ],
            "with ro: do not replay the journal; shows the state before the replay",
        ),
        row(
            &[value("errors", "continue|remount-ro", |o, _, value| {
                o.on_error = errors(value)?;
                Ok(())
            })],
            "on damage, continue or become read-only (default: the behaviour in the superblock)",
        ),
        row(
            &[value("sb", "N", |o, name, value| {
                o.superblock_kib = Some(limited(name, value, u64::MAX >> 10)?);
                Ok(())
            })],
            "use the backup superblock at offset N KiB",
        ),
    ],
};

pub(super) const TIMES: Section = Section {
    title: "Times",
    rows: &[
        row(
            &[
                flag("relatime", |o| (o.relatime, o.no_atime) = (true, false)),
                flag("nostrictatime", |o| {
                    (o.relatime, o.no_atime) = (true, false)
                }),
            ],
            "update atime once a day and on the first access after a change (default)",
        ),
        row(
            &[
                flag("strictatime", |o| (o.relatime, o.no_atime) = (false, false)),
                flag("norelatime", |o| (o.relatime, o.no_atime) = (false, false)),
            ],
            "update atime on each access",
        ),
        row(
            &[
                flag("noatime", |o| o.no_atime = true),
                flag("atime", |o| o.no_atime = false),
            ],
            "never update atime, or update it as relatime or strictatime says",
        ),
        row(
            &[
                flag("nodiratime", |o| o.no_dir_atime = true),
                flag("diratime", |o| o.no_dir_atime = false),
            ],
            "the same, for directories only",
        ),
        row(
            &[
                flag("lazytime", |o| o.lazytime = true),
                flag("nolazytime", |o| o.lazytime = false),
            ],
            "keep updates of timestamps alone in memory, until fsync, sync, or another change \
             of the inode, and for a day at most",
        ),
    ],
};

pub(super) const DURABILITY: Section = Section {
    title: "Durability",
    rows: &[
        row(
            &[
                flag("sync", |o| o.sync = true),
                flag("async", |o| o.sync = false),
            ],
            "make each change durable before its call returns, or later (default)",
        ),
        row(
            &[flag("dirsync", |o| o.dirsync = true)],
            "as sync, for changes of directories",
        ),
        row(
            &[value("commit", "SECONDS", |o, _, value| {
                o.commit_interval = commit(value)?;
                Ok(())
            })],
            "interval between commits of the journal (default 5; 0 means 5)",
        ),
        row(
            &[value("max_batch_time", "MICROSECONDS", |o, name, value| {
                let us = limited(name, value, BATCH_US_MAX)?;
                o.max_batch = Duration::from_micros(us);
                Ok(())
            })],
            "most time that a commit waits for further fsync calls to join it, limited by the \
             duration of a commit (default 15000; 0: do not wait)",
        ),
        row(
            &[
                flag("barrier", |o| o.barrier = true),
                flag("nobarrier", |o| o.barrier = false),
                value("barrier", "0|1", |o, name, value| {
                    o.barrier = limited(name, value, u64::MAX)? != 0;
                    Ok(())
                }),
            ],
            "flush the write cache of the device where the order of writes needs it (default), or \
             never: a power failure may then damage the file system",
        ),
        row(
            &[value("data", "ordered|writeback", |o, _, value| {
                o.data = data(value)?;
                Ok(())
            })],
            "write data before the metadata that refer to them; writeback acts as ordered, \
             data=journal is refused",
        ),
        row(
            &[
                flag("journal_checksum", |o| o.journal_checksum = Some(true)),
                flag("nojournal_checksum", |o| o.journal_checksum = Some(false)),
            ],
            "enable or disable checksums of the journal (default: on with metadata_csum)",
        ),
        row(
            &[value("journal_path", "FILE", |o, _, value| {
                o.journal_path = Some(value.into());
                Ok(())
            })],
            "device or image of the external journal",
        ),
    ],
};

pub(super) const RIGHTS: Section = Section {
    title: "Rights and attributes",
    rows: &[
        row(
            &[
                flag("acl", |o| o.acl = true),
                flag("noacl", |o| o.acl = false),
            ],
            "enable (default) or disable POSIX access control lists",
        ),
        row(
            &[
                flag("user_xattr", |o| o.user_xattr = true),
                flag("nouser_xattr", |o| o.user_xattr = false),
            ],
            "enable (default) or disable extended attributes user.*",
        ),
        row(
            &[
                flag("nombcache", |o| o.share_xattr_blocks = false),
                flag("no_mbcache", |o| o.share_xattr_blocks = false),
            ],
            "do not share extended attribute blocks with the same content",
        ),
        row(
            &[
                flag("grpid", |o| o.group_from_parent = true),
                flag("bsdgroups", |o| o.group_from_parent = true),
            ],
            "new files get the group of their directory",
        ),
        row(
            &[
                flag("nogrpid", |o| o.group_from_parent = false),
                flag("sysvgroups", |o| o.group_from_parent = false),
            ],
            "new files get the fsgid of their creator, unless the directory is setgid (default)",
        ),
        row(
            &[
                value("resuid", "UID", |o, name, value| {
                    o.reserved_uid = Some(clamp_u32(limited(name, value, ID_MAX)?));
                    Ok(())
                }),
                value("resgid", "GID", |o, name, value| {
                    o.reserved_gid = Some(clamp_u32(limited(name, value, ID_MAX)?));
                    Ok(())
                }),
            ],
            "user and group that may use the reserved blocks",
        ),
        row(
            &[
                flag("usrquota", |o| o.quota_limits.user = true),
                flag("quota", |o| o.quota_limits.user = true),
                flag("grpquota", |o| o.quota_limits.group = true),
                flag("prjquota", |o| o.quota_limits.project = true),
                flag("noquota", |o| o.quota_limits = QuotaLimits::default()),
            ],
            "enforce user, group or project quotas, or none (default: account only)",
        ),
    ],
};
