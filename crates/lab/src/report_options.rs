//! The command lines of `report` and `validate`.

use crate::page::{self, Depth, Plan};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct ReportOptions {
    /// Few and short runs: five minutes on two cores. This is the default.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// More runs, more cores, and rows that take minutes each.
    #[arg(long)]
    full: bool,
    /// Directory of the results.
    #[arg(long)]
    out: PathBuf,
    /// This program as `make simulate` builds it; without it, nothing is simulated.
    #[arg(long)]
    simulator: Option<PathBuf>,
    /// Write the page of an earlier record.json, without measurements.
    #[arg(long)]
    record: Option<PathBuf>,
}

impl ReportOptions {
    pub(crate) fn run(self) -> Result<()> {
        page::run(&Plan {
            depth: if self.full && !self.quick {
                Depth::Full
            } else {
                Depth::Quick
            },
            out: self.out,
            simulator: self.simulator,
            record: self.record,
        })
    }
}

#[derive(Args)]
pub(crate) struct ValidateOptions {
    /// This program as `make simulate` builds it.
    #[arg(long)]
    pub(crate) simulator: PathBuf,
    /// Runs of each number of workers, in turn; medians count.
    #[arg(long, default_value_t = 7)]
    pub(crate) runs: u32,
}
