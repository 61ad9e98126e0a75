//! A loop device for an image file, so that the kernel knows a block device.
//!
//! Invariant: the kernel detaches the device at its last close (`LO_FLAGS_AUTOCLEAR`), whichever
//! process that is and however it ends.
//! References: loop(4), `LOOP_CTL_GET_FREE`, `LOOP_CONFIGURE` (Linux 5.8).
#![allow(unsafe_code)]

use crate::users::LoopInfo;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const CONTROL: &str = "/dev/loop-control";
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Attempts: between the two calls another process may take the device.
const ATTEMPTS: usize = 64;

/// Access of a loop device to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopIo {
    /// Through the page cache, as `losetup` does by default.
    Buffered,
    /// Direct I/O, where the file system of the file supports it (`losetup --direct-io=on`).
    Direct,
}

/// `struct loop_config`, the argument of `LOOP_CONFIGURE`.
#[repr(C)]
struct Config {
    file: u32,
    /// 0: the kernel chooses.
    block_bytes: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<Config>() == 304);

/// An attached loop device. It exists until this and every other descriptor of it are closed, and
/// no mount of the kernel uses it.
#[derive(Debug)]
pub struct AttachedLoop {
    path: PathBuf,
    _open: File,
}

impl AttachedLoop {
    /// Attaches the file `image`, to be read and written.
    ///
    /// # Errors
    /// The file cannot be opened for writing; this process may not attach loop devices, or none is
    /// free.
    pub fn attach(image: &Path, how: LoopIo) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(image)?;
        let control = File::options().read(true).write(true).open(CONTROL)?;
        for _ in 0..ATTEMPTS {
            let path = PathBuf::from(format!("/dev/loop{}", free_number(&control)?));
            let open = File::options().read(true).write(true).open(&path)?;
            match configure(&open, &file, image, how) {
                Ok(()) => return Ok(Self { path, _open: open }),
                Err(Errno::BUSY) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::BUSY.into())
    }

    /// The device, for example `/dev/loop3`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The number of a loop device that is free now; the kernel makes one if all are in use.
fn free_number(control: &File) -> io::Result<libc::c_int> {
    // SAFETY: the call has no argument and returns a number or -1.
    match unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) } {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(number),
    }
}

fn configure(device: &File, file: &File, image: &Path, how: LoopIo) -> Result<(), Errno> {
    let direct = match how {
        LoopIo::Buffered => 0,
        LoopIo::Direct => LO_FLAGS_DIRECT_IO,
    };
    let config = Config {
        file: file.as_raw_fd().cast_unsigned(),
        block_bytes: 0,
        info: LoopInfo::of_whole_file(LO_FLAGS_AUTOCLEAR | direct, image),
        reserved: [0; 8],
    };
    // SAFETY: `LOOP_CONFIGURE` reads one `struct loop_config`, which `Config` lays out. The kernel
    // takes a reference of its own to the file.
    unsafe {
        let setter = Setter::<LOOP_CONFIGURE, Config>::new(config);
        rustix::ioctl::ioctl(device, setter)
    }
}

#[cfg(test)]
mod tests;
