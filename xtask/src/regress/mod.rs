//! The speed of two builds of this repository: an older revision and the working tree.
//!
//! The builds take turns, and the order changes with each pair, so that a slow minute of the
//! machine does not count for one of them alone. Each row is a metric: the medians of both builds,
//! and the median, least and greatest ratio of the pairs. For rates a ratio below 1 is a loss.
//!
//! An experiment or a metric that the older revision lacks is named below the table; one that the
//! working tree lacks is an error.

mod build;
mod experiment;
mod table;

use std::path::Path;

use anyhow::{Context, Result, ensure};

pub use build::Build;
use experiment::Measured;
pub use experiment::{EXPERIMENTS, Experiment};
pub use table::Table;

/// The metrics of one run.
type Run = Vec<Measured>;

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
/// table: of the experiments named by `only`, or of all. `progress` is told each run before it
/// starts.
///
/// # Errors
/// A build or a run failed, except for the first run of the old build, or the new build lacks a
/// metric.
pub fn of_revision(
    root: &Path,
    old: &str,
    (pairs, only): (u32, &[String]),
    progress: &mut dyn FnMut(&str),
) -> Result<Table> {
    ensure!(pairs > 0, "--pairs 0 measures nothing");
    let experiments = Experiment::of_names(only)?;
    progress(&format!("building {old}"));
    let old = Build::of_revision(root, old)?;
    progress("building the working tree");
    let new = Build::of_tree(root)?;
    run(&Plan { old, new, pairs }, &experiments, progress)
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
    let mut experiments = experiments.to_vec();
    for pair in 0..plan.pairs {
        let mut compared = Vec::new();
        for experiment in experiments {
            progress(&format!(
                "pair {} of {}: {}",
                pair + 1,
                plan.pairs,
                experiment.name()
            ));
            match plan.pair(pair, experiment)? {
                (Ok(old), new) => {
                    table.add_pair(&old, &new)?;
                    compared.push(experiment);
                }
                (Err(lacking), _) if pair == 0 => table.leave_out(format!("{lacking:#}.")),
                (Err(failed), _) => return Err(failed),
            }
        }
        experiments = compared;
    }
    Ok(table)
}

impl Plan {
    /// One run of each build; the new one is first in every second pair.
    fn pair(&self, pair: u32, experiment: Experiment) -> Result<(Result<Run>, Run)> {
        let run = |build: &Build| {
            let found = experiment.run(build);
            found.with_context(|| format!("{} with {}", experiment.name(), build.name))
        };
        if pair.is_multiple_of(2) {
            let old = run(&self.old);
            Ok((old, run(&self.new)?))
        } else {
            let new = run(&self.new)?;
            Ok((run(&self.old), new))
        }
    }
}
