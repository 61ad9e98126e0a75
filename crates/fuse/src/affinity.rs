//! CPU affinity of threads: pinned to one core, or none.

use rustix::thread::{CpuSet, sched_setaffinity};

/// A core that threads are pinned to, or none.
#[derive(Clone, Default)]
pub(crate) struct Affinity(Option<CpuSet>);

impl Affinity {
    /// To the core `cpu`; `None` leaves threads where they are.
    pub(crate) fn to(cpu: Option<usize>) -> Self {
        Self(cpu.map(|cpu| {
            let mut set = CpuSet::new();
            set.set(cpu);
            set
        }))
    }

    /// Whether there is a core.
    pub(crate) fn is_pinned(&self) -> bool {
        self.0.is_some()
    }

    /// Pins the calling thread to the core. A failure only costs locality.
    pub(crate) fn apply(&self) {
        if let Some(core) = &self.0 {
            let _ = sched_setaffinity(None, core);
        }
    }
}
