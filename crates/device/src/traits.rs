//! The trait that every device implements.

use crate::Error;
use std::os::fd::BorrowedFd;
use uext4_num::{clamp_usize, u64_of};

/// The place of a range of device bytes in a file of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct Backing<'a> {
    /// The file, open to read.
    pub file: BorrowedFd<'a>,
    /// Start of the bytes in it, in bytes.
    pub offset: u64,
}

/// Claimants of a block device for writing; the kernel admits one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimant {
    /// The process that opened it.
    Opener,
    /// A mount of the kernel on it that the opener serves.
    Mount,
    /// No claimant: the opener writes no more. Other programs may write, also to a file.
    None,
}

/// A random-access store of bytes with an explicit durability barrier.
///
/// All methods take `&self` and are thread-safe; the caller orders overlapping accesses. A write is
/// durable only after a later [`Self::flush`] returned. Writes between two flushes may become
/// durable in any order. [`Self::write_durable_at`] is the exception.
pub trait BlockDevice: Send + Sync {
    /// The size of the device in bytes.
    fn size_bytes(&self) -> u64;
    /// Fills `buf` from byte `offset`.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error>;
    /// As [`Self::read_at`], bypassing the caches of this host: another host may have written the
    /// bytes.
    fn read_past_cache_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.read_at(offset, buf)
    }
    /// As [`Self::write_at`], of whole sectors and nothing beside them, bypassing the caches of
    /// this host. It also needs a [`Self::flush`] to be durable.
    fn write_past_cache_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.write_at(offset, buf)
    }
    /// Starts write-back of the range, so that its bytes leave the caches of this host even if this
    /// process is stopped. Does not wait until they are durable.
    fn write_out(&self, _offset: u64, _len: u64) -> Result<(), Error> {
        Ok(())
    }
    /// The file that holds the bytes as [`Self::read_at`] would return them, for callers that
    /// splice them on unread; `None` if there is no such file.
    fn backing(&self, _offset: u64, _len: u64) -> Option<Backing<'_>> {
        None
    }
    /// Writes `buf` at byte `offset`.
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error>;
    /// Writes `bufs` back to back from byte `offset`.
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        let mut at = offset;
        for buf in bufs {
            self.write_at(at, buf)?;
            at += u64_of(buf.len());
        }
        Ok(())
    }
    /// Writes `buf` at byte `offset`, durably (FUA): the bytes are durable when it returns. Says
    /// nothing about other writes: those still need a flush.
    ///
    /// # Errors
    /// Also of the write-back of earlier writes, as [`Self::flush`] would report it.
    fn write_durable_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.write_at(offset, buf)?;
        self.flush()
    }
    /// Makes every write durable that returned before this call.
    fn flush(&self) -> Result<(), Error>;
    /// Number of failed flushes and durable writes so far ([`crate::FlushQueue`]); a failed one is
    /// counted before a later flush begins. 0 for a device that does not count.
    fn failed_flushes(&self) -> u64 {
        0
    }
    /// Discards bytes; they may read as anything afterwards. A hint.
    fn discard(&self, _offset: u64, _len: u64) -> Result<(), Error> {
        Ok(())
    }
    /// Drops clean cached bytes of the device on this host: another host may have written it.
    fn forget_cache(&self) {}
    /// Starts reading the bytes ahead, without waiting. A hint.
    fn read_ahead(&self, _offset: u64, _len: u64) {}
    /// True for a rotating disk, which is slow to seek.
    fn is_rotational(&self) -> bool {
        false
    }
    /// Takes note of the size that the device has by now, if it became larger, and makes a regular
    /// file at least so long by a hole; then [`Self::size_bytes`] tells it. No effect on devices of
    /// a fixed size.
    fn lengthen(&self, _least_bytes: u64) -> Result<(), Error> {
        Ok(())
    }
    /// Makes the bytes read as zero.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        write_zeroes_by_hand(self, offset, len)
    }
    /// As [`Self::write_zeroes`]; where the device can, the bytes take no storage afterwards.
    fn write_hole(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.write_zeroes(offset, len)
    }
    /// True when writes are refused.
    fn is_read_only(&self) -> bool;
    /// True if no other program or host ever sees the bytes.
    fn is_private(&self) -> bool {
        false
    }
    /// Switches a device that was opened read-only to writable; no effect if it is writable.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if it cannot, or the error of opening it for writing.
    fn begin_writing(&self) -> Result<(), Error> {
        if self.is_read_only() {
            Err(Error::ReadOnly)
        } else {
            Ok(())
        }
    }
    /// Takes the claim on a block device that was opened for writing, or passes it to another
    /// claimant. No effect on devices without claims.
    ///
    /// # Errors
    /// [`Error::Busy`] if another user has claimed it since.
    fn claim_for(&self, _claimant: Claimant) -> Result<(), Error> {
        Ok(())
    }
    /// Called when the only user of this handle uses it no more: gives the claims back that exclude
    /// other writers, unless a device below has another user. No effect on devices without claims.
    fn release(&self) {}
    /// Name for messages and /proc/mounts: a path or a short name.
    fn describe(&self) -> String;
}

/// Writes `buf` at byte `offset`, with holes for runs of `grain_bytes` that are all zero. So a copy
/// takes no more storage than its source.
///
/// # Errors
/// Those of [`BlockDevice::write_at`] and [`BlockDevice::write_hole`].
pub fn write_sparse<D: BlockDevice + ?Sized>(
    device: &D,
    offset: u64,
    buf: &[u8],
    grain_bytes: usize,
) -> Result<(), Error> {
    let grains: Vec<&[u8]> = buf.chunks(grain_bytes.max(1)).collect();
    let mut at = 0;
    for run in grains.chunk_by(|a, b| is_zero(a) == is_zero(b)) {
        let len = run.iter().map(|grain| grain.len()).sum::<usize>();
        let place = offset + u64_of(at);
        if run.first().is_some_and(is_zero) {
            device.write_hole(place, u64_of(len))?
        } else {
            device.write_at(place, &buf[at..at + len])?
        }
        at += len;
    }
    Ok(())
}

fn is_zero(grain: &&[u8]) -> bool {
    grain.iter().all(|byte| *byte == 0)
}

/// Zeroes bytes by ordinary writes, for devices without a better way.
pub(crate) fn write_zeroes_by_hand<D: BlockDevice + ?Sized>(
    device: &D,
    offset: u64,
    len: u64,
) -> Result<(), Error> {
    let zeroes = vec![0u8; clamp_usize(len.min(1 << 20))];
    let mut done = 0;
    while done < len {
        let n = (len - done).min(u64_of(zeroes.len()));
        device.write_at(offset + done, &zeroes[..clamp_usize(n)])?;
        done += n;
    }
    Ok(())
}
