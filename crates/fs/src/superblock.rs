//! The superblock as a live object, and the error records in it.
//!
//! Normal operation changes the primary copy only; mkfs, tune and resize write the backups. Free
//! counts are lazy, as in the kernel: sync and unmount update them.

mod read;

pub use read::read_superblock;

use crate::options::OnError;
use rustix::io::Errno;
use uext4_format::superblock::{ErrorBehaviour, state};
use uext4_format::{BlockNr, Feature, GroupNr, Superblock, Timestamp};
use uext4_journal::{FailedWrite, Handle, Live, LogGuard, Object, Render, Sink};
use uext4_num::{clamp_u16, clamp_usize, nonnegative};
use uext4_sync::{Arc, Rank};

/// Byte offset of the primary superblock on the device.
pub(crate) const SUPERBLOCK_OFFSET: u64 = 1024;
/// Size of a superblock in bytes.
pub(crate) const SUPERBLOCK_BYTES: usize = 1024;

/// ext4's codes in the error fields: the generic one, and those told apart here.
const ERROR_CODE_UNKNOWN: u8 = 1;
pub(crate) const ERROR_CODE_IO: u8 = 2;
pub(crate) const ERROR_CODE_CORRUPT: u8 = 5;
const ERROR_CODE_NO_SPACE: u8 = 6;

/// The superblock of a mounted file system.
pub(crate) struct Super {
    live: Live<SuperState>,
}

impl Object for Super {
    type State = SuperState;
    fn live(&self) -> &Live<SuperState> {
        &self.live
    }
}

/// Current content of the superblock.
pub(crate) struct SuperState {
    pub(crate) disk: Superblock,
    pub(crate) block: BlockNr,
    /// Without a journal: the mark `VALID` as the mount found it, which an unmount restores.
    pub(crate) was_valid: bool,
    offset_bytes: usize,
}

impl Render for SuperState {
    const RANK: Rank = Rank::Superblock;

    fn render(&mut self, out: &mut Sink<'_>) {
        out.patch(self.block, self.offset_bytes, &self.disk.to_bytes());
    }
}

/// A backup of the superblock for this group, in the state of an unmounted file system.
pub(crate) fn backup(disk: &Superblock, group: GroupNr) -> [u8; SUPERBLOCK_BYTES] {
    let mut copy = disk.clone();
    let mut features = copy.features();
    features.remove(Feature::RECOVER);
    features.remove(Feature::ORPHAN_PRESENT);
    copy.set_features(features);
    copy.state &= !state::VALID;
    copy.last_orphan = 0;
    copy.block_group_nr = clamp_u16(group.0); // as mke2fs, for groups above 65,535
    copy.to_bytes()
}

/// The superblock without the features of checksums: no program verifies any then.
pub(crate) fn without_checksums(disk: &Superblock) -> Superblock {
    let mut disk = disk.clone();
    let mut features = disk.features();
    for feature in [
        Feature::METADATA_CSUM,
        Feature::CSUM_SEED,
        Feature::UNINIT_BG,
    ] {
        features.remove(feature);
    }
    disk.set_features(features);
    disk
}

/// An error record for the superblock.
pub(crate) struct Noted<'a> {
    /// Seconds.
    pub(crate) now: u64,
    pub(crate) inode: u32,
    pub(crate) block: u64,
    /// The damaged structure, or the object of the failed access.
    pub(crate) what: &'a str,
    pub(crate) code: u8,
}

/// Fills the fields of the last error, and of the first one if there was none.
pub(crate) fn note_error(disk: &mut Superblock, noted: &Noted<'_>) {
    let &Noted {
        now,
        inode,
        block,
        code,
        ..
    } = noted;
    let mut what = [0u8; 32];
    let len = noted.what.len().min(what.len());
    what[..len].copy_from_slice(&noted.what.as_bytes()[..len]);
    disk.state |= state::ERROR;
    if disk.error_count == 0 {
        disk.first_error_time = now;
        disk.first_error_ino = inode;
        disk.first_error_block = block;
        disk.first_error_func = what;
        disk.first_error_errcode = code;
    }
    disk.error_count = disk.error_count.saturating_add(1);
    disk.last_error_time = now;
    disk.last_error_ino = inode;
    disk.last_error_block = block;
    disk.last_error_func = what;
    disk.last_error_errcode = code;
}

/// Records that an error stopped the journal, which kept it as a negative errno, now that the
/// superblock is writable again. The time of the error is not known any more.
pub(crate) fn note_stopped_journal(disk: &mut Superblock, now: Timestamp, errno: i32) {
    // The errno comes from the disk and may be any number.
    let codes = [
        (Errno::IO, ERROR_CODE_IO),
        (Errno::NOSPC, ERROR_CODE_NO_SPACE),
    ];
    let same = |known: Errno| known.raw_os_error() == errno.saturating_neg();
    let known = codes.iter().find(|(known, _)| same(*known));
    let code = known.map_or(ERROR_CODE_UNKNOWN, |(_, code)| *code);
    let noted = Noted {
        now: nonnegative(now.seconds),
        inode: 0,
        block: 0,
        what: "journal",
        code,
    };
    note_error(disk, &noted);
}

/// Restores error records after a replay. The replayed superblock may lack errors that were written
/// past the log, so those of `before` stay. False when it already has them all.
pub(crate) fn keep_errors(disk: &mut Superblock, before: &Superblock) -> bool {
    let counted = |disk: &Superblock| (disk.error_count, disk.last_error_time);
    let was_marked = before.state & !disk.state & state::ERROR;
    disk.state |= was_marked;
    if counted(before) <= counted(disk) {
        return was_marked != 0;
    }
    disk.error_count = before.error_count;
    disk.first_error_time = before.first_error_time;
    disk.first_error_ino = before.first_error_ino;
    disk.first_error_block = before.first_error_block;
    disk.first_error_func = before.first_error_func;
    disk.first_error_line = before.first_error_line;
    disk.first_error_errcode = before.first_error_errcode;
    disk.last_error_time = before.last_error_time;
    disk.last_error_ino = before.last_error_ino;
    disk.last_error_block = before.last_error_block;
    disk.last_error_func = before.last_error_func;
    disk.last_error_line = before.last_error_line;
    disk.last_error_errcode = before.last_error_errcode;
    true
}

/// The effective `errors=` policy.
pub(crate) fn policy(asked: OnError, disk: &Superblock) -> OnError {
    match asked {
        OnError::Superblock => match ErrorBehaviour::from_raw(disk.errors) {
            ErrorBehaviour::Continue => OnError::Continue,
            ErrorBehaviour::RemountReadOnly => OnError::RemountReadOnly,
            ErrorBehaviour::Panic => OnError::Panic,
        },
        chosen => chosen,
    }
}

/// The reaction to a failed metadata write without a journal.
pub(crate) fn failed_write(asked: OnError, disk: &Superblock) -> FailedWrite {
    match policy(asked, disk) {
        OnError::Continue => FailedWrite::Late,
        _ => FailedWrite::Stops,
    }
}

impl Super {
    pub(crate) fn new(disk: Superblock, block_size: u64) -> Arc<Self> {
        let block = BlockNr(SUPERBLOCK_OFFSET / block_size);
        let offset_bytes = clamp_usize(SUPERBLOCK_OFFSET % block_size);
        Arc::new(Self {
            live: Live::new(SuperState {
                was_valid: disk.state & state::VALID != 0,
                disk,
                block,
                offset_bytes,
            }),
        })
    }

    /// The superblock's lock, to read.
    pub(crate) fn read(&self) -> uext4_sync::RwLockReadGuard<'_, SuperState> {
        self.live.read()
    }

    /// The superblock's lock, to change fields that are not logged (unmount).
    pub(crate) fn write_unlogged(&self) -> LogGuard<'_, SuperState> {
        self.live.write_unlogged()
    }

    /// Changes the superblock in the handle's transaction.
    pub(crate) fn update(
        self: &Arc<Self>,
        handle: &Handle<'_>,
        change: impl FnOnce(&mut Superblock),
    ) {
        change(&mut handle.write(self).disk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mkfs::{self, MkfsOptions, Preset};
    use uext4_device::{BlockDevice, MemDevice};

    #[test]
    fn an_errno_that_is_none_is_an_error_like_any() {
        let device = MemDevice::new(16 << 20);
        mkfs::format(&device, &MkfsOptions::new(Preset::Ext4)).expect("makes a file system");
        let mut bytes = [0; SUPERBLOCK_BYTES];
        device
            .read_at(SUPERBLOCK_OFFSET, &mut bytes)
            .expect("reads");
        let now = Timestamp::new(7, 0);
        let codes = [-5, -28, -30, 5, 1 << 20, i32::MAX, i32::MIN].map(|errno| {
            let mut disk = Superblock::parse(&bytes).expect("it is sound");
            note_stopped_journal(&mut disk, now, errno);
            assert_eq!((disk.error_count, disk.first_error_time), (1, 7));
            disk.last_error_errcode
        });
        assert_eq!(codes, [2, 6, 1, 1, 1, 1, 1]);
    }
}
