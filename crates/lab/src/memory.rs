//! How much memory this process and the kernel take.

use anyhow::{Context, Result};
use std::fs;

/// Lets the peak begin anew.
pub(crate) fn begin() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")
}

/// The most that was resident since [`begin`], in MiB.
pub(crate) fn peak_mib() -> Result<f64> {
    mib("/proc/self/status", "VmHWM:")
}

/// Memory of this process that no file backs.
pub(crate) fn own_mib() -> Result<f64> {
    mib("/proc/self/status", "RssAnon:")
}

/// What the kernel caches of block devices.
pub(crate) fn buffers_mib() -> Result<f64> {
    mib("/proc/meminfo", "Buffers:")
}

/// The number of a line of KiB in a file of `/proc`, in MiB.
fn mib(file: &str, name: &str) -> Result<f64> {
    let text = fs::read_to_string(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: f64 = kib
        .with_context(|| format!("no {name} in {file}"))?
        .parse()?;
    Ok(kib / 1024.0)
}
