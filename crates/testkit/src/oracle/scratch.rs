//! A place for images and mount points that vanishes with its owner.

use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A fresh directory in memory when there is `/dev/shm`, else in the temporary directory.
///
/// # Errors
/// The directory cannot be created.
pub fn scratch_dir() -> Result<TempDir> {
    let shared_memory = Path::new("/dev/shm");
    let parent = match shared_memory.is_dir() {
        true => shared_memory.to_path_buf(),
        false => std::env::temp_dir(),
    };
    tempfile::Builder::new()
        .prefix("uext4-test-")
        .tempdir_in(&parent)
        .with_context(|| format!("no scratch directory in {}", parent.display()))
}
