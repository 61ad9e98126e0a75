//! Records of errors in the superblock.

use rustix::io::Errno;
use uext4_format::superblock::state;
use uext4_format::{Superblock, Timestamp};
use uext4_num::nonnegative;

/// ext4's codes in the error fields: the generic one, and those told apart here.
const ERROR_CODE_UNKNOWN: u8 = 1;
/// The code of a failed access.
pub const ERROR_CODE_IO: u8 = 2;
/// The code of damaged metadata.
pub const ERROR_CODE_CORRUPT: u8 = 5;
const ERROR_CODE_NO_SPACE: u8 = 6;

/// An error record for the superblock.
pub struct ErrorRecord<'a> {
    /// Time of the error, in seconds since 1970.
    pub now: u64,
    /// The inode concerned, or 0.
    pub inode: u32,
    /// The block concerned, or 0.
    pub block: u64,
    /// The damaged structure, or the object of the failed access.
    pub what: &'a str,
    /// The code of ext4 for the kind of error.
    pub code: u8,
}

/// Fills the fields of the last error, and of the first one if there was none.
pub fn record_error(disk: &mut Superblock, record: &ErrorRecord<'_>) {
    let &ErrorRecord {
        now,
        inode,
        block,
        code,
        ..
    } = record;
    let mut what = [0u8; 32];
    let len = record.what.len().min(what.len());
    what[..len].copy_from_slice(&record.what.as_bytes()[..len]);
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
pub fn record_stopped_journal(disk: &mut Superblock, now: Timestamp, errno: i32) {
    // The errno comes from the disk and may be any number.
    let codes = [
        (Errno::IO, ERROR_CODE_IO),
        (Errno::NOSPC, ERROR_CODE_NO_SPACE),
    ];
    let known = codes
        .iter()
        .find(|(known, _)| known.raw_os_error() == errno.saturating_neg());
    let code = known.map_or(ERROR_CODE_UNKNOWN, |(_, code)| *code);
    let record = ErrorRecord {
        now: nonnegative(now.seconds),
        inode: 0,
        block: 0,
        what: "journal",
        code,
    };
    record_error(disk, &record);
}

/// Restores error records after a replay. The replayed superblock may lack errors that were written
/// past the log, so those of `before` stay. False when it already has them all.
pub fn keep_errors(disk: &mut Superblock, before: &Superblock) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_device::{BlockDevice, MemDevice};
    use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
    use uext4_mkfs::{self as mkfs, MkfsOptions, Preset};

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
            record_stopped_journal(&mut disk, now, errno);
            assert_eq!((disk.error_count, disk.first_error_time), (1, 7));
            disk.last_error_errcode
        });
        assert_eq!(codes, [2, 6, 1, 1, 1, 1, 1]);
    }
}
