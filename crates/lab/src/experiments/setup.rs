//! Format and mount options of each variant.

use super::apart::APART;
use super::mdtest;
use super::task::Experiment;
use crate::base_lines::of_names;
use crate::stage::Setup;
use crate::system::System;
use uext4_testkit::rings::RingsSwitch;

/// The setup of a variant for a system; `None` when the system does not support it.
pub(crate) fn setup(experiment: Experiment, variant: &str, system: System) -> Option<Setup> {
    match experiment {
        _ if variant == APART => (system == System::Uext4).then(Setup::default),
        Experiment::Fallocate2 | Experiment::ParallelWrite => allocators(variant, system),
        Experiment::Mdtest => mdtest(variant, system),
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
    match (variant, system) {
        ("default", _) => Some(Setup::default()),
        ("blocking", System::Uext4) => Some(Setup {
            base_lines: of_names(&["blocking_groups"]),
            ..mounted("allocator=optimized")
        }),
        ("goal-mutex", System::Uext4) => Some(Setup {
            base_lines: of_names(&["locked_goal"]),
            ..mounted("allocator=linear")
        }),
        ("linear", System::KernelExt4) => Some(mounted("mb_optimize_scan=0")),
        ("optimized", System::KernelExt4) => Some(mounted("mb_optimize_scan=1")),
        (_, ours) if ours.is_ours() && !matches!(variant, "blocking" | "goal-mutex") => {
            Some(mounted(format!("allocator={variant}")))
        }
        _ => None,
    }
}

fn mdtest(variant: &str, system: System) -> Option<Setup> {
    let (features, names): (&str, &[&str]) = match variant.split_once('-') {
        None => return Some(Setup::default()),
        Some((_, "racing")) => ("", &["racing_inodes"]),
        Some(_) => ("^orphan_file", &mdtest::BEFORE),
    };
    (system == System::Uext4).then(|| Setup {
        features: features.to_owned(),
        base_lines: of_names(names),
        ..Setup::default()
    })
}

fn stress_orphan(variant: &str, system: System) -> Option<Setup> {
    let (features, names): (&str, &[&str]) = match (variant, system) {
        ("file", _) => ("orphan_file", &[]),
        ("list", _) => ("^orphan_file", &[]),
        ("list-mutex", ours) if ours.is_ours() => ("^orphan_file", &["locked_orphans"]),
        ("none", ours) if ours.is_ours() => ("orphan_file", &["untracked_orphans"]),
        _ => return None,
    };
    Some(Setup {
        features: features.to_owned(),
        base_lines: of_names(names),
        ..Setup::default()
    })
}
