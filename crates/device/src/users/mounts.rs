//! Mounts, swap space and other block devices on a block device.
//!
//! References: proc(5), `/proc/PID/mountinfo` and `/proc/swaps`.

use super::storage::{DeviceNr, Storage};
use super::{User, processes, sysfs};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The users to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WantedUsers {
    Writer,
    Any,
}

/// The user of a block device, or of a partition of it.
pub(super) fn user_of(device: DeviceNr, node: &Path, kind: WantedUsers) -> Option<User> {
    let parts = sysfs::partitions(device).into_iter();
    let parts = parts.map(|part| (part, sysfs::node(part)));
    let devices: Vec<(DeviceNr, PathBuf)> = std::iter::once((device, node.to_owned()))
        .chain(parts)
        .collect();
    mount_of(&devices, kind)
        .or_else(|| swap_on(&devices))
        .or_else(|| holder_of(&devices))
}

/// The own namespace first, then those of all accessible processes.
fn mount_of(devices: &[(DeviceNr, PathBuf)], kind: WantedUsers) -> Option<User> {
    let own = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    find(&own, devices, kind, None).or_else(|| {
        processes::all().find_map(|pid| {
            let table = std::fs::read(format!("/proc/{pid}/mountinfo")).ok()?;
            find(&table, devices, kind, Some(pid))
        })
    })
}

fn find(
    table: &[u8],
    devices: &[(DeviceNr, PathBuf)],
    kind: WantedUsers,
    namespace: Option<u32>,
) -> Option<User> {
    let types = Types::of_host();
    let lines = table.split(|&byte| byte == b'\n');
    lines.filter_map(parse).find_map(|mount| {
        let (_, node) = devices.iter().find(|(nr, node)| {
            let names = mount.source == node.as_os_str().as_bytes();
            mount.device == *nr || names && types.have_device(&mount.kind)
        })?;
        (kind == WantedUsers::Any || mount.writes).then(|| User::Mount {
            device: node.clone(),
            point: mount.point,
            namespace,
        })
    })
}

/// The list of file systems of the kernel, `/proc/filesystems`.
struct Types(Option<String>);

impl Types {
    fn of_host() -> Self {
        Self(std::fs::read_to_string("/proc/filesystems").ok())
    }

    /// Whether file systems of this type are on block devices. The source of others is any text
    /// that the caller of mount(2) chooses.
    fn have_device(&self, kind: &[u8]) -> bool {
        let Some(list) = &self.0 else {
            return true;
        };
        list.lines()
            .any(|line| line.split('\t').eq(["", &String::from_utf8_lossy(kind)]))
    }
}

struct Mount {
    device: DeviceNr,
    point: PathBuf,
    kind: Vec<u8>,
    source: Vec<u8>,
    writes: bool,
}

/// A line: id, parent, device, root, point, options, optional fields, `-`, type, source, options of
/// the file system.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = DeviceNr::parse(std::str::from_utf8(fields.nth(2)?).ok()?)?;
    let point = unescape(fields.nth(1)?);
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = rest.next()?.to_vec();
    let source = unescape(rest.next()?);
    let options = rest.next()?;
    Some(Mount {
        device,
        point: OsString::from_vec(point).into(),
        kind,
        source,
        writes: options
            .split(|&byte| byte == b',')
            .any(|word| word == b"rw"),
    })
}

/// Undoes the octal escapes of space, tab, newline and backslash.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| byte == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &tail[3..] } else { tail };
    }
    out
}

fn swap_on(devices: &[(DeviceNr, PathBuf)]) -> Option<User> {
    let table = std::fs::read_to_string("/proc/swaps").ok()?;
    table.lines().skip(1).find_map(|line| {
        let path = unescape(line.split_whitespace().next()?.as_bytes());
        let found = Storage::at(Path::new(&OsString::from_vec(path)))?;
        let (_, node) = devices
            .iter()
            .find(|(nr, _)| found == Storage::Block(*nr))?;
        Some(User::Swap {
            device: node.clone(),
        })
    })
}

fn holder_of(devices: &[(DeviceNr, PathBuf)]) -> Option<User> {
    devices.iter().find_map(|(nr, node)| {
        Some(User::Holder {
            device: node.clone(),
            holder: sysfs::holders(*nr).into_iter().next()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users choose the source of a tmpfs in a namespace of their own.
    #[test]
    fn only_sources_of_block_file_systems_count() {
        let node = PathBuf::from("/dev/loop0");
        let devices = [(DeviceNr::parse("7:0").unwrap(), node)];
        let user_of = |line: &[u8]| find(line, &devices, WantedUsers::Writer, None);
        let tmpfs = b"36 35 0:77 / /mnt rw - tmpfs /dev/loop0 rw,size=1k";
        assert!(user_of(tmpfs).is_none());
        let by_number = b"36 35 7:0 / /mnt rw - ext4 /dev/root rw";
        assert!(user_of(by_number).is_some());
        let types = Types(Some("nodev\ttmpfs\n\tbtrfs\n".into()));
        assert!(types.have_device(b"btrfs") && !types.have_device(b"tmpfs"));
        assert!(Types(None).have_device(b"tmpfs"));
    }
}
