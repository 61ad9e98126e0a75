//! The attached loop devices and their backing storage.
//!
//! References: loop(4), `LOOP_GET_STATUS64`; kernel documentation, `ABI/testing/sysfs-block-loop`.
#![allow(unsafe_code)]

use super::storage::{DeviceNr, Storage};
use super::sysfs;
use rustix::ioctl::Getter;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4_num::low_u32;

/// ioctl that reads the `LoopInfo` of a loop device.
const LOOP_GET_STATUS64: rustix::ioctl::Opcode = 0x4C05;

/// `struct loop_info64`, as ioctls of loop devices pass it.
#[repr(C)]
pub(crate) struct LoopInfo {
    device: u64,
    inode: u64,
    block_device: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_bytes: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl LoopInfo {
    /// As `LOOP_CONFIGURE` takes it: all of the file at `path`, with these flags.
    pub(crate) fn of_whole_file(flags: u32, path: &Path) -> Self {
        let mut file_name = [0; 64];
        // The last byte ends the text.
        for (to, from) in file_name[..63].iter_mut().zip(path.as_os_str().as_bytes()) {
            *to = *from;
        }
        Self {
            device: 0,
            inode: 0,
            block_device: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_bytes: 0,
            flags,
            file_name,
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        }
    }
}

/// A loop device that has a file or block device below it.
pub(super) struct Loop {
    pub(super) device: DeviceNr,
    /// Its node in `/dev`.
    pub(super) node: PathBuf,
    /// The backing storage; `None` if unknown.
    pub(super) below: Option<Storage>,
    /// The path of the backing storage in `/sys`.
    pub(super) below_path: PathBuf,
}

/// All attached loop devices, in every mount namespace.
pub(super) fn attached() -> Vec<Loop> {
    let disks = sysfs::entries(Path::new("/sys/block")).into_iter();
    disks
        .filter(|dir| {
            let name = dir.file_name().unwrap_or_default();
            name.as_bytes().starts_with(b"loop")
        })
        .filter_map(|dir| read_loop(&dir))
        .collect()
}

fn read_loop(dir: &Path) -> Option<Loop> {
    // Absent while the device is detached.
    let said = std::fs::read(dir.join("loop/backing_file")).ok()?;
    let said = said.strip_suffix(b"\n").unwrap_or(&said);
    let below_path = PathBuf::from(OsStr::from_bytes(said));
    let device = sysfs::number(dir)?;
    let node = sysfs::node(device);
    let opened = super::open(&node, rustix::fs::OFlags::empty());
    let opened = opened.ok().filter(|file| Storage::Block(device).is(file));
    let below = match opened {
        Some(file) => status(&file),
        None => Storage::at(&below_path),
    };
    Some(Loop {
        device,
        node,
        below,
        below_path,
    })
}

fn status(device: &File) -> Option<Storage> {
    // SAFETY: `LOOP_GET_STATUS64` fills one `struct loop_info64`, which `LoopInfo` lays out; all
    // bit patterns are values of it.
    let info = unsafe {
        let getter = Getter::<LOOP_GET_STATUS64, LoopInfo>::new();
        rustix::ioctl::ioctl(device, getter)
    };
    let info = info.ok()?;
    // For a file it is zero, or the device of the file.
    let is_file = [0, info.device].contains(&info.block_device);
    Some(if is_file {
        Storage::File {
            device: of_kernel(info.device),
            inode: info.inode,
        }
    } else {
        Storage::Block(of_kernel(info.block_device))
    })
}

/// Device number in the encoding of `huge_encode_dev`: 12 bits of major from bit 8, the minor
/// around them.
fn of_kernel(number: u64) -> DeviceNr {
    DeviceNr {
        major: low_u32(number >> 8 & 0xfff),
        minor: low_u32(number & 0xff | number >> 12 & 0xfff00),
    }
}

const _: () = assert!(size_of::<LoopInfo>() == 232);
