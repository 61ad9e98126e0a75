//! What is simulated: the lab's experiments by the names of the command line.

use super::canary::CANARY;
use crate::experiments::{Experiment, Phase, Unit, setup};
use crate::stage::Setup;
use crate::system::System;
use anyhow::{Context, Result, bail};

const IMAGE_MIB: u64 = 65_536;

/// An experiment and its size.
#[derive(Clone, Copy)]
pub(super) struct Load {
    name: &'static str,
    pub(super) experiment: Experiment,
    variants: &'static [&'static str],
    /// Default of `--count`; 0: the phases are timed.
    pub(super) count: u64,
    /// Phases that are run before the timed ones; as many as mdtest has, and one that settles.
    pub(super) warm_ups: usize,
}

const ALL: [Load; 5] = [
    Load {
        name: "fallocate2",
        experiment: Experiment::Fallocate2,
        variants: &[
            "blocking",
            "goal-mutex",
            "linear",
            "optimized",
            "freespace-tree",
            CANARY,
        ],
        count: 0,
        warm_ups: 1,
    },
    Load {
        name: "mdtest",
        experiment: Experiment::Mdtest,
        variants: &[
            "own",
            "shared",
            "own-racing",
            "shared-racing",
            "own-before",
            "shared-before",
        ],
        count: 2000,
        warm_ups: 4,
    },
    Load {
        name: "stress-orphan",
        experiment: Experiment::StressOrphan,
        variants: &["none", "file", "list", "list-mutex"],
        count: 0,
        warm_ups: 1,
    },
    Load {
        name: "append",
        experiment: Experiment::Append,
        variants: &["default", "nodelalloc"],
        count: 512,
        warm_ups: 0,
    },
    Load {
        name: "fsync",
        experiment: Experiment::Fsync,
        variants: &["own"],
        count: 0,
        warm_ups: 0,
    },
];

impl Load {
    pub(super) fn of_name(name: &str) -> Result<Self> {
        let names: Vec<&str> = ALL.iter().map(|load| load.name).collect();
        let found = ALL.into_iter().find(|load| load.name == name);
        found.with_context(|| {
            let names = names.join(", ");
            format!("the experiments are {names}, shrinker, checkpoint")
        })
    }

    /// The requested variants, or all.
    pub(super) fn pick_variants(&self, wanted: &[String]) -> Result<Vec<&'static str>> {
        if wanted.is_empty() {
            return Ok(self.variants.to_vec());
        }
        wanted
            .iter()
            .map(|name| match self.variants.iter().find(|one| *one == name) {
                Some(one) => Ok(*one),
                None => bail!(
                    "{} has the variants {}",
                    self.name,
                    self.variants.join(", ")
                ),
            })
            .collect()
    }

    /// The variant whose operations were measured: the canary is the default, and more.
    pub(super) fn measured_variant(&self, variant: &'static str) -> &'static str {
        if variant == CANARY {
            "freespace-tree"
        } else {
            variant
        }
    }

    /// Default size of the file system. Workers of `fallocate2` are containers: document 000 has a
    /// disk of 480 GB for 64 of them.
    pub(super) fn image_mib(&self, workers: u32) -> u64 {
        match self.experiment {
            Experiment::Fallocate2 => IMAGE_MIB.max(7680 * u64::from(workers)),
            _ => IMAGE_MIB,
        }
    }

    /// Amount of one operation in this phase.
    pub(super) fn unit_of(&self, metric: &str) -> u64 {
        let phases = self.phases(1, 1);
        let unit = phases
            .iter()
            .find(|phase| phase.metric == metric)
            .map(|phase| phase.unit);
        match unit {
            Some(Unit::MegabytesPerSecond) => 4096,
            _ => 1,
        }
    }

    /// Format and mount options of a variant.
    pub(super) fn setup(&self, variant: &'static str) -> Result<Setup> {
        let variant = self.measured_variant(variant);
        setup(self.experiment, variant, System::Uext4).context("a variant of the library")
    }

    /// The phases that are rates.
    pub(super) fn phases(&self, count: u64, workers: u32) -> Vec<Phase> {
        let phases = self.experiment.phases(count, workers);
        phases
            .into_iter()
            .filter(|phase| phase.unit.is_rate())
            .collect()
    }
}
