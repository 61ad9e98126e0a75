//! Earlier behaviour of buddy groups, for the feature `experiments`. Without it no engine has a
//! baseline, which the compiler knows.

/// What searches do as those of older kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(any(test, feature = "experiments")), expect(unreachable_pub))]
pub struct BuddyBaseLines {
    /// They wait for the lock of every group that they examine, and begin at one goal behind a
    /// mutex.
    pub waits: bool,
    /// Each reads the one goal behind its mutex, and stores its group there.
    pub locked_goal: bool,
    /// They load the bitmap of every group that may serve, at each criterion; none is surveyed.
    pub loads_all: bool,
}

impl BuddyBaseLines {
    /// Whether all threads share one goal.
    pub(crate) fn have_one_goal(self) -> bool {
        self.waits || self.locked_goal
    }
}
