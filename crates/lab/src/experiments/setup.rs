//! Format and mount options of each variant.

use super::Experiment;
use super::apart::APART;
use crate::stage::Setup;
use crate::system::System;
use uext4::BaseLines;
use uext4_testkit::rings::RingsSwitch;

/// The setup of a variant for a system; `None` when the system does not support it.
pub(crate) fn setup(experiment: Experiment, variant: &str, system: System) -> Option<Setup> {
    match experiment {
        _ if variant == APART => (system == System::Uext4).then(Setup::default),
        Experiment::Fallocate2 | Experiment::ParallelWrite => allocators(variant, system),
        Experiment::StressOrphan => stress_orphan(variant, system),
        Experiment::Append if variant == "nodelalloc" => Some(mounted(variant)),
        Experiment::Mount | Experiment::MountTree if system == System::Uext4 => None,
        Experiment::Mount
        | Experiment::MountCreate
        | Experiment::MountIo
        | Experiment::MountNames
        | Experiment::MountTree => transport(variant, system),
        _ => Some(Setup::default()),
    }
}

/// Transport of requests to our mount; all other systems are peers.
fn transport(variant: &str, system: System) -> Option<Setup> {
    match (variant, system == System::Uext4Mount) {
        ("dev_fuse", true) => Some(mounted("no_io_uring")),
        ("io_uring", true) => RingsSwitch::is_available().then(|| mounted("io_uring")),
        ("peers", false) => Some(Setup::default()),
        _ => None,
    }
}

fn mounted(options: impl Into<String>) -> Setup {
    Setup {
        options: options.into(),
        ..Setup::default()
    }
}

/// The setup that selects an allocator by name; `None` when the system does not have it.
pub(crate) fn allocators(variant: &str, system: System) -> Option<Setup> {
    let blocking = BaseLines {
        blocking_groups: true,
        ..BaseLines::default()
    };
    match (variant, system) {
        ("default", _) => Some(Setup::default()),
        ("blocking", System::Uext4) => Some(Setup {
            base_lines: blocking,
            ..mounted("allocator=optimized")
        }),
        ("linear", System::KernelExt4) => Some(mounted("mb_optimize_scan=0")),
        ("optimized", System::KernelExt4) => Some(mounted("mb_optimize_scan=1")),
        (_, ours) if ours.is_ours() && variant != "blocking" => {
            Some(mounted(format!("allocator={variant}")))
        }
        _ => None,
    }
}

fn stress_orphan(variant: &str, system: System) -> Option<Setup> {
    let (features, untracked_orphans) = match (variant, system) {
        ("file", _) => ("orphan_file", false),
        ("list", _) => ("^orphan_file", false),
        ("none", ours) if ours.is_ours() => ("orphan_file", true),
        _ => return None,
    };
    let base_lines = BaseLines {
        untracked_orphans,
        ..BaseLines::default()
    };
    Some(Setup {
        features: features.to_owned(),
        base_lines,
        ..Setup::default()
    })
}
