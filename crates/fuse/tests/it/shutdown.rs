//! A mount after shutdown: only I/O errors, and the expected state of the image.

use crate::support::{Mounted, errno};
use std::fs;
use uext4::Flush;
use uext4_fuse::{Client, Error, Lazy, shutdown, umount};
use uext4_testkit::oracle;

/// Shuts down with one synced file and one that was only created and written.
fn shut(flush: Flush) -> Mounted {
    // Only explicit commits.
    let mut mounted = Mounted::with(&["-b", "4096"], &["-o", "commit=2000"]);
    let synced = fs::File::create(mounted.path("synced")).unwrap();
    std::io::Write::write_all(&mut &synced, b"kept").unwrap();
    synced.sync_all().unwrap();
    fs::write(mounted.path("late"), "perhaps").unwrap();
    drop(mounted.client());
    shutdown(&mounted.root(), flush).unwrap();
    // A second shutdown changes nothing.
    shutdown(&mounted.root(), flush).unwrap();
    assert_eq!(
        errno(fs::File::create(mounted.path("new"))),
        Some(libc::EIO)
    );
    assert_eq!(
        errno(fs::read_dir(mounted.path("lost+found"))),
        Some(libc::EIO)
    );
    assert_eq!(
        errno(fs::rename(mounted.path("late"), mounted.path("x"))),
        Some(libc::EIO)
    );
    assert!(synced.sync_all().is_err());
    drop(synced);
    let refused = uext4_fuse::remount(&mounted.root(), "commit=5").expect_err("it is shut");
    assert!(
        matches!(&refused, Error::Refused(why) if why.errno == libc::EIO),
        "{refused}"
    );
    assert!(Client::connect(&mounted.root()).is_ok());
    // Lost data are reported.
    let umounted = umount(&mounted.root(), Lazy::No);
    assert_eq!(umounted.is_ok(), flush == Flush::Everything, "{umounted:?}");
    let ended = mounted.take_server().wait().unwrap();
    assert_eq!(ended.success(), flush == Flush::Everything, "{ended}");
    mounted
}

/// The next mount recovers; returns the contents of `late` afterwards.
fn recovered(mut mounted: Mounted) -> Option<String> {
    mounted.mount(&[]);
    assert_eq!(fs::read_to_string(mounted.path("synced")).unwrap(), "kept");
    assert!(!mounted.path("new").exists());
    let late = fs::read_to_string(mounted.path("late")).ok();
    mounted.unmount();
    late
}

#[test]
fn everything_is_there_and_clean() {
    let mounted = shut(Flush::Everything);
    oracle::assert_clean(&mounted.image());
    assert_eq!(recovered(mounted).as_deref(), Some("perhaps"));
}

#[test]
fn names_are_there_when_the_log_is_written() {
    assert!(recovered(shut(Flush::Log)).is_some());
}

#[test]
fn nothing_more_is_written() {
    assert_eq!(recovered(shut(Flush::Nothing)), None);
}
