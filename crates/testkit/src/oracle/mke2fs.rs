//! mke2fs: images made by the reference implementation.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::program::Program;
use super::scratch::scratch_dir;

/// Creates (or replaces) the sparse file `image` of `size_bytes` and formats it as ext4. `options`
/// are passed to mke2fs unchanged, for example `&["-b", "1024", "-O", "^has_journal"]`.
///
/// # Errors
/// The file cannot be created, or mke2fs refuses.
pub fn mke2fs(image: &Path, size_bytes: u64, options: &[&str]) -> Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(image)
        .with_context(|| format!("create {}", image.display()))?;
    file.set_len(size_bytes)?;
    drop(file);
    Program::new("mke2fs")?
        .args(["-q", "-F", "-t", "ext4"])
        .args(options)
        .arg(image)
        .run_ok()?;
    Ok(())
}

/// A fresh image in a scratch directory that lives as long as the returned owner.
///
/// # Errors
/// As [`mke2fs`].
pub fn mke2fs_image(size_bytes: u64, options: &[&str]) -> Result<(TempDir, PathBuf)> {
    let dir = scratch_dir()?;
    let image = dir.path().join("image.img");
    mke2fs(&image, size_bytes, options)?;
    Ok((dir, image))
}
