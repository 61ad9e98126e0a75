//! Sampling rates of a suite, and counters of its results.

use std::fmt;

/// Sampling rates, as one in n. Every image is recovered by us; the other checks take samples.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Cuts of the recording that become images.
    pub cut: u64,
    /// `e2fsck -fn` after our recovery.
    pub check: u64,
    /// `e2fsck -p` in place of our recovery.
    pub e2fsck: u64,
    /// The kernel in place of our recovery.
    pub kernel: u64,
    /// A second crash during our recovery.
    pub twice: u64,
}

impl Effort {
    /// Every cut and every image with each recovery; a second crash on 1 in 40.
    pub const FULL: Effort = Effort {
        cut: 1,
        check: 1,
        e2fsck: 1,
        kernel: 1,
        twice: 40,
    };
    /// Every cut, with samples for the slow checks, as in `make test`.
    pub const SAMPLE: Effort = Effort {
        cut: 1,
        check: 4,
        e2fsck: 5,
        kernel: 5,
        twice: 150,
    };
    /// A sample of the cuts of a long run.
    pub const PLOT: Effort = Effort {
        cut: 7,
        check: 5,
        e2fsck: 8,
        kernel: 8,
        twice: u64::MAX,
    };
    /// Our own recovery only.
    pub const OURS: Effort = Effort {
        cut: 1,
        check: u64::MAX,
        e2fsck: u64::MAX,
        kernel: u64::MAX,
        twice: u64::MAX,
    };
}

/// What was checked, and how it came out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Moments of a recording at which it was cut.
    pub cuts: u64,
    /// Images recovered by us.
    pub images: u64,
    /// Of these, images that `e2fsck -fn` called clean.
    pub checked: u64,
    /// Images that `e2fsck -p` recovered to the same tree.
    pub by_e2fsck: u64,
    /// Images that the kernel recovered to the same tree.
    pub by_kernel: u64,
    /// Images of a second crash.
    pub twice: u64,
    /// Cuts in the middle of an operation after one of its transactions has ended.
    pub inside: u64,
    /// Images with an older state than the last step begun.
    pub older: u64,
    /// Fast commits that the workloads made.
    pub fast_commits: u64,
    /// Images whose log e2fsck refused wrongly.
    pub refused: u64,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.images += other.images;
        self.checked += other.checked;
        self.by_e2fsck += other.by_e2fsck;
        self.by_kernel += other.by_kernel;
        self.twice += other.twice;
        self.older += other.older;
        self.inside += other.inside;
        self.fast_commits += other.fast_commits;
        self.refused += other.refused;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cuts,
            images,
            checked,
            by_e2fsck,
            by_kernel,
            twice,
            older,
            inside,
            fast_commits,
            refused,
        } = self;
        write!(
            f,
            "{cuts} cuts, {images} images recovered ({older} to an older state), {checked} \
             checked, {by_e2fsck} also by e2fsck -p, {by_kernel} also by the kernel, {twice} \
             crashed again, {inside} cuts after a commit inside an operation, {fast_commits} \
             fast commits, {refused} logs refused by e2fsck"
        )
    }
}
