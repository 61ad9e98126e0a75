//! The speed of two builds of this repository: an older revision and the working tree.
//!
//! The builds take turns, and the order changes with each pair, so that a slow minute of the
//! machine does not count for one of them alone. Each row is a metric: the medians of both builds,
//! and the median, least and greatest ratio of the pairs. For rates a ratio below 1 is a loss.

mod build;
mod experiment;
mod table;

use std::path::Path;

use anyhow::{Context, Result, ensure};

pub use build::Build;
pub use experiment::{EXPERIMENTS, Experiment};
pub use table::Table;

/// What is compared.
#[derive(Debug)]
pub struct Plan {
    /// The older build.
    pub old: Build,
    /// The build of the working tree.
    pub new: Build,
    /// Runs of each build.
    pub pairs: u32,
}

/// Builds the revision `old` and the working tree below `root`, compares them, and returns the
/// table. `progress` is told each run before it starts.
///
/// # Errors
/// A build or a run failed, or a metric is missing in one of the builds.
pub fn of_revision(
    root: &Path,
    old: &str,
    pairs: u32,
    progress: &mut dyn FnMut(&str),
) -> Result<Table> {
    ensure!(pairs > 0, "--pairs 0 measures nothing");
    progress(&format!("building {old}"));
    let old = Build::of_revision(root, old)?;
    progress("building the working tree");
    let new = Build::of_tree(root)?;
    run(&Plan { old, new, pairs }, EXPERIMENTS, progress)
}

/// Runs the experiments on both builds in turns.
///
/// # Errors
/// As [`of_revision`].
pub fn run(
    plan: &Plan,
    experiments: &[Experiment],
    progress: &mut dyn FnMut(&str),
) -> Result<Table> {
    let mut table = Table::default();
    for pair in 0..plan.pairs {
        for experiment in experiments {
            progress(&format!(
                "pair {} of {}: {}",
                pair + 1,
                plan.pairs,
                experiment.name()
            ));
            let measured = |build: &Build| {
                let found = experiment.run(build);
                found.with_context(|| format!("{} with {}", experiment.name(), build.name))
            };
            let (old, new) = if pair % 2 == 0 {
                let old = measured(&plan.old)?;
                (old, measured(&plan.new)?)
            } else {
                let new = measured(&plan.new)?;
                (measured(&plan.old)?, new)
            };
            table.add_pair(&old, &new)?;
        }
    }
    Ok(table)
}
