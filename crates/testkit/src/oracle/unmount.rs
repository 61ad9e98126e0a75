//! Unmount with retries while the mount is busy.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

/// Attempts before a busy mount is detached lazily.
const ATTEMPTS: u32 = 40;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(25);

/// Unmounts `dir`.
///
/// # Errors
/// The mount is still in use. It is then detached lazily.
pub(super) fn unmount(dir: &Path) -> Result<()> {
    for _ in 0..ATTEMPTS {
        match rustix::mount::unmount(dir, UnmountFlags::empty()) {
            Err(Errno::BUSY) => std::thread::sleep(PAUSE),
            other => return other.with_context(|| format!("unmount {}", dir.display())),
        }
    }
    rustix::mount::unmount(dir, UnmountFlags::DETACH)?;
    bail!("{} stayed busy and was detached lazily", dir.display())
}
