//! Progress of `uext4 fsck` and `uext4 check`: a bar on the terminal, or lines for the program that
//! gave a descriptor with `-C`, as `fsck(8)` and boot screens do.

use crate::failure::{At, Failure, Result};
use crate::transfer::Progress;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::Write;
use uext4::check::{Pass, Watch};
use uext4_sync::Arc;
use uext4_sync::atomic::{AtomicU64, Ordering};

/// Steps in which a pass is told, so that large file systems do not flood the reader.
const STEPS: u64 = 1000;

/// A bar on the terminal.
struct Bar(Progress);

impl Watch for Bar {
    fn advance(&self, pass: Pass, done: u64, total: u64) {
        self.0.named(match pass {
            Pass::Inodes => "parts of inode tables",
            Pass::Directories => "parts of directories",
            Pass::Bitmaps => "bitmaps",
        });
        self.0.of(total);
        self.0.to(done);
    }
}

/// Lines `PASS DONE TOTAL NAME`, as e2fsck writes them.
struct Lines {
    file: File,
    name: String,
    /// Pass and step of the last line.
    last: AtomicU64,
}

impl Watch for Lines {
    fn advance(&self, pass: Pass, done: u64, total: u64) {
        let step = done.saturating_mul(STEPS) / total.max(1);
        let now = u64::from(pass.number()) * 2 * STEPS + step;
        if self.last.swap(now, Ordering::Relaxed) != now {
            let line = format!("{} {done} {total} {}\n", pass.number(), self.name);
            // A reader that has gone does not end a repair.
            let _ = (&self.file).write_all(line.as_bytes());
        }
    }
}

/// A bar, which is hidden where there is no terminal.
pub(crate) fn bar() -> Arc<dyn Watch> {
    Arc::new(Bar(Progress::counting("parts")))
}

/// What `-C` asks for.
pub(super) fn on_descriptor(fd: i32, name: &str) -> Result<Arc<dyn Watch>> {
    if fd == 0 {
        return Ok(bar());
    }
    if fd < 0 {
        let text = "fsck -C: progress from a later signal on is not supported; \
                    a descriptor is 0 or more";
        return Err(Failure::usage(text));
    }
    let path = format!("/dev/fd/{fd}");
    // The descriptor is opened again: behind what a file has, and without waiting for a reader.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(&path, flags, Mode::empty()).map_err(std::io::Error::from);
    Ok(Arc::new(Lines {
        file: file.at(format!("fsck -C {fd}"))?.into(),
        name: name.to_owned(),
        last: AtomicU64::new(u64::MAX),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

    #[test]
    fn lines_are_those_of_e2fsck() {
        let mut file = tempfile::tempfile().unwrap();
        let lines = Lines {
            file: file.try_clone().unwrap(),
            name: "/dev/vdb".to_owned(),
            last: AtomicU64::new(u64::MAX),
        };
        for done in 0..3 {
            lines.advance(Pass::Inodes, done, 100_000);
        }
        lines.advance(Pass::Inodes, 50_000, 100_000);
        lines.advance(Pass::Bitmaps, 0, 0);
        let mut said = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut said).unwrap();
        assert_eq!(
            said,
            "1 0 100000 /dev/vdb\n1 50000 100000 /dev/vdb\n5 0 0 /dev/vdb\n"
        );
    }
}
