//! Parameters that are fields of the superblock.

use super::tuning::{CheckTimes, MountDefaults, Tuning};
use crate::types::error::{Error, Result};
use crate::types::options::OnError;
use uext4_format::Superblock;
use uext4_format::superblock::{ErrorBehaviour, default_mount_option, flag, state};
use uext4_num::{clamp_u64, high_u16, low_u16};

/// Longest label in bytes.
const LABEL_BYTES: usize = 16;
/// Largest share of blocks reserved for the superuser, in percent.
const RESERVED_PERCENT_MAX: u8 = 50;
/// Longest string of mount options and longest directory, with the zero byte at the end.
const STRING_BYTES: usize = 64;
/// Longest interval between checks of the MMP block, in seconds.
const MMP_SECONDS_MAX: u16 = 300;

pub(super) fn apply(disk: &mut Superblock, tuning: &Tuning) -> Result<()> {
    if let Some(label) = &tuning.label {
        disk.volume_name = padded(label, LABEL_BYTES, "a label has up to 16 bytes")?;
    }
    if let Some(on_error) = tuning.on_error {
        disk.errors = match on_error {
            OnError::Superblock => disk.errors,
            OnError::Continue => ErrorBehaviour::Continue.raw(),
            OnError::RemountReadOnly => ErrorBehaviour::RemountReadOnly.raw(),
            OnError::Panic => ErrorBehaviour::Panic.raw(),
        };
    }
    apply_reserved(disk, tuning)?;
    apply_check_times(disk, &tuning.check_times)?;
    apply_mount_defaults(disk, &tuning.mount_defaults)?;
    if let Some(stride) = tuning.raid.stride {
        disk.raid_stride = stride;
    }
    if let Some(width) = tuning.raid.stripe_width {
        disk.raid_stripe_width = width;
    }
    if let Some(version) = tuning.hash {
        disk.def_hash_version = version.code();
    }
    if let Some(seed) = &tuning.hash_seed {
        disk.set_hash_seed(seed);
    }
    if tuning.force_check {
        disk.state |= state::ERROR;
    }
    match tuning.is_test {
        Some(true) => disk.flags |= flag::TEST_FILESYS,
        Some(false) => disk.flags &= !flag::TEST_FILESYS,
        None => {}
    }
    if let Some(seconds) = tuning.mmp_update_seconds {
        if seconds > MMP_SECONDS_MAX {
            return Err(Error::Invalid(
                "the interval of MMP is at most 300 seconds; 0 is the default",
            ));
        }
        disk.mmp_update_interval = seconds;
    }
    Ok(())
}

fn apply_reserved(disk: &mut Superblock, tuning: &Tuning) -> Result<()> {
    if let Some(percent) = tuning.reserved_percent {
        if percent > RESERVED_PERCENT_MAX {
            return Err(Error::Invalid("at most 50 percent can be reserved"));
        }
        disk.r_blocks_count = clamp_u64(u128::from(disk.blocks_count) * u128::from(percent) / 100);
    }
    if let Some(blocks) = tuning.reserved_blocks {
        if blocks > disk.blocks_count / 2 {
            return Err(Error::Invalid("at most half of the blocks can be reserved"));
        }
        disk.r_blocks_count = blocks;
    }
    if let Some(uid) = tuning.reserved_uid {
        (disk.def_resuid, disk.def_resuid_hi) = (low_u16(uid), high_u16(uid));
    }
    if let Some(gid) = tuning.reserved_gid {
        (disk.def_resgid, disk.def_resgid_hi) = (low_u16(gid), high_u16(gid));
    }
    Ok(())
}

fn apply_check_times(disk: &mut Superblock, times: &CheckTimes) -> Result<()> {
    if let Some(mounts) = times.mounts_max {
        // The format has two values for "never"; e2fsprogs writes this one.
        disk.max_mnt_count = if mounts == 0 { u16::MAX } else { mounts };
    }
    if let Some(mounts) = times.mounts {
        disk.mnt_count = mounts;
    }
    if let Some(seconds) = times.interval_seconds {
        disk.checkinterval = seconds;
    }
    if let Some(seconds) = times.last_seconds {
        if seconds >= 1 << 40 {
            return Err(Error::Invalid("the time of the last check is too late"));
        }
        disk.lastcheck = seconds;
    }
    Ok(())
}

fn apply_mount_defaults(disk: &mut Superblock, defaults: &MountDefaults) -> Result<()> {
    let old = disk.default_mount_opts;
    // The data mode is a number in two bits: a new one replaces the old one.
    let replaced = match defaults.set & default_mount_option::JMODE {
        0 => 0,
        _ => default_mount_option::JMODE,
    };
    disk.default_mount_opts = old & !(defaults.clear | replaced) | defaults.set;
    if let Some(string) = &defaults.string {
        let problem = "the string of mount options has up to 63 bytes";
        disk.mount_opts = padded(string, STRING_BYTES - 1, problem)?;
    }
    if let Some(directory) = &defaults.last_mounted {
        let problem = "the directory of the last mount has up to 63 bytes";
        disk.last_mounted = padded(directory, STRING_BYTES - 1, problem)?;
    }
    Ok(())
}

/// The text, and zeroes behind it.
fn padded<const N: usize>(text: &[u8], max: usize, problem: &'static str) -> Result<[u8; N]> {
    if text.len() > max {
        return Err(Error::Invalid(problem));
    }
    let mut field = [0; N];
    field[..text.len()].copy_from_slice(text);
    Ok(field)
}
