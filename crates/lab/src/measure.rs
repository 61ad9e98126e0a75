//! Runs a plan: systems take turns, each on a fresh file system on the same backing.

use crate::backing::Backing;
use crate::cleanup::Cleanup;
use crate::experiments::{Clock, Phase, Plan, Task, Unit, setup};
use crate::report::human;
use crate::stage::Stage;
use crate::system::{self, System};
use crate::workers::{self, Done};
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use std::borrow::Cow;

/// What identifies a metric among the results.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) experiment: &'static str,
    pub(crate) system: System,
    pub(crate) variant: Cow<'static, str>,
    pub(crate) workers: u32,
}

impl Key {
    /// Whether two keys are compared: they differ only in the system, or in the transport of a
    /// mount.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        let same = self.variant == other.variant;
        self.workers == other.workers
            && (same || is_transport(&self.variant) && is_transport(&other.variant))
    }
}

fn is_transport(variant: &str) -> bool {
    matches!(variant, "dev_fuse" | "io_uring" | "peers")
}

/// All samples of one metric.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) key: Key,
    pub(crate) metric: String,
    pub(crate) unit: Unit,
    /// One per run, ascending.
    pub(crate) samples: Vec<f64>,
}

impl Series {
    pub(crate) fn median(&self) -> f64 {
        let middle = self.samples.len() / 2;
        match self.samples.len() % 2 {
            1 => self.samples[middle],
            _ => (self.samples[middle - 1] + self.samples[middle]) / 2.0,
        }
    }

    /// Ratio of the median to that of `peer` at the same task; higher is better for these metrics.
    pub(crate) fn ratio(&self, results: &Results, peer: System) -> Option<f64> {
        let is_rate = matches!(self.unit, Unit::PerSecond | Unit::MegabytesPerSecond);
        let mut others = results.series.iter();
        let peer = others.find(|one| {
            one.key.system == peer
                && one.metric == self.metric
                && one.key.is_beside(&self.key)
                && one.median() > 0.0
        })?;
        (is_rate && self.key.system.is_ours()).then(|| self.median() / peer.median())
    }

    pub(crate) fn min(&self) -> f64 {
        self.samples.first().copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn max(&self) -> f64 {
        self.samples.last().copied().unwrap_or(f64::NAN)
    }
}

pub(crate) struct Results {
    pub(crate) series: Vec<Series>,
    /// Peers that could not run, with the reason.
    pub(crate) missing: Vec<(System, &'static str)>,
}

pub(crate) fn run(plan: &Plan) -> Result<Results> {
    let keys = keys(plan);
    ensure!(
        !keys.is_empty(),
        "nothing to run: no system of the list suits"
    );
    let mut cleanup = Cleanup::start()?;
    let backing = Backing::new(plan.image_mib, plan.journal_mib)?;
    cleanup.watch(backing.dir())?;
    let progress = progress(keys.len() as u64 * u64::from(plan.runs));
    let mut series: Vec<Vec<Series>> = keys.iter().map(|key| empty_series(plan, key)).collect();
    for _ in 0..plan.runs {
        for (key, series) in keys.iter().zip(&mut series) {
            let system = key.system.name();
            progress.set_message(format!("{system} {} x{}", key.variant, key.workers));
            let phases = one_run(plan, key, &backing, &mut cleanup)
                .with_context(|| format!("{system}, {}, {} workers", key.variant, key.workers))?;
            let mut words = Words::new(key);
            for (series, done) in series.iter_mut().zip(&phases) {
                let rate = rate(series.unit, plan.clock, done);
                words.add(&series.metric, rate, series.unit);
                series.samples.push(rate);
            }
            words.show(&progress);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let mut series: Vec<Series> = series.into_iter().flatten().collect();
    series
        .iter_mut()
        .for_each(|series| series.samples.sort_by(f64::total_cmp));
    let missing = system::missing(&plan.systems);
    Ok(Results { series, missing })
}

fn keys(plan: &Plan) -> Vec<Key> {
    let mut keys = Vec::new();
    for &variant in &plan.variants {
        for &workers in &plan.workers {
            for &system in &plan.systems {
                let suits = setup(plan.experiment, variant, system).is_some();
                if suits && workers > 0 && system.missing().is_none() {
                    let experiment = plan.experiment.name();
                    keys.push(Key {
                        experiment,
                        system,
                        variant: variant.into(),
                        workers,
                    });
                }
            }
        }
    }
    keys
}

fn empty_series(plan: &Plan, key: &Key) -> Vec<Series> {
    let phases = plan.experiment.phases(plan.count, key.workers);
    phases
        .into_iter()
        .map(|Phase { metric, unit }| Series {
            key: key.clone(),
            metric,
            unit,
            samples: Vec::new(),
        })
        .collect()
}

fn one_run(
    plan: &Plan,
    key: &Key,
    backing: &Backing,
    cleanup: &mut Cleanup,
) -> Result<Vec<Vec<Done>>> {
    let mut setup = setup(plan.experiment, &key.variant, key.system).unwrap_or_default();
    add_words(
        &mut setup.options,
        &of_system(key.system, &plan.mount_options),
    );
    add_words(&mut setup.features, &plan.features);
    let stage = Stage::prepare(key.system, backing, &setup, cleanup)?;
    let tasks: Vec<Task> = (0..key.workers)
        .map(|worker| Task::new(plan, &key.variant, worker, key.workers))
        .collect();
    let answers = workers::work(&stage.access(), &tasks);
    let torn_down = stage.tear_down();
    let answers = answers?;
    torn_down?;
    Ok(answers)
}

/// The mount options of uext4 that apply to this system: the library has no transport options.
pub(crate) fn of_system(system: System, options: &str) -> String {
    let known: Vec<&str> = options
        .split(',')
        .filter(|word| match system {
            System::Uext4 => !matches!(*word, "io_uring" | "no_io_uring"),
            _ => system.is_ours(),
        })
        .collect();
    known.join(",")
}

fn add_words(list: &mut String, words: &str) {
    if !list.is_empty() && !words.is_empty() {
        list.push(',');
    }
    list.push_str(words);
}

/// Total amount per second; for means, the average over the workers.
fn rate(unit: Unit, clock: Clock, done: &[Done]) -> f64 {
    let amount: u64 = done.iter().map(|one| one.amount).sum();
    let time = workers::taken(clock, done);
    let per_second = amount as f64 / time.as_secs_f64().max(1e-9);
    match unit {
        Unit::MegabytesPerSecond => per_second / 1e6,
        Unit::Mean | Unit::MeanKibibytes => amount as f64 / done.len().max(1) as f64,
        _ => per_second,
    }
}

/// The numbers of one run of a row, which are shown as soon as they are measured.
pub(crate) struct Words(String);

impl Words {
    pub(crate) fn new(key: &Key) -> Self {
        let system = key.system.name();
        Self(format!(
            "{} {} x{}, {system}:",
            key.experiment, key.variant, key.workers
        ))
    }

    pub(crate) fn add(&mut self, metric: &str, value: f64, unit: Unit) {
        let value = human(value);
        self.0 += &format!(" {metric} {value} {};", unit.name());
    }

    /// Shows them above the progress bar, or on the standard error where it is hidden.
    pub(crate) fn show(&self, bar: &ProgressBar) {
        if bar.is_hidden() {
            eprintln!("{}", self.0)
        } else {
            bar.println(&self.0)
        }
    }
}

/// A progress bar on a terminal; hidden in a pipe.
pub(crate) fn progress(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} ({eta} left)");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
