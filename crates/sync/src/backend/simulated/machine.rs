//! The machine that is simulated: its cores and what they pay. All times are in picoseconds.

/// Parameters of a machine. Cores beyond its own are further sockets of the same kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name of the machine, for reports only.
    pub name: String,
    /// Number of cores that share a socket.
    pub cores_per_socket: usize,
    /// Bytes that move between cores together; a power of two.
    pub line_bytes: usize,
    /// A load or store of a line that the core has.
    pub hit_ps: u64,
    /// A read-modify-write of a line that the core has alone.
    pub rmw_ps: u64,
    /// Transfer of a line from a core of the same socket.
    pub near_ps: u64,
    /// Transfer of a line from a core of another socket.
    pub far_ps: u64,
    /// Time that a thread spins for a lock before it blocks.
    pub spin_ps: u64,
    /// CPU time of blocking.
    pub block_ps: u64,
    /// CPU time of waking a blocked thread.
    pub wake_ps: u64,
    /// Time from the wake-up until the woken thread runs on an idle core.
    pub wake_latency_ps: u64,
    /// Switch of a core to another thread.
    pub switch_ps: u64,
    /// Time that a thread keeps its core while others are ready.
    pub slice_ps: u64,
}

impl Machine {
    /// Cost of a transfer between two cores.
    pub(super) fn transfer_ps(&self, from: usize, to: usize) -> u64 {
        if from / self.cores_per_socket == to / self.cores_per_socket {
            self.near_ps
        } else {
            self.far_ps
        }
    }
}
