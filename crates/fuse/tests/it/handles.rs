//! File handles as an NFS server keeps them: number and generation, good for as long as the file.

use crate::support::{Mounted, errno};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// `struct file_handle` with room for the longest.
#[repr(C)]
#[derive(Clone)]
struct Handle {
    bytes: u32,
    kind: i32,
    data: [u8; 128],
}

fn handle_of(path: &Path) -> Handle {
    let name = CString::new(path.to_str().unwrap()).unwrap();
    let mut handle = Handle {
        bytes: 128,
        kind: 0,
        data: [0; 128],
    };
    let mut mount_id = 0i32;
    // SAFETY: name and handle live across the call, and the handle says how much room it has.
    let done = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            name.as_ptr(),
            &raw mut handle,
            &raw mut mount_id,
            0,
        )
    };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
    handle
}

fn open(mounted: &Mounted, handle: &Handle) -> io::Result<File> {
    let root = File::open(mounted.root()).unwrap();
    // SAFETY: the handle lives across the call and holds as many bytes as it says.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            root.as_raw_fd(),
            handle,
            libc::O_RDONLY,
        )
    };
    let fd = i32::try_from(fd).expect("descriptors are small");
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was just opened and nobody else has it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// The kernel forgets every inode that nobody uses, and tells the server so.
fn drop_caches() {
    fs::write("/proc/sys/vm/drop_caches", "2").expect("the tests run as root");
}

#[test]
fn a_handle_outlives_caches_names_and_mounts() {
    let mut mounted = Mounted::new();
    fs::create_dir_all(mounted.path("a/b/c")).unwrap();
    fs::write(mounted.path("a/b/file"), "found").unwrap();
    let (file, dir) = (
        handle_of(&mounted.path("a/b/file")),
        handle_of(&mounted.path("a/b/c")),
    );
    let root = handle_of(&mounted.root());
    let look = |mounted: &Mounted| {
        let mut text = String::new();
        open(mounted, &file)
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "found");
        let dir = open(mounted, &dir).unwrap();
        // The kernel has found the way up by "..".
        let path = fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).unwrap();
        assert!(path.ends_with("b/c"), "{path:?}");
        assert!(open(mounted, &root).unwrap().metadata().unwrap().is_dir());
    };
    drop_caches();
    look(&mounted);
    fs::rename(mounted.path("a"), mounted.path("z")).unwrap();
    drop_caches();
    look(&mounted);
    mounted.unmount();
    mounted.mount(&[]);
    look(&mounted);
    mounted.unmount();
}

#[test]
fn a_handle_of_a_deleted_file_stays_stale() {
    let mut mounted = Mounted::new();
    let (path, again) = (mounted.path("file"), mounted.path("again"));
    fs::write(&path, "old").unwrap();
    let handle = handle_of(&path);
    let ino = fs::metadata(&path).unwrap().ino();
    fs::remove_file(&path).unwrap();
    drop_caches();
    assert_eq!(errno(open(&mounted, &handle)), Some(libc::ESTALE));
    // The number comes back with another generation once the kernel's word that it forgot the file
    // has arrived, which nobody waits for.
    let start = Instant::now();
    let mut reused = false;
    while !reused && start.elapsed() < Duration::from_secs(30) {
        let _ = fs::remove_file(&again);
        fs::write(&again, "new").unwrap();
        reused = fs::metadata(&again).unwrap().ino() == ino;
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(reused, "inode {ino} was not used again");
    assert_eq!(errno(open(&mounted, &handle)), Some(libc::ESTALE));
    drop_caches();
    assert_eq!(errno(open(&mounted, &handle)), Some(libc::ESTALE));
    let other = handle_of(&again);
    assert_ne!(other.data, handle.data);
    assert!(open(&mounted, &other).is_ok());
    // Numbers that no file has: reserved ones, one beyond the end, and those of nothing.
    for number in [0u64, 2, 7, 8, 1 << 31, 1 << 33] {
        let mut forged = other.clone();
        forged.data[..4].copy_from_slice(&((number >> 32) as u32).to_ne_bytes());
        forged.data[4..8].copy_from_slice(&(number as u32).to_ne_bytes());
        assert_eq!(
            errno(open(&mounted, &forged)),
            Some(libc::ESTALE),
            "{number}"
        );
    }
    mounted.unmount();
}
