//! Random numbers of the system, for keys of hashes and for seeds.

use std::hash::{BuildHasher, RandomState};

/// A random number; in a simulation always the same, so that runs repeat.
pub fn entropy() -> u64 {
    #[cfg(simulated)]
    if crate::simulation::is_running() {
        return 0x5a5a_a5a5_1234_5678;
    }
    RandomState::new().hash_one(())
}
