//! Words without effect, and refused words.

use super::super::fields::MountOptions;
use super::super::values::{BATCH_US_MAX, limited};
use super::row::{Form, Section, WordAction, nothing, row, value};
use crate::types::error::Result;

/// Words that `mount(8)` or the VFS handles for any file system: here the program that creates the
/// mount point sets the mount's flags (`nosuid`, `nodev`, `noexec`).
pub(super) const OTHERS: Section = Section {
    title: "Of mount(8) and fstab: no effect on the file system",
    rows: &[
        row(
            &[
                nothing("defaults"),
                nothing("suid"),
                nothing("nosuid"),
                nothing("dev"),
                nothing("nodev"),
                nothing("exec"),
                nothing("noexec"),
            ],
            "defaults, or flags of the mount point",
        ),
        row(
            &[
                nothing("auto"),
                nothing("noauto"),
                nothing("user"),
                nothing("nouser"),
                nothing("users"),
                nothing("nousers"),
                nothing("owner"),
                nothing("noowner"),
                nothing("group"),
                nothing("nogroup"),
                nothing("nofail"),
                nothing("_netdev"),
            ],
            "for mount(8): users that may mount, and time of the mount",
        ),
        row(
            &[
                nothing("silent"),
                nothing("loud"),
                nothing("iversion"),
                nothing("noiversion"),
            ],
            "for the kernel's VFS",
        ),
        row(
            &[
                Form {
                    name: "x-",
                    kind: WordAction::NothingBehind,
                },
                Form {
                    name: "X-",
                    kind: WordAction::NothingBehind,
                },
                Form {
                    name: "comment=",
                    kind: WordAction::NothingBehind,
                },
            ],
            "comments, and options of systemd and other programs",
        ),
    ],
};

pub(super) const IGNORED: Section = Section {
    title: "Accepted for compatibility: no effect",
    rows: &[
        row(
            &[
                nothing("block_validity"),
                nothing("noinit_itable"),
                nothing("data_err=ignore"),
                nothing("dax=never"),
                nothing("nowarn_on_error"),
            ],
            "this is always the behaviour",
        ),
        row(
            &[
                nothing("noblock_validity"),
                nothing("init_itable"),
                value("init_itable", "N", unused_number),
                value("inode_readahead_blks", "N", unused_number),
                value("min_batch_time", "MICROSECONDS", unused_number),
                nothing("dioread_lock"),
                nothing("dioread_nolock"),
                nothing("nodioread_nolock"),
                nothing("debug"),
                nothing("warn_on_error"),
            ],
            "no effect: tunes the implementation or the messages of the kernel",
        ),
        row(
            &[
                nothing("oldalloc"),
                nothing("orlov"),
                nothing("bh"),
                nothing("nobh"),
                nothing("i_version"),
                nothing("mblk_io_submit"),
                nothing("nomblk_io_submit"),
                nothing("check=none"),
                nothing("nocheck"),
                nothing("reservation"),
                nothing("noreservation"),
            ],
            "no effect: ignored by the kernel's ext4, too",
        ),
    ],
};

/// Checks the value of a word without effect.
fn unused_number(_: &mut MountOptions, name: &str, value: &str) -> Result<()> {
    limited(name, value, BATCH_US_MAX).map(drop)
}

/// Options of ext4 that are refused, by the name before `=`, each with its reason.
pub(in super::super) const REFUSED: &[(&str, &str)] = &[
    (
        "journal_async_commit",
        "commit blocks are always written after the blocks of their transaction",
    ),
    (
        "journal_dev",
        "name the device of the journal with journal_path=",
    ),
    ("journal_ioprio", "requests have no priorities"),
    (
        "data_err",
        "a data write error fails the write or fsync, and does not abort the journal",
    ),
    (
        "usrjquota",
        "quotas are stored in hidden inodes only (usrquota)",
    ),
    (
        "grpjquota",
        "quotas are stored in hidden inodes only (grpquota)",
    ),
    ("jqfmt", "quotas are stored in hidden inodes only"),
    ("nouid32", "UIDs and GIDs always have 32 bits"),
    ("abort", "simulates a file system error"),
    ("dax", "DAX is not available in user space"),
    ("inlinecrypt", "encryption is not supported"),
    ("test_dummy_encryption", "encryption is not supported"),
];
