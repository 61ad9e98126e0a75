//! Canary of `fallocate2`: all workers share a counter, which must show as lost scaling and as a
//! hot line.

use crate::experiments::{Clock, Task, Work};
use crate::workers::now;
use anyhow::Result;
use std::sync::Arc;
use std::time::Duration;
use uext4::{Caller, FallocateMode, Filesystem, InodeRef, WriteContext};
use uext4_sync::CachePadded;
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(super) const CANARY: &str = "canary";

const STEP_BYTES: u64 = 8192;
const STEPS: u64 = 128;

/// Operations of all workers of all runs.
static OPERATIONS: CachePadded<AtomicU64> = CachePadded::new(AtomicU64::new(0));

struct Canary {
    filesystem: Arc<Filesystem>,
    file: InodeRef,
    time: Duration,
}

/// The worker of `fallocate2`, with a counter of operations.
pub(super) fn start(filesystem: &Arc<Filesystem>, task: &Task) -> Result<Box<dyn Work>> {
    let (root, caller) = (filesystem.root()?, Caller::root());
    let name = format!("fallocate2.{}", task.worker);
    let file = filesystem.create(&root, name.as_bytes(), 0o644, &caller)?;
    filesystem.unlink(&root, name.as_bytes(), &caller)?;
    Ok(Box::new(Canary {
        filesystem: filesystem.clone(),
        file,
        time: Duration::from_secs_f64(task.seconds),
    }))
}

impl Work for Canary {
    fn phase(&mut self, _index: usize) -> Result<u64> {
        let end = now(Clock::Wall) + self.time;
        let mut done = 0;
        while now(Clock::Wall) < end {
            for step in 0..STEPS {
                OPERATIONS.fetch_add(1, Relaxed);
                let bytes = step * STEP_BYTES..(step + 1) * STEP_BYTES;
                let (mode, context) = (FallocateMode::Allocate, &WriteContext::ROOT);
                self.filesystem
                    .fallocate(&self.file, mode, bytes, context)?;
            }
            self.filesystem.truncate(&self.file, 0)?;
            done += STEPS;
        }
        Ok(done)
    }
}
