//! `execve(2)` while files of the mount are open.
//!
//! `execve(2)` closes close-on-exec files while it holds the lock that guards the process's
//! `/proc/PID`. The kernel writes the data of a closed file back and waits for the answer. A server
//! that reads `/proc/PID` of its caller would deadlock.

use crate::support::Mounted;
use crate::watchdog::Watchdog;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

/// Files that each exec closes.
const FILES: usize = 60;
/// Execs per thread; each causes about 2 * [`FILES`] requests.
const STARTS: usize = 10;

/// Every file has dirty pages, and the child has a copy of each descriptor.
#[test]
fn programs_start_while_files_are_dirty() {
    let mut mounted = Mounted::new();
    let watchdog = Watchdog::over(&mut mounted);
    let make = |index| File::create(mounted.path(&format!("{index}"))).unwrap();
    let files: Vec<File> = (0..FILES).map(make).collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for start in 0..STARTS {
                    for file in &files {
                        file.write_all_at(&[start as u8; 4096], 0).unwrap();
                    }
                    assert!(Command::new("true").status().unwrap().success());
                }
            });
        }
    });
    drop((files, watchdog));
    mounted.unmount();
}
