//! Unmount with retries while the mount is busy.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::wait;

/// Time until a busy mount is detached lazily.
const LIMIT: Duration = Duration::from_secs(1);

/// Unmounts `dir`.
///
/// # Errors
/// The mount is still in use. It is then detached lazily.
pub(super) fn unmount(dir: &Path) -> Result<()> {
    let done = wait::within(LIMIT, || {
        match rustix::mount::unmount(dir, UnmountFlags::empty()) {
            Err(Errno::BUSY) => None,
            done => Some(done),
        }
    });
    if let Some(done) = done {
        return done.with_context(|| format!("unmount {}", dir.display()));
    }
    rustix::mount::unmount(dir, UnmountFlags::DETACH)?;
    bail!("{} stayed busy and was detached lazily", dir.display())
}
