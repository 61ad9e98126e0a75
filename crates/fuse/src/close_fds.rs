//! Closes inherited file descriptors.
//!
//! A server would keep every inherited descriptor as long as it serves, and a sandbox restricts
//! opening, not open descriptors. A program that becomes a server closes them first.
//! References: man page `close_range(2)`.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// First descriptor that is not a standard stream.
const FIRST: libc::c_uint = 3;

/// Closes every descriptor except the standard streams. The program must not have opened anything:
/// a descriptor owned by an object of this process would be closed under it.
///
/// # Errors
/// The kernel has no `close_range` (before Linux 5.9) and `/proc` does not list the descriptors.
pub fn close_inherited() -> io::Result<()> {
    // SAFETY: the call takes three numbers. The caller owns none of the descriptors.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    if closed == 0 {
        return Ok(());
    }
    let listed: io::Result<Vec<_>> = std::fs::read_dir("/proc/self/fd")?.collect();
    for entry in listed? {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some(number) = number.filter(|number: &libc::c_int| *number >= 3) {
            // SAFETY: as above. The descriptor of the listing itself is closed already.
            unsafe { libc::close(number) };
        }
    }
    Ok(())
}

/// Closes every descriptor except the standard streams and those in `kept`, in a child that a fork
/// made: it would keep files of its parent open, which then cannot go. Without `close_range` they
/// stay open.
///
/// # Safety
/// The process uses no other descriptor from now on, and ends without dropping their owners.
pub(crate) unsafe fn close_all_but(mut kept: [BorrowedFd<'_>; 2]) {
    kept.sort_by_key(|fd| fd.as_raw_fd());
    let mut first = FIRST;
    for fd in kept.map(|fd| fd.as_raw_fd().cast_unsigned()) {
        if first < fd {
            // SAFETY: the call takes three numbers. The caller uses none of the descriptors.
            unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0) };
        }
        first = first.max(fd.saturating_add(1));
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) };
}
