//! Which superblock `uext4 fsck` begins with, and whether that asks for a check.

use super::fsck_decisions::Session;
use crate::failure::{At, Exit, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use uext4::MountOptions;
use uext4::device::BlockDevice;
use uext4::format::superblock::state;
use uext4::format::{BlockNr, Superblock};
use uext4::repair::needs_recovery;
use uext4_num::nonnegative;
use uext4_sync::Arc;

/// Where the superblock of `-b` is.
pub(super) fn superblock_kib(
    (block, block_size): (Option<u64>, Option<u32>),
    image: &ImageArgs,
) -> Result<Option<u64>> {
    let Some(block) = block else {
        return Ok(None);
    };
    let device = image.device(Purpose::Read)?;
    let sizes = (10..=16).map(|bits| 1u64 << bits);
    let mut wanted = sizes.filter(|size| match block_size {
        Some(wanted) => u64::from(wanted) == *size,
        None => true,
    });
    let found = wanted.find_map(|size| {
        let kib = block.checked_mul(size)? >> 10;
        let disk = uext4::read_superblock(&*device, Some(kib)).ok()?;
        let geometry = disk.geometry().ok()?;
        let group = geometry.group_of_block(BlockNr(block));
        let is_there = geometry.superblock_block(group) == Some(BlockNr(block));
        (is_there && u64::from(geometry.block_size()) == size).then_some(kib)
    });
    match found {
        Some(kib) => Ok(Some(kib)),
        None => {
            let text = format!("{}: block {block} is no sound superblock", image.name());
            Err(Failure::new(Exit::Operational, text))
        }
    }
}

/// Whether nothing asks for a check, once the log is replayed.
pub(super) fn is_clean(
    session: &Session,
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
) -> Result<bool> {
    let Ok(disk) = uext4::read_superblock(&**device, None) else {
        return Ok(false);
    };
    if !needs_recovery(&disk) {
        return Ok(!asks_for_check(&disk));
    }
    session.say_recovering();
    let recovered = uext4::repair::recover(device, options);
    if recovered.is_err() {
        return Ok(false);
    }
    let disk = uext4::read_superblock(&**device, None).at(session.name())?;
    Ok(!needs_recovery(&disk) && !asks_for_check(&disk))
}

/// The argument of `-B`.
pub(super) fn block_size(text: &str) -> std::result::Result<u32, String> {
    let size: Option<u32> = text.parse().ok();
    let known = size.filter(|size| (1024..=65536).contains(size) && size.is_power_of_two());
    known.ok_or_else(|| "a block has 1024 to 65536 bytes, a power of two".to_owned())
}

/// Whether the superblock asks for a check: it was not unmounted, has errors, or it is time.
fn asks_for_check(disk: &Superblock) -> bool {
    let now = nonnegative(uext4_sync::Clock::wall(&uext4_sync::RealClock::new()).seconds);
    let mounts = disk.max_mnt_count.cast_signed();
    let is_due = mounts > 0 && disk.mnt_count.cast_signed() >= mounts;
    let interval = u64::from(disk.checkinterval);
    let is_old = interval != 0 && now >= disk.lastcheck.saturating_add(interval);
    disk.state & state::VALID == 0 || disk.state & state::ERROR != 0 || is_due || is_old
}
