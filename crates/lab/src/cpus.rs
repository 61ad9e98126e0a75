//! The CPUs of this process, and threads that stay on one of them.

use anyhow::Result;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that the calling thread may use, ascending.
pub(crate) fn cpus() -> Result<Vec<usize>> {
    let mine = sched_getaffinity(None)?;
    let all = 0..CpuSet::MAX_CPU;
    Ok(all.filter(|cpu| mine.is_set(*cpu)).collect())
}

/// The calling thread, and threads and processes that it starts, use this CPU alone.
pub(crate) fn stay_on(cpu: usize) -> Result<()> {
    let mut one = CpuSet::new();
    one.set(cpu);
    Ok(sched_setaffinity(None, &one)?)
}
