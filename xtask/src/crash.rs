//! `cargo xtask crash`: runs the crash suite over many seeds.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use uext4_judge::crash::{
    Case, Config, Effort, Figures, Plot, Run, run_case, run_suite, run_threads,
};

/// What to crash, and how often.
#[derive(Args)]
pub(super) struct Options {
    /// Seeds of each kind of file system.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// First seed.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Recorded steps of a run.
    #[arg(long, default_value_t = 100)]
    ops: usize,
    /// One kind of file system; all of them by default.
    #[arg(long, value_parser = PossibleValuesParser::new(Config::names()))]
    config: Option<String>,
    /// How many images the slow judges see.
    #[arg(long, value_enum, default_value = "sample")]
    judges: Judges,
    /// Written workloads in place of drawn ones: operations of several transactions, a full orphan
    /// file, a deep index, special files.
    #[arg(long)]
    plots: bool,
    /// One of these workloads.
    #[arg(long, value_parser = PossibleValuesParser::new(Plot::ALL.map(Plot::name)))]
    plot: Option<String>,
    /// Four threads and background commits in place of one thread; so many crashes of each run.
    #[arg(long, conflicts_with_all = ["plots", "plot", "ops"])]
    threads: Option<u64>,
    /// Go on after a failure.
    #[arg(long)]
    keep_going: bool,
    /// Repeat one crash, as a failure named it.
    #[arg(long, conflicts_with_all = ["seeds", "first", "ops", "config"])]
    case: Option<String>,
}

/// Judges of the crash images.
#[derive(Clone, Copy, ValueEnum)]
enum Judges {
    /// Our own recovery only.
    Ours,
    /// Our own and the kernel's.
    Kernel,
    /// All, on a sample.
    Sample,
    /// All, on every image.
    Full,
}

impl Judges {
    fn effort(self) -> Effort {
        match self {
            Self::Ours => Effort::OURS,
            Self::Kernel => Effort {
                check: 1,
                kernel: 1,
                ..Effort::OURS
            },
            Self::Sample => Effort::SAMPLE,
            Self::Full => Effort::FULL,
        }
    }
}

impl Options {
    fn runs(&self, config: Config, seed: u64) -> Vec<Run> {
        if let Some(plot) = self.plot.as_deref().and_then(Plot::named) {
            return vec![Run::of_plot(config, plot, seed)];
        }
        if !self.plots {
            return vec![Run::of(config, seed, self.ops)];
        }
        let plots = Plot::ALL.into_iter().filter(|plot| plot.fits(&config));
        plots.map(|plot| Run::of_plot(config, plot, seed)).collect()
    }

    /// All runs of one seed, in sequence.
    fn crash(&self, config: Config, seed: u64) -> Box<dyn Iterator<Item = Result<Figures>> + '_> {
        if let Some(crashes) = self.threads {
            return Box::new(std::iter::once_with(move || threads(config, seed, crashes)));
        }
        let runs = self.runs(config, seed).into_iter();
        Box::new(runs.map(|run| run_suite(run, &self.judges.effort())))
    }
}

fn threads(config: Config, seed: u64, crashes: u64) -> Result<Figures> {
    let done = run_threads(config, seed, crashes)?;
    Ok(Figures {
        cuts: done.images,
        images: done.images,
        checked: done.images,
        ..Figures::default()
    })
}

pub(super) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(text) = &options.case {
        let case: Case = text.parse()?;
        println!("{case}: {}", run_case(case)?);
        return Ok(ExitCode::SUCCESS);
    }
    let configs = match &options.config {
        None => Config::ALL.to_vec(),
        Some(name) => {
            vec![Config::named(name).context("a kind that the parser let pass")?]
        }
    };
    let start = Instant::now();
    let (mut total, mut failures) = (Figures::default(), 0);
    for seed in options.first..options.first + options.seeds {
        for config in &configs {
            for figures in options.crash(*config, seed) {
                match figures {
                    Ok(figures) => total += figures,
                    Err(error) if options.keep_going => {
                        failures += 1;
                        println!("FAILED {error:#}\n");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        println!("seed {seed}, {} s: {total}", start.elapsed().as_secs());
    }
    println!("{failures} runs failed");
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
