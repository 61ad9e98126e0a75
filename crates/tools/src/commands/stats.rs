//! `uext4 stats`: counters and gauges of a running mount.

mod metrics;
mod prometheus;
mod text;

use crate::failure::Result;
use crate::show;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use uext4_fuse::Ask;
use uext4_num::low_u32;

/// Groups that one request to the server asks for.
const GROUPS_AT_ONCE: u32 = 4096;

/// Show statistics of a mount
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 stats /mnt/data
  uext4 stats /mnt/data --json | jq .journal.transactions
  uext4 stats /mnt/data --watch 5          every five seconds, with the changes
  uext4 stats /mnt/data --groups           free space of each group, as in mb_groups
  uext4 stats /mnt/data --prometheus > /var/lib/node_exporter/uext4.prom

See docs/statistics.md for the meaning of each number.")]
pub(crate) struct Args {
    /// Mount point, or control socket of the mount
    #[arg(value_name = "DIR|SOCKET")]
    target: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print in the Prometheus text format
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
    /// Show the free space of each block group instead
    #[arg(long, conflicts_with = "prometheus")]
    groups: bool,
    /// Repeat every SECONDS (1 to 86400; without a value 1), until Ctrl-C
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=86400),
        conflicts_with_all = ["prometheus", "groups"],
    )]
    watch: Option<u32>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let ask = |ask: &Ask| super::control::ask(&self.target, ask);
        if self.groups {
            return self.groups(ask);
        }
        let stats = ask(&Ask::Stats {})?;
        let mut out = show::stdout();
        match self.watch {
            None if self.json => show::json(&mut out, &stats)?,
            None if self.prometheus => prometheus::write(&mut out, &stats)?,
            None => text::write(&mut out, &stats)?,
            Some(seconds) => return self.again(stats, seconds),
        }
        Ok(out.flush()?)
    }

    /// Prints `stats` and then a new snapshot every `seconds`. Each is one line in JSON.
    fn again(&self, mut stats: Value, seconds: u32) -> Result<()> {
        let mut before = Value::Null;
        loop {
            let mut out = show::stdout();
            if self.json {
                writeln!(out, "{stats}")?;
            } else {
                text::write_added(&mut out, &before, &stats)?;
            }
            out.flush()?;
            drop(out);
            uext4_sync::thread::sleep(Duration::from_secs(seconds.into()));
            before = stats;
            // The server closes connections that are silent for ten seconds, so each request
            // connects again.
            stats = super::control::ask(&self.target, &Ask::Stats {})?;
        }
    }

    fn groups(&self, ask: impl Fn(&Ask) -> Result<Value>) -> Result<()> {
        let (mut out, mut from) = (show::stdout(), 0);
        let mut all = Vec::new();
        loop {
            let count = GROUPS_AT_ONCE;
            let answer = ask(&Ask::Groups { from, count })?;
            let rows = answer.as_array().cloned().unwrap_or_default();
            let Some(last) = rows.last() else { break };
            // The server's number of a group.
            from = low_u32(last["group"].as_u64().unwrap_or(0)) + 1;
            if self.json {
                all.extend(rows)
            } else {
                text::write_groups(&mut out, &rows)?
            }
        }
        if self.json {
            show::json(&mut out, &all)?;
        }
        Ok(out.flush()?)
    }
}
