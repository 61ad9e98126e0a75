//! Workload on a mount of a damaged image: random operations and walks.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Result, bail};
use uext4_testkit::ops::{HostTarget, Palette, Stream, Target};

/// Time limit of a round's operations, with allowance for other load on the machine.
const ROUND_LIMIT: Duration = Duration::from_secs(300);
/// Operations of a round.
const OPS: usize = 150;
/// Limit of entries per walk, because damage can make a tree endless.
const WALK_MAX: usize = 2000;

/// Runs random operations and walks on a separate thread, so that a hang is detected. Returns the
/// number of successful operations.
pub(super) fn used(root: &Path, seed: u64) -> Result<u64> {
    let (done, answer) = mpsc::channel();
    let root = root.to_path_buf();
    let worker = std::thread::spawn(move || {
        walk(&root, &mut 0);
        let mut target = HostTarget::new(&root);
        let ops = Stream::new(seed, Palette::default()).take(OPS);
        let succeeded = ops.filter(|op| target.run(op).is_ok()).count();
        walk(&root, &mut 0);
        // The receiver may have given up.
        let _ = done.send(succeeded as u64);
    });
    match answer.recv_timeout(ROUND_LIMIT) {
        Ok(succeeded) => Ok(succeeded),
        Err(mpsc::RecvTimeoutError::Timeout) => bail!("the mount hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let ended = worker.join();
            bail!("the operations ended with a panic: {ended:?}")
        }
    }
}

/// Reads all entries; errors are ignored.
fn walk(dir: &Path, seen: &mut usize) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        *seen += 1;
        if *seen > WALK_MAX {
            return;
        }
        let Ok(metadata) = entry.path().symlink_metadata() else {
            continue;
        };
        if metadata.is_dir() {
            walk(&entry.path(), seen);
        } else if metadata.is_file() {
            let _ = head(&entry.path());
        } else if metadata.is_symlink() {
            let _ = std::fs::read_link(entry.path());
        }
    }
}

/// Reads the first MiB of a file, because its size may be damaged.
fn head(path: &Path) -> std::io::Result<usize> {
    use std::io::Read;
    let mut text = Vec::new();
    std::fs::File::open(path)?
        .take(1 << 20)
        .read_to_end(&mut text)
}
