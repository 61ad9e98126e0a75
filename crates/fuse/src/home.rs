//! The core that a thread is pinned to.

use rustix::thread::{CpuSet, sched_setaffinity};

/// A core that threads are pinned to, or none.
#[derive(Clone, Default)]
pub(crate) struct Home(Option<CpuSet>);

impl Home {
    /// The core `cpu`; `None` leaves threads where they are.
    pub(crate) fn new(cpu: Option<usize>) -> Self {
        Self(cpu.map(|cpu| {
            let mut set = CpuSet::new();
            set.set(cpu);
            set
        }))
    }

    /// Whether there is a core.
    pub(crate) fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// Pins the calling thread to the core. A failure only costs locality.
    pub(crate) fn stay(&self) {
        if let Some(home) = &self.0 {
            let _ = sched_setaffinity(None, home);
        }
    }
}
