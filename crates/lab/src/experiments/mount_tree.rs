//! A tree of real files: copied into the mount, walked and removed by the system's own programs.

use super::phase::{Phase, Unit, Work};
use super::task::Task;
use crate::client::Client;
use anyhow::{Context, Result};
use std::path::PathBuf;
use uext4_testkit::oracle::Program;

/// Thousands of small files, present on every machine with a compiler.
const SOURCE: &str = "/usr/include";
/// Hundreds of them, for many workers.
const PART_OF_SOURCE: &str = "/usr/include/linux";

pub(super) fn phases() -> Vec<Phase> {
    ["cp -a", "walk", "rm -r"]
        .map(|metric| Phase::new(metric, Unit::PerSecond))
        .to_vec()
}

struct MountTree {
    source: &'static str,
    tree: PathBuf,
    n_entries: u64,
    /// Keeps `path` valid while the tree is walked.
    _client: Box<dyn Client>,
}

pub(super) fn start(task: Task, client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    let place = client
        .path()
        .context("it needs a directory of the system")?;
    let source = match task.workers {
        1 => SOURCE,
        _ => PART_OF_SOURCE,
    };
    let found = Program::new("find")?.arg(source).run_ok()?;
    Ok(Box::new(MountTree {
        source,
        tree: place.join(format!("tree.{}", task.worker)),
        n_entries: found.stdout.lines().count() as u64,
        _client: client,
    }))
}

impl Work for MountTree {
    fn phase(&mut self, index: usize) -> Result<u64> {
        let tree = &self.tree;
        match index {
            0 => Program::new("cp")?
                .args(["-a", self.source])
                .arg(tree)
                .run_ok()?,
            1 => Program::new("find")?
                .arg(tree)
                .args(["-size", "+1G"])
                .run_ok()?,
            _ => Program::new("rm")?.arg("-r").arg(tree).run_ok()?,
        };
        Ok(self.n_entries)
    }
}
