//! The trait that every device implements.

use crate::Error;
use std::os::fd::BorrowedFd;

/// Where bytes of a device stand in a file of the system.
#[derive(Clone, Copy, Debug)]
pub struct Backing<'a> {
    /// The file, open to read.
    pub file: BorrowedFd<'a>,
    /// Where the bytes start in it, in bytes.
    pub offset: u64,
}

/// Who claims a block device for writing; the kernel lets only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimant {
    /// Whoever opened it.
    Opener,
    /// A mount that the kernel makes on it, and that the opener serves.
    Mount,
    /// Nobody: whoever opened it writes no more. Other programs may, also a file.
    Nobody,
}

/// A random-access store of bytes with an explicit durability barrier.
///
/// All methods take `&self` and may be called from many threads at once; accesses that overlap in
/// time and place are the caller's affair. A write is durable only after a later [`Self::flush`]
/// returned. Writes between two flushes may become durable in any order.
pub trait BlockDevice: Send + Sync {
    /// Size in bytes.
    fn size_bytes(&self) -> u64;
    /// Fills `buf` from byte `offset`.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error>;
    /// As [`Self::read_at`], past caches of this host: another host may have written the bytes.
    fn read_past_cache_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.read_at(offset, buf)
    }
    /// As [`Self::write_at`], of whole sectors and nothing beside them. It needs a
    /// [`Self::flush`] to be durable, too.
    fn write_past_cache_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.write_at(offset, buf)
    }
    /// Has what was written to the range leave caches of this host soon, even if this process is
    /// stopped; it does not wait until it is durable.
    fn write_out(&self, _offset: u64, _len: u64) -> Result<(), Error> {
        Ok(())
    }
    /// The file that holds the bytes as [`Self::read_at`] would answer them, for who moves them on
    /// without looking at them; `None` where there is no such file.
    fn backing(&self, _offset: u64, _len: u64) -> Option<Backing<'_>> {
        None
    }
    /// Writes `buf` at byte `offset`.
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error>;
    /// Writes `bufs` one after the other from byte `offset`.
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        let mut at = offset;
        for buf in bufs {
            self.write_at(at, buf)?;
            at += buf.len() as u64;
        }
        Ok(())
    }
    /// Makes every write that returned before this call durable.
    fn flush(&self) -> Result<(), Error>;
    /// How many flushes failed so far ([`crate::FlushQueue`]); one that failed is counted before a
    /// later one begins. 0 for a device that does not count.
    fn failed_flushes(&self) -> u64 {
        0
    }
    /// Tells that the bytes are not needed; they may read as anything afterwards. A hint.
    fn discard(&self, _offset: u64, _len: u64) -> Result<(), Error> {
        Ok(())
    }
    /// Drops clean bytes that this host keeps of the device: another host may have written it.
    fn forget_cache(&self) {}
    /// Tells that the bytes will be read soon; does not wait for them. A hint.
    fn read_ahead(&self, _offset: u64, _len: u64) {}
    /// True for a disk that turns, where what lies far apart is slow to reach.
    fn is_rotational(&self) -> bool {
        false
    }
    /// Makes the bytes read as zero.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        write_zeroes_by_hand(self, offset, len)
    }
    /// True when writes are refused.
    fn is_read_only(&self) -> bool;
    /// Takes writes from now on, for a device that was opened to read only; nothing happens when
    /// it takes them already.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] when it cannot, or what keeps it from being opened for writing.
    fn begin_writing(&self) -> Result<(), Error> {
        if self.is_read_only() {
            Err(Error::ReadOnly)
        } else {
            Ok(())
        }
    }
    /// Takes the claim on a block device that was opened for writing, or gives it up for another
    /// claimant. Nothing happens where there are no claims.
    ///
    /// # Errors
    /// [`Error::Busy`] when somebody else has claimed it meanwhile.
    fn claim_for(&self, _claimant: Claimant) -> Result<(), Error> {
        Ok(())
    }
    /// What it is, for people and for /proc/mounts: a path or a short name.
    fn describe(&self) -> String;
}

/// Makes bytes zero by ordinary writes, for devices that know no better.
pub(crate) fn write_zeroes_by_hand<D: BlockDevice + ?Sized>(
    device: &D,
    offset: u64,
    len: u64,
) -> Result<(), Error> {
    let zeroes = vec![0u8; len.min(1 << 20) as usize];
    let mut done = 0;
    while done < len {
        let n = (len - done).min(zeroes.len() as u64);
        device.write_at(offset + done, &zeroes[..n as usize])?;
        done += n;
    }
    Ok(())
}
