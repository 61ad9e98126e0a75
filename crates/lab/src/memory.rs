//! Memory use of this process and of the kernel.

use anyhow::{Context, Result};
use std::fs;

pub(crate) fn begin() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")
}

/// The resident peak since [`begin`], in MiB.
pub(crate) fn peak_mib() -> Result<f64> {
    mib("/proc/self/status", "VmHWM:")
}

/// Anonymous memory of this process in MiB.
pub(crate) fn own_mib() -> Result<f64> {
    mib("/proc/self/status", "RssAnon:")
}

/// The kernel's cache of block devices in MiB.
pub(crate) fn buffers_mib() -> Result<f64> {
    mib("/proc/meminfo", "Buffers:")
}

/// The value in KiB of a line in a file of `/proc`, converted to MiB.
fn mib(file: &str, name: &str) -> Result<f64> {
    let text = fs::read_to_string(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: f64 = kib
        .with_context(|| format!("no {name} in {file}"))?
        .parse()?;
    Ok(kib / 1024.0)
}
