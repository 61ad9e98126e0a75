//! Words without effect, and refused words.

use super::super::fields::MountOptions;
use super::super::values::{BATCH_US_MAX, limited};
use super::row::{Form, Kind, Section, nothing, row, value};
use crate::types::error::Result;

/// Words that `mount(8)` or the VFS handles for any file system: here the program that creates the
/// mount point sets the mount's flags (`nosuid`, `nodev`, `noexec`).
pub(super) const OTHERS: Section = Section {
    title: "For mount(8) and fstab: without effect on the file system",
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
            "what is so anyway, or is set where the mount is made",
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
            "read by mount(8): which user may mount, and when",
        ),
        row(
            &[
                nothing("silent"),
                nothing("loud"),
                nothing("iversion"),
                nothing("noiversion"),
            ],
            "the kernel's own",
        ),
        row(
            &[
                Form {
                    name: "x-",
                    kind: Kind::NothingBehind,
                },
                Form {
                    name: "X-",
                    kind: Kind::NothingBehind,
                },
                Form {
                    name: "comment=",
                    kind: Kind::NothingBehind,
                },
            ],
            "comments, and words of systemd",
        ),
    ],
};

pub(super) const IGNORED: Section = Section {
    title: "Without effect, here or in the kernel",
    rows: &[
        row(
            &[
                nothing("block_validity"),
                nothing("noinit_itable"),
                nothing("data_err=ignore"),
                nothing("dax=never"),
                nothing("nowarn_on_error"),
            ],
            "how it is done anyway",
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
            "inert: of the kernel's way of working or of its messages; no program sees it",
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
            "ignored by the kernel's ext4 as well",
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
        "commit blocks are always written after what they cover",
    ),
    ("journal_dev", "name the journal's device by journal_path="),
    ("journal_ioprio", "requests have no priorities"),
    (
        "data_err",
        "an error in writing data fails the write, not the journal",
    ),
    (
        "usrjquota",
        "quota is kept in hidden inodes only (usrquota)",
    ),
    (
        "grpjquota",
        "quota is kept in hidden inodes only (grpquota)",
    ),
    ("jqfmt", "quota is kept in hidden inodes only"),
    ("nouid32", "owners are always 32 bits wide"),
    ("abort", "it makes a file system fail"),
    ("dax", "there is no direct access from user space"),
    ("inlinecrypt", "encryption is not there"),
    ("test_dummy_encryption", "encryption is not there"),
];
