//! How a variant makes and mounts a file system.

use super::Experiment;
use crate::stage::Setup;
use crate::system::System;
use uext4::BaseLines;

/// What the variant of an experiment means for a system; `None` when it has no such thing.
pub(crate) fn setup(experiment: Experiment, variant: &str, system: System) -> Option<Setup> {
    match experiment {
        Experiment::Fallocate2 => fallocate2(variant, system),
        Experiment::StressOrphan => stress_orphan(variant, system),
        Experiment::Append if variant == "nodelalloc" => Some(mounted(variant)),
        _ => Some(Setup::default()),
    }
}

fn mounted(options: impl Into<String>) -> Setup {
    Setup {
        options: options.into(),
        ..Setup::default()
    }
}

fn fallocate2(variant: &str, system: System) -> Option<Setup> {
    let blocking = BaseLines {
        blocking_groups: true,
        ..BaseLines::default()
    };
    match (variant, system) {
        ("default", _) => Some(Setup::default()),
        ("blocking", System::Uext4) => Some(Setup {
            base_lines: blocking,
            ..Setup::default()
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
        ("none", System::Uext4) => ("orphan_file", true),
        _ => return None,
    };
    let base_lines = BaseLines {
        untracked_orphans,
        ..BaseLines::default()
    };
    Some(Setup {
        features,
        base_lines,
        ..Setup::default()
    })
}
