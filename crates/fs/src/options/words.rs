//! The words of `mount -o`: what each sets, and why some are refused.

use super::{Access, Allocator, DataMode, MountOptions, OnError, QuotaLimits};
use crate::{Error, Result};
use std::time::Duration;

/// Longest `commit=` in seconds: the kernel's limit where its clock ticks 1000 times a second.
const COMMIT_SECONDS_MAX: u64 = i32::MAX as u64 / 1000;
/// `commit=0`, and no `commit=`.
const COMMIT_SECONDS: u64 = 5;

/// Words that ext4 in the kernel accepts and ignores as well.
const IGNORED_BY_THE_KERNEL: &[&str] = &[
    "oldalloc",
    "orlov",
    "bh",
    "nobh",
    "i_version",
    "mblk_io_submit",
    "nomblk_io_submit",
    "check=none",
    "nocheck",
    "reservation",
    "noreservation",
];

/// Words that `mount(8)` or the VFS act on, above any file system: here the mount's own flags
/// (`nosuid`, `nodev`, `noexec`) are set by whoever makes the mount point.
const ABOVE: &[&str] = &[
    "defaults",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "exec",
    "noexec",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "nofail",
    "_netdev",
    "silent",
    "loud",
    "iversion",
    "noiversion",
];

/// Words that ask for what is done anyway.
const AS_IT_IS: &[&str] = &[
    "block_validity",
    "noinit_itable",
    "data_err=ignore",
    "dax=never",
    "nowarn_on_error",
    "inode_readahead_blks=0",
    "max_batch_time=0",
    "min_batch_time=0",
];

/// Options of ext4 that are refused, by the name before `=`, each with its reason.
const REFUSED: &[(&str, &str)] = &[
    ("noblock_validity", "block numbers are always checked"),
    (
        "init_itable",
        "inode tables are zeroed on first use, not in the background",
    ),
    (
        "inode_readahead_blks",
        "inode tables are not read ahead; only 0 is possible",
    ),
    (
        "min_batch_time",
        "commits do not wait for company; only 0 is possible",
    ),
    (
        "max_batch_time",
        "commits do not wait for company; only 0 is possible",
    ),
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
    ("debug", "there is nothing more to print"),
    ("abort", "it makes a file system fail"),
    ("dax", "there is no direct access from user space"),
    ("dioread_nolock", "there is one way of reading"),
    ("dioread_lock", "there is one way of reading"),
    ("nodioread_nolock", "there is one way of reading"),
    ("warn_on_error", "there is no kernel log to warn in"),
    ("inlinecrypt", "encryption is not there"),
    ("test_dummy_encryption", "encryption is not there"),
];

/// Applies a comma separated list.
pub(super) fn apply_list(options: &mut MountOptions, list: &str) -> Result<()> {
    list.split(',')
        .filter(|word| !word.is_empty())
        .try_for_each(|word| apply(options, word))
}

fn apply(options: &mut MountOptions, word: &str) -> Result<()> {
    let known = [IGNORED_BY_THE_KERNEL, ABOVE, AS_IT_IS];
    let for_fstab =
        word.starts_with("x-") || word.starts_with("X-") || word.starts_with("comment=");
    if for_fstab || known.iter().any(|words| words.contains(&word)) {
        return Ok(());
    }
    let applied = match word.split_once('=') {
        None => apply_flag(options, word),
        Some((name, value)) => apply_value(options, name, value)?,
    };
    if applied { Ok(()) } else { Err(refusal(word)) }
}

fn refusal(word: &str) -> Error {
    let name = word.split('=').next().unwrap_or(word);
    let reason = REFUSED
        .iter()
        .find(|(refused, _)| *refused == name)
        .map(|(_, reason)| *reason);
    Error::Option(format!("{word}: {}", reason.unwrap_or("unknown")))
}

/// True when the word is one.
fn apply_flag(options: &mut MountOptions, name: &str) -> bool {
    match name {
        "ro" => options.access = Access::ReadOnly,
        "rw" => options.access = Access::ReadWrite,
        "barrier" => options.barrier = true,
        "nobarrier" => options.barrier = false,
        "noload" | "norecovery" => options.replay = false,
        "grpid" | "bsdgroups" => options.group_from_parent = true,
        "nogrpid" | "sysvgroups" => options.group_from_parent = false,
        "bsddf" => options.minix_df = false,
        "minixdf" => options.minix_df = true,
        "acl" => options.acl = true,
        "noacl" => options.acl = false,
        "user_xattr" => options.user_xattr = true,
        "nouser_xattr" => options.user_xattr = false,
        "quota" | "usrquota" => options.quota_limits.user = true,
        "grpquota" => options.quota_limits.group = true,
        "prjquota" => options.quota_limits.project = true,
        "noquota" => options.quota_limits = QuotaLimits::default(),
        "discard" => options.discard = true,
        "nodiscard" => options.discard = false,
        "journal_checksum" => options.journal_checksum = Some(true),
        "nojournal_checksum" => options.journal_checksum = Some(false),
        "delalloc" => options.delalloc = Some(true),
        "nodelalloc" => options.delalloc = Some(false),
        "auto_da_alloc" => options.auto_da_alloc = true,
        "noauto_da_alloc" => options.auto_da_alloc = false,
        "freespace_tree" => options.allocator = Some(Allocator::FreespaceTree),
        "prefetch_block_bitmaps" => options.prefetch_bitmaps = true,
        "no_prefetch_block_bitmaps" => options.prefetch_bitmaps = false,
        "nombcache" | "no_mbcache" => options.share_xattr_blocks = false,
        name => return apply_times(options, name),
    }
    true
}

fn apply_times(options: &mut MountOptions, name: &str) -> bool {
    match name {
        "noatime" => options.no_atime = true,
        "atime" => options.no_atime = false,
        "nodiratime" => options.no_dir_atime = true,
        "diratime" => options.no_dir_atime = false,
        "relatime" | "nostrictatime" => (options.relatime, options.no_atime) = (true, false),
        "strictatime" | "norelatime" => (options.relatime, options.no_atime) = (false, false),
        "lazytime" => options.lazytime = true,
        "nolazytime" => options.lazytime = false,
        "sync" => options.sync = true,
        "async" => options.sync = false,
        "dirsync" => options.dirsync = true,
        _ => return false,
    }
    true
}

/// False when no option with a value has this name.
fn apply_value(options: &mut MountOptions, name: &str, value: &str) -> Result<bool> {
    match name {
        "errors" => options.on_error = errors(value)?,
        "commit" => options.commit_interval = commit(value)?,
        "barrier" => options.barrier = number(name, value, u64::MAX)? != 0,
        "resuid" => options.reserved_uid = Some(number(name, value, ID_MAX)? as u32),
        "resgid" => options.reserved_gid = Some(number(name, value, ID_MAX)? as u32),
        "sb" => options.superblock_kib = Some(number(name, value, u64::MAX >> 10)?),
        "max_dir_size_kb" => {
            let kib = number(name, value, u32::MAX.into())?;
            options.max_dir_size_kib = (kib != 0).then_some(kib);
        }
        "journal_path" => options.journal_path = Some(value.into()),
        "data" => options.data = data(value)?,
        "operation_bytes" => options.operation_bytes = bound(size(name, value, u64::MAX)?),
        "operation_seconds" => {
            let seconds = bound(number(name, value, COMMIT_SECONDS_MAX)?);
            options.operation_time = seconds.map(Duration::from_secs);
        }
        name => return apply_allocation(options, name, value),
    }
    Ok(true)
}

fn apply_allocation(options: &mut MountOptions, name: &str, value: &str) -> Result<bool> {
    match name {
        "allocator" => options.allocator = Some(allocator(value)?),
        "mb_optimize_scan" => {
            let scans = [Allocator::Linear, Allocator::Optimized];
            options.allocator = Some(scans[number(name, value, 1)? as usize]);
        }
        "cache_aggression" | "frsp_cache_aggression" => {
            options.cache_aggression = number(name, value, 3)? as u8;
        }
        "freespace_memory" => options.freespace_memory_bytes = size(name, value, u64::MAX)?,
        "extent_cache" => options.extent_cache_bytes = size(name, value, u64::MAX)?,
        "metadata_cache" => {
            options.metadata_cache_bytes = Some(size(name, value, i64::MAX as u64)?);
        }
        "delalloc_memory" => {
            options.delalloc_memory_bytes = Some(size(name, value, i64::MAX as u64)?);
        }
        "auto_da_alloc" => options.auto_da_alloc = number(name, value, u64::MAX)? != 0,
        "stripe" => options.stripe_blocks = number(name, value, u32::MAX.into())? as u32,
        _ => return Ok(false),
    }
    Ok(true)
}

fn allocator(value: &str) -> Result<Allocator> {
    match value {
        "linear" => Ok(Allocator::Linear),
        "optimized" => Ok(Allocator::Optimized),
        "freespace-tree" => Ok(Allocator::FreespaceTree),
        other => Err(Error::Option(format!("allocator={other}: unknown"))),
    }
}

/// Largest user or group id; the one after it means "none".
const ID_MAX: u64 = u32::MAX as u64 - 1;

/// 0 is none.
fn bound(number: u64) -> Option<u64> {
    (number != 0).then_some(number)
}

fn number(name: &str, value: &str, max: u64) -> Result<u64> {
    let bad = |what: &str| Error::Option(format!("{name}={value}: {what}"));
    let number: u64 = value.parse().map_err(|_| bad("not a number"))?;
    if number > max {
        Err(bad("too large"))
    } else {
        Ok(number)
    }
}

/// Bytes, as a number or as one with K, M, G or T behind it (powers of 1024).
fn size(name: &str, value: &str, max: u64) -> Result<u64> {
    let units = ["K", "M", "G", "T"].into_iter().zip([10, 20, 30, 40]);
    let parts = |(unit, shift)| Some((value.strip_suffix(unit)?, shift));
    match units.filter_map(parts).next() {
        Some((digits, shift)) => Ok(number(name, digits, max >> shift)? << shift),
        None => number(name, value, max),
    }
}

fn commit(value: &str) -> Result<Duration> {
    let seconds = number("commit", value, COMMIT_SECONDS_MAX)?;
    Ok(Duration::from_secs(if seconds == 0 {
        COMMIT_SECONDS
    } else {
        seconds
    }))
}

fn errors(value: &str) -> Result<OnError> {
    match value {
        "continue" => Ok(OnError::Continue),
        "remount-ro" => Ok(OnError::RemountReadOnly),
        "panic" => Err(Error::Option(
            "errors=panic: a server does not bring its machine down; remount-ro stops writing"
                .into(),
        )),
        other => Err(Error::Option(format!(
            "errors={other}: not continue or remount-ro"
        ))),
    }
}

fn data(value: &str) -> Result<DataMode> {
    match value {
        "ordered" => Ok(DataMode::Ordered),
        "writeback" => Ok(DataMode::Writeback),
        "journal" => Ok(DataMode::Journal),
        other => Err(Error::Option(format!(
            "data={other}: not ordered, writeback or journal"
        ))),
    }
}

/// Refuses what only shows when all sources are together.
pub(super) fn check_together(options: &MountOptions) -> Result<()> {
    if options.data == DataMode::Journal {
        let reason =
            "data=journal: data cannot go through the journal yet; mount with data=ordered";
        return Err(Error::Option(reason.into()));
    }
    let defaults = MountOptions::default();
    let same_aggression = options.cache_aggression == defaults.cache_aggression;
    let same_memory = options.freespace_memory_bytes == defaults.freespace_memory_bytes;
    if options.allocator != Some(Allocator::FreespaceTree) && !(same_aggression && same_memory) {
        let reason = "cache_aggression= and freespace_memory= are for allocator=freespace-tree";
        return Err(Error::Option(reason.into()));
    }
    Ok(())
}
