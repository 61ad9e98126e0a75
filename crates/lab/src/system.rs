//! The compared systems.

use uext4_testkit::oracle::{self, KernelMount};

/// One implementation of ext4, with its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum System {
    /// The library, in this process.
    Uext4,
    /// Our FUSE mount.
    Uext4Mount,
    /// The kernel's ext4 on a loop device.
    KernelExt4,
    /// fuse2fs of e2fsprogs.
    Fuse2fs,
}

impl System {
    /// Its name in tables and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uext4 => "uext4",
            Self::Uext4Mount => "uext4-mount",
            Self::KernelExt4 => "kernel-ext4",
            Self::Fuse2fs => "fuse2fs",
        }
    }

    /// True when the code of this project is measured.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Self::Uext4 | Self::Uext4Mount)
    }

    /// Missing prerequisites to run it here; `None` when it can run.
    pub(crate) fn missing(self) -> Option<&'static str> {
        let fuse = || std::path::Path::new("/dev/fuse").exists();
        match self {
            Self::Uext4 => None,
            Self::Uext4Mount => (!fuse()).then_some("no /dev/fuse"),
            Self::KernelExt4 => {
                (!KernelMount::is_available()).then_some("needs root and loop devices")
            }
            Self::Fuse2fs if !oracle::has_fuse2fs() => Some("fuse2fs is not installed"),
            Self::Fuse2fs => (!fuse()).then_some("no /dev/fuse"),
        }
    }
}

/// The systems that cannot run here, with the reason.
pub(crate) fn missing(systems: &[System]) -> Vec<(System, &'static str)> {
    systems
        .iter()
        .filter_map(|system| system.missing().map(|why| (*system, why)))
        .collect()
}

/// The systems that can run here.
pub(crate) fn present(systems: &[System]) -> impl Iterator<Item = System> + Clone {
    systems
        .iter()
        .copied()
        .filter(|system| system.missing().is_none())
}
