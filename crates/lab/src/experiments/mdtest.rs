//! Empty files: create all, stat all, remove all; in one directory per worker, in one shared
//! directory, or with each worker's names spread over as many directories as there are workers. The
//! spread variant is the reference for one directory: its CPU caches are as cold, and two workers
//! are rarely in one directory.
//!
//! Names are generated before the clock runs, and one round is a rehearsal: it reads the inode
//! tables and touches the memory, as the first repetition of mdtest does. Its changes are committed
//! before the clock runs, so that all numbers of workers begin alike.

use super::phase::{Phase, Unit, Work};
use super::task::Task;
use crate::client::Client;
use anyhow::Result;

const CREATE: usize = 0;
const STAT: usize = 1;
/// All directories are in one, as those of mdtest: ext4 spreads directories of the root over the
/// groups, and leaves others near their parent.
const TOP: &str = "mdtest.out";
/// Phase index after a rehearsal.
const SETTLE: usize = 3;

pub(super) fn phases() -> Vec<Phase> {
    ["create", "stat", "remove"]
        .map(|metric| Phase::new(metric, Unit::PerSecond))
        .to_vec()
}

struct Mdtest {
    /// One client per directory.
    clients: Vec<Box<dyn Client>>,
    /// Index of the client, and name.
    names: Vec<(usize, String)>,
}

pub(super) const SPREAD: &str = "spread";
/// All earlier designs that creates and removals meet.
pub(super) const BEFORE: [&str; 4] = [
    "racing_inodes",
    "locked_orphans",
    "sorted_shrinker",
    "scanned_checkpoints",
];

pub(super) fn start(task: Task, client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    let worker = task.worker;
    // The rest of the name, if any, is a baseline.
    let dirs = match task.variant.split('-').next().unwrap_or_default() {
        "own" => vec![format!("dir.{worker}")],
        SPREAD => (0..task.workers).map(|nr| format!("dir.{nr}")).collect(),
        _ => vec!["dir".into()],
    };
    client.make_dir(TOP)?;
    let top = client.below(TOP)?;
    let clients: Vec<_> = dirs
        .iter()
        .map(|dir| {
            top.make_dir(dir)?;
            top.below(dir)
        })
        .collect::<Result<_>>()?;
    let names = (0..task.count)
        .map(|index| {
            let at = (u64::from(worker) + index) as usize % clients.len();
            (at, format!("file.mdtest.{worker}.{index}"))
        })
        .collect();
    Ok(Box::new(Mdtest { clients, names }))
}

impl Work for Mdtest {
    fn phase(&mut self, index: usize) -> Result<u64> {
        if index == SETTLE {
            self.clients[0].sync()?;
            return Ok(0);
        }
        for (at, name) in &self.names {
            let client = &self.clients[*at];
            match index {
                CREATE => client.create(name)?,
                STAT => client.stat(name)?,
                _ => client.remove(name)?,
            }
        }
        Ok(self.names.len() as u64)
    }
}
