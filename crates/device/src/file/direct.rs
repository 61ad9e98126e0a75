//! Access that bypasses the page cache of this host, for bytes that another host also writes.
//!
//! Uses `O_DIRECT` where the file system supports it. Elsewhere a read first writes dirty pages out
//! and drops the clean ones, and a write is an ordinary one.
//! References: open(2) of `O_DIRECT`, posix_fadvise(2), sync_file_range(2).
#![allow(unsafe_code)]

use rustix::fs::{Advice, OFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use uext4_num::{clamp_usize, u64_of};

/// Alignment of memory and file offsets that every device accepts.
const ALIGN_BYTES: u64 = 4096;
/// Minimum write size of a disk; offset alignment that most devices accept.
const SECTOR_BYTES: u64 = 512;

/// Opens a file again with `O_DIRECT`; `None` if that is not possible.
pub(super) fn open(path: &Path, writable: bool) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(writable);
    let flags = (OFlags::DIRECT | OFlags::NONBLOCK).bits();
    options.custom_flags(flags.cast_signed()).open(path).ok()
}

/// Fills `buf` from byte `at` with what the device holds.
pub(super) fn read(file: &File, direct: Option<&File>, buf: &mut [u8], at: u64) -> io::Result<()> {
    match direct.map(|direct| read_aligned(direct, buf, at)) {
        Some(Err(error)) if error.kind() == ErrorKind::InvalidInput => {}
        Some(done) => return done,
        None => {}
    }
    rustix::fs::fdatasync(file)?;
    let start = at / ALIGN_BYTES * ALIGN_BYTES;
    let end = (at + u64_of(buf.len())).next_multiple_of(ALIGN_BYTES);
    if let Some(len) = NonZeroU64::new(end - start) {
        rustix::fs::fadvise(file, start, Some(len), Advice::DontNeed)?;
    }
    file.read_exact_at(buf, at)
}

fn read_aligned(direct: &File, buf: &mut [u8], at: u64) -> io::Result<()> {
    let start = at / ALIGN_BYTES * ALIGN_BYTES;
    let end = (at + u64_of(buf.len())).next_multiple_of(ALIGN_BYTES);
    let skip = clamp_usize(at - start);
    let mut memory = vec![0; clamp_usize(end - start + ALIGN_BYTES)];
    let memory = aligned(&mut memory, clamp_usize(end - start));
    let wanted = skip + buf.len();
    let mut got = 0;
    // The last page of a device may be short.
    while got < wanted {
        match direct.read_at(&mut memory[got..], start + u64_of(got)) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => got += len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buf.copy_from_slice(&memory[skip..wanted]);
    Ok(())
}

/// Writes `bytes` at byte `at` and nothing beside them: a cached page may hold stale neighbouring
/// bytes that another host has changed since.
pub(super) fn write(file: &File, direct: Option<&File>, bytes: &[u8], at: u64) -> io::Result<()> {
    if let Some(direct) = direct.filter(|_| is_aligned(at) && is_aligned(u64_of(bytes.len()))) {
        let mut memory = vec![0; bytes.len() + clamp_usize(ALIGN_BYTES)];
        let memory = aligned(&mut memory, bytes.len());
        memory.copy_from_slice(bytes);
        match direct.write_all_at(memory, at) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => {}
            done => return done,
        }
    }
    file.write_all_at(bytes, at)
}

fn is_aligned(number: u64) -> bool {
    number.is_multiple_of(SECTOR_BYTES)
}

/// The first `len` bytes of `memory` at an aligned address; `memory` has `ALIGN_BYTES` more.
fn aligned(memory: &mut [u8], len: usize) -> &mut [u8] {
    let skip = memory.as_ptr().align_offset(clamp_usize(ALIGN_BYTES));
    &mut memory[skip..skip + len]
}

/// Starts write-back of the dirty pages of the range, so that they reach the device even if this
/// process is stopped. Waits first for pages under write-back: those could not take the newer
/// bytes.
pub(super) fn write_out(file: &File, at: u64, len: u64) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE;
    let (at, len) = (at.cast_signed(), len.cast_signed());
    // SAFETY: the call takes numbers only, and the descriptor is open.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), at, len, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
