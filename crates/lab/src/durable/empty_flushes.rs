//! Number of flushes without data, by a trace event.
//!
//! A disk counts a flush that is no part of a write twice: as a flush, and as a write of 0 sectors.
//! `fdatasync` of a block device sends such flushes; jbd2 attaches its own to the commit block.
//!
//! Layout: an instance of the tracer, in which the event `block_bio_queue` passes requests without
//! sectors of one disk only.
//! References: kernel documentation, `trace/ftrace.rst`, `trace/events.rst`.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

const INSTANCES: &str = "/sys/kernel/tracing/instances";
const EVENT: &str = "events/block/block_bio_queue";
/// Bits of the minor number in the kernel's device numbers.
const MINOR_BITS: u32 = 20;

/// A counter of one disk.
pub(super) struct EmptyFlushes {
    instance: PathBuf,
}

impl EmptyFlushes {
    /// Counts from now on; `None` where this process may not trace.
    pub(super) fn of(disk: &str) -> Result<Option<Self>> {
        let name = format!("uext4-lab-{}-{disk}", std::process::id());
        let instance = Path::new(INSTANCES).join(name);
        if fs::create_dir(&instance).is_err() {
            return Ok(None);
        }
        // From here on it is removed again.
        let counter = Self { instance };
        let number = fs::read_to_string(format!("/sys/block/{disk}/dev"))?;
        let (major, minor) = number.trim().split_once(':').context("a device number")?;
        let number = major.parse::<u64>()? << MINOR_BITS | minor.parse::<u64>()?;
        let filter = format!("dev == {number} && nr_sector == 0");
        counter.set("filter", &filter)?;
        counter.set("enable", "1")?;
        Ok(Some(counter))
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.instance.join(EVENT).join(file);
        fs::write(&path, value).with_context(|| format!("write {}", path.display()))
    }

    /// The number so far: events in the buffers, and those that were overwritten.
    pub(super) fn count(&self) -> Result<u64> {
        let mut count = 0;
        for cpu in fs::read_dir(self.instance.join("per_cpu"))? {
            let stats = fs::read_to_string(cpu?.path().join("stats"))?;
            let fields = stats.lines().filter_map(|line| line.split_once(": "));
            let counted = fields.filter(|(name, _)| matches!(*name, "entries" | "overrun"));
            for (_, number) in counted {
                count += number.trim().parse::<u64>()?;
            }
        }
        Ok(count)
    }
}

impl Drop for EmptyFlushes {
    fn drop(&mut self) {
        let off = self.set("enable", "0");
        let removed = fs::remove_dir(&self.instance).context("remove the trace instance");
        if let Err(error) = off.and(removed) {
            eprintln!("uext4-lab: {error:#}");
        }
    }
}
