//! Scratch directories for images and mount points, removed with their owner.

use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A fresh directory in memory if `/dev/shm` is writable, else in the temporary directory.
///
/// # Errors
/// The directory cannot be created.
pub fn scratch_dir() -> Result<TempDir> {
    fresh_in(Path::new("/dev/shm")).or_else(|_| {
        let parent = std::env::temp_dir();
        fresh_in(&parent).with_context(|| format!("no scratch directory in {}", parent.display()))
    })
}

fn fresh_in(parent: &Path) -> std::io::Result<TempDir> {
    let dir = tempfile::Builder::new()
        .prefix("uext4-test-")
        .tempdir_in(parent)?;
    // A full file system may accept a directory and refuse files.
    std::fs::write(dir.path().join("probe"), "x")?;
    std::fs::remove_file(dir.path().join("probe"))?;
    Ok(dir)
}
