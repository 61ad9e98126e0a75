//! How much memory this process has.

use anyhow::{Context, Result};
use std::fs;

/// Lets the peak begin anew.
pub(super) fn begin() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")
}

/// The most that was resident since [`begin`], in bytes.
pub(super) fn peak_bytes() -> Result<u64> {
    field("VmHWM:")
}

fn field(name: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next());
    let kib: u64 = kib.context("no such line in /proc/self/status")?.parse()?;
    Ok(kib << 10)
}
