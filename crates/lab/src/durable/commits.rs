//! Counters of the journals: of the library, of our server, and of the kernel.
//!
//! References: `uext4 stats --json`; `/proc/fs/jbd2/DISK-8/info`; `/proc/fs/ext4/DISK/fc_info`.

use super::Feature;
use crate::collection::Sample;
use crate::experiments::Unit;
use crate::stage::{Stage, WorkerAccess};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;
use uext4_fuse::{Ask, Client};
use uext4_testkit::wait;

/// Time for a server to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Numbers of commits since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Commits {
    full: u64,
    /// With the feature, from an engine that counts them.
    fast: Option<Fast>,
}

/// Fast commits since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fast {
    commits: u64,
    blocks: u64,
    /// Those of one block; the kernel does not tell.
    of_one_block: Option<u64>,
}

/// The server of a mount. It makes its control socket after the mount, so the first try may be too
/// early.
fn server(root: &Path) -> Result<Client> {
    match wait::within(PATIENCE, || Client::connect(root).ok()) {
        Some(client) => Ok(client),
        None => Ok(Client::connect(root)?),
    }
}

impl Commits {
    /// The counters of a mounted file system on `disk`.
    pub(super) fn of(stage: &Stage, disk: &str, feature: Feature) -> Result<Self> {
        let counters = match (stage, stage.access()) {
            (Stage::Kernel(_), _) => of_kernel(disk, feature),
            (_, WorkerAccess::Library(filesystem)) => {
                of_stats(&serde_json::to_value(filesystem.stats())?)
            }
            (_, WorkerAccess::Directory(root)) => of_stats(&server(&root)?.ask(&Ask::Stats {})?),
        }?;
        Ok(match feature {
            Feature::Fast => counters,
            Feature::Full => Self {
                fast: None,
                ..counters
            },
        })
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        let fast = self.fast.zip(before.fast).map(|(now, before)| Fast {
            commits: now.commits - before.commits,
            blocks: now.blocks - before.blocks,
            of_one_block: now
                .of_one_block
                .zip(before.of_one_block)
                .map(|(a, b)| a - b),
        });
        Self {
            full: self.full - before.full,
            fast,
        }
    }

    pub(super) fn samples(&self) -> Vec<Sample> {
        let count = |name: &str, value: u64| Sample::new(name, Unit::Count, value as f64);
        let mut samples = vec![count("full commits", self.full)];
        let Some(fast) = self.fast else {
            return samples;
        };
        samples.push(count("fast commits", fast.commits));
        let commits = fast.commits.max(1) as f64;
        let blocks = fast.blocks as f64 / commits;
        samples.push(Sample::new("blocks per fast commit", Unit::Count, blocks));
        samples.extend(fast.of_one_block.map(|ones| {
            let percent = ones as f64 / commits * 100.0;
            Sample::new("of one block", Unit::Percent, percent)
        }));
        samples
    }
}

/// From the statistics of our engine, which may be older than its fast commits.
fn of_stats(stats: &Value) -> Result<Commits> {
    let fast = &stats["fast_commits"];
    let number = |name: &str| fast[name].as_u64();
    let fast = number("commits").map(|commits| Fast {
        commits,
        blocks: number("blocks").unwrap_or(0),
        of_one_block: number("of_one_block"),
    });
    let full = stats["journal"]["transactions"].as_u64();
    Ok(Commits {
        full: full.context("the statistics have no journal")?,
        fast,
    })
}

fn of_kernel(disk: &str, feature: Feature) -> Result<Commits> {
    let info = read(format!("/proc/fs/jbd2/{disk}-8/info"))?;
    let fast = match feature {
        Feature::Full => None,
        Feature::Fast => Some(fast_of_kernel(&read(format!(
            "/proc/fs/ext4/{disk}/fc_info"
        ))?)?),
    };
    Ok(Commits {
        full: before_word(&info, "transactions")?,
        fast,
    })
}

fn read(path: String) -> Result<String> {
    fs::read_to_string(&path).with_context(|| format!("read {path}"))
}

fn fast_of_kernel(info: &str) -> Result<Fast> {
    Ok(Fast {
        commits: before_word(info, "commits")?,
        blocks: before_word(info, "numblks")?,
        of_one_block: None,
    })
}

/// The number of a line `NUMBER WORD ...`.
fn before_word(text: &str, word: &str) -> Result<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    let number = lines.find_map(|mut line| {
        let number = line.next()?.parse().ok()?;
        (line.next() == Some(word)).then_some(number)
    });
    number.with_context(|| format!("no `{word}`: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_is_read() {
        let info = "fc stats:\n12 commits\n3 ineligible\n17 numblks\n60us avg_commit_time\n\
            Ineligible reasons:\n\"Extended attributes changed\":\t0\n";
        let fast = fast_of_kernel(info).unwrap();
        assert_eq!(
            (fast.commits, fast.blocks, fast.of_one_block),
            (12, 17, None)
        );
        let info =
            "9 transactions (4 requested), each up to 8192 blocks\naverage:\n  0ms waiting\n";
        assert_eq!(before_word(info, "transactions").unwrap(), 9);
        assert!(before_word(info, "commits").is_err());
    }

    #[test]
    fn fast_commits_of_our_engine_are_told_where_it_counts_them() {
        let old = of_stats(&serde_json::json!({"journal": {"transactions": 4}})).unwrap();
        assert_eq!((old.full, old.fast), (4, None));
        let new = serde_json::json!({
            "journal": { "transactions": 5 },
            "fast_commits": { "commits": 10, "blocks": 12, "of_one_block": 8 },
        });
        let samples = of_stats(&new).unwrap().since(&Commits {
            full: 4,
            fast: Some(Fast {
                of_one_block: Some(0),
                ..Fast::default()
            }),
        });
        let values: Vec<f64> = samples.samples().iter().map(|one| one.value).collect();
        assert_eq!(values, [1.0, 10.0, 1.2, 80.0]);
    }
}
