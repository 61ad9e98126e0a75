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
            "only read, or read and write (default)",
        ),
        row(
            &[
                flag("noload", |o| o.replay = false),
                flag("norecovery", |o| o.replay = false),
            ],
            "with ro: leave the journal as it is, and see what was there before its replay",
        ),
        row(
            &[value("errors", "continue|remount-ro", |o, _, value| {
                o.on_error = errors(value)?;
                Ok(())
            })],
            "when damage is met: go on, or stop writing (default: as the superblock says)",
        ),
        row(
            &[value("sb", "N", |o, name, value| {
                o.superblock_kib = Some(limited(name, value, u64::MAX >> 10)?);
                Ok(())
            })],
            "take the backup of the superblock at N KiB",
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
            "note accesses once a day and after changes (default)",
        ),
        row(
            &[
                flag("strictatime", |o| (o.relatime, o.no_atime) = (false, false)),
                flag("norelatime", |o| (o.relatime, o.no_atime) = (false, false)),
            ],
            "note each access",
        ),
        row(
            &[
                flag("noatime", |o| o.no_atime = true),
                flag("atime", |o| o.no_atime = false),
            ],
            "note no access, or as relatime says",
        ),
        row(
            &[
                flag("nodiratime", |o| o.no_dir_atime = true),
                flag("diratime", |o| o.no_dir_atime = false),
            ],
            "the same for directories alone",
        ),
        row(
            &[
                flag("lazytime", |o| o.lazytime = true),
                flag("nolazytime", |o| o.lazytime = false),
            ],
            "keep changes of nothing but times in memory until the inode is logged anyway, fsync, \
             sync, or a day",
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
            "each change is durable when its call returns, or later (default)",
        ),
        row(
            &[flag("dirsync", |o| o.dirsync = true)],
            "as sync, for changes of names",
        ),
        row(
            &[value("commit", "SECONDS", |o, _, value| {
                o.commit_interval = commit(value)?;
                Ok(())
            })],
            "how long a change may stay out of the journal (default 5; 0 means 5)",
        ),
        row(
            &[value("max_batch_time", "MICROSECONDS", |o, name, value| {
                let us = limited(name, value, BATCH_US_MAX)?;
                o.max_batch = Duration::from_micros(us);
                Ok(())
            })],
            "how long a commit may wait for further callers of fsync, but no longer than a commit \
             takes (default 15000; 0: not at all)",
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
            "flush the cache of the device where order needs it (default), or never: then a power \
             cut may damage the file system",
        ),
        row(
            &[value("data", "ordered|writeback", |o, _, value| {
                o.data = data(value)?;
                Ok(())
            })],
            "data are on the device before what refers to them; writeback is done as ordered, \
             data=journal is refused",
        ),
        row(
            &[
                flag("journal_checksum", |o| o.journal_checksum = Some(true)),
                flag("nojournal_checksum", |o| o.journal_checksum = Some(false)),
            ],
            "checksums in the journal, or not (default: as metadata_csum is)",
        ),
        row(
            &[value("journal_path", "FILE", |o, _, value| {
                o.journal_path = Some(value.into());
                Ok(())
            })],
            "the device, or image, of an external journal",
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
            "access control lists count (default), or not",
        ),
        row(
            &[
                flag("user_xattr", |o| o.user_xattr = true),
                flag("nouser_xattr", |o| o.user_xattr = false),
            ],
            "attributes user.* are there (default), or not",
        ),
        row(
            &[
                flag("nombcache", |o| o.share_xattr_blocks = false),
                flag("no_mbcache", |o| o.share_xattr_blocks = false),
            ],
            "attribute blocks with the same content are not shared",
        ),
        row(
            &[
                flag("grpid", |o| o.group_from_parent = true),
                flag("bsdgroups", |o| o.group_from_parent = true),
            ],
            "new files take the group of their directory",
        ),
        row(
            &[
                flag("nogrpid", |o| o.group_from_parent = false),
                flag("sysvgroups", |o| o.group_from_parent = false),
            ],
            "new files take the group of their maker, unless the directory is setgid (default)",
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
            "this user, and group, may use reserved blocks",
        ),
        row(
            &[
                flag("usrquota", |o| o.quota_limits.user = true),
                flag("quota", |o| o.quota_limits.user = true),
                flag("grpquota", |o| o.quota_limits.group = true),
                flag("prjquota", |o| o.quota_limits.project = true),
                flag("noquota", |o| o.quota_limits = QuotaLimits::default()),
            ],
            "limits of users, groups and projects hold, or none (default); use is counted anyway",
        ),
    ],
};
