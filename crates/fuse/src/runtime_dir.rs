//! The directory of a user's running servers: claims and control sockets.
//!
//! Layout: `/run/uext4` of the superuser, `$XDG_RUNTIME_DIR/uext4` of others, and `uext4-UID` in
//! the directory for temporary files where there is none. Files are named after mount points.
//! Invariants: only its owner can enter it; one that belongs to somebody else is refused.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Permissions of the directory.
const MODE: u32 = 0o700;

/// That of this process.
pub(crate) fn own() -> PathBuf {
    of(rustix::process::geteuid().as_raw())
}

/// That of a user.
pub(crate) fn of(uid: u32) -> PathBuf {
    if uid == 0 {
        return "/run/uext4".into();
    }
    let own = rustix::process::geteuid().as_raw() == uid;
    let set = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| own && !dir.is_empty());
    let usual = PathBuf::from(format!("/run/user/{uid}"));
    match set.map(PathBuf::from).unwrap_or(usual) {
        dir if dir.is_dir() => dir.join("uext4"),
        _ => std::env::temp_dir().join(format!("uext4-{uid}")),
    }
}

/// Makes the directory, unless it is there.
///
/// # Errors
/// It is no directory, or not ours; what the system says.
pub(crate) fn make(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(MODE).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // A link is not followed: where it leads may change.
    let found = fs::symlink_metadata(dir)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(dir, Permissions::from_mode(MODE))?;
    }
    Ok(())
}

/// The path as a file name of at most `bytes_max` bytes; long ones end in a hash.
pub(crate) fn file_name(mount_point: &Path, bytes_max: usize) -> String {
    let mut name = String::new();
    for &byte in mount_point.as_os_str().as_bytes() {
        match byte {
            b'/' => name.push('-'),
            b'.' | b'_' => name.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            byte => name.push_str(&format!("%{byte:02x}")),
        }
    }
    if name.len() > bytes_max {
        let hash = fnv(mount_point.as_os_str().as_bytes());
        name.truncate(bytes_max - 17);
        name.push_str(&format!("-{hash:016x}"));
    }
    name
}

/// FNV-1a.
fn fnv(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.iter().fold(OFFSET, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_short() {
        let long = |end: char| format!("/{}{end}", "x".repeat(300));
        let names = ["/mnt/a b", "/mnt/a-b", "/mnt/a/b", &long('1'), &long('2')];
        let escaped: Vec<String> = names
            .iter()
            .map(|name| file_name(Path::new(name), 60))
            .collect();
        for (i, name) in escaped.iter().enumerate() {
            assert!(name.len() <= 60, "{name}");
            assert!(!escaped[..i].contains(name), "{name}");
        }
    }

    #[test]
    fn only_the_owner_enters_it() {
        let dir = tempfile::tempdir().expect("there is room");
        let (open, link) = (dir.path().join("open"), dir.path().join("link"));
        fs::create_dir(&open).expect("it is fresh");
        fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("it is ours");
        make(&open).expect("it is ours");
        let mode = fs::metadata(&open).expect("it is there").mode();
        assert_eq!(mode & 0o777, MODE);
        std::os::unix::fs::symlink(&open, &link).expect("it is fresh");
        let refused = make(&link).expect_err("a link is not followed");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
}
