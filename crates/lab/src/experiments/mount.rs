//! All kinds of requests to a mount in sequence: names, data, trees; each worker in a directory of
//! its own.
//!
//! `--count` is the names per worker; for each name [`DATA_BYTES`] of data are written, divided
//! among all workers, so that runs with many workers need no larger file system.

use super::phase::{Phase, Work};
use super::task::Task;
use super::{mount_io, mount_names, mount_tree};
use crate::client::Client;
use anyhow::{Context, Result};

/// Bytes of data per name, for all workers together.
const DATA_BYTES: u64 = 128 << 10;

pub(super) fn phases() -> Vec<Phase> {
    let parts = [
        mount_names::phases(),
        mount_io::phases(),
        mount_tree::phases(),
    ];
    parts.into_iter().flatten().collect()
}

struct Mount {
    /// The parts, each with its number of phases.
    parts: [(Box<dyn Work>, usize); 3],
}

pub(super) fn start(task: Task, mut client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    let place = client
        .path()
        .context("it needs a directory of the system")?;
    let of_same = || crate::client::SystemClient::new(&place).map(Box::new);
    let data = Task {
        count: (task.count * DATA_BYTES / u64::from(task.workers)).div_ceil(1 << 20),
        ..task.clone()
    };
    let dir = format!("worker.{}", task.worker);
    let mut in_dir: [Box<dyn Client>; 2] = [of_same()?, of_same()?];
    client.make_dir(&dir)?;
    client.enter(&dir)?;
    in_dir
        .iter_mut()
        .try_for_each(|client| client.enter(&dir))?;
    let [for_data, for_tree] = in_dir;
    Ok(Box::new(Mount {
        parts: [
            (
                mount_names::start(task.clone(), client)?,
                mount_names::phases().len(),
            ),
            (mount_io::start(data, for_data)?, mount_io::phases().len()),
            (
                mount_tree::start(task, for_tree)?,
                mount_tree::phases().len(),
            ),
        ],
    }))
}

impl Work for Mount {
    fn phase(&mut self, mut index: usize) -> Result<u64> {
        for (part, n_phases) in &mut self.parts {
            match index.checked_sub(*n_phases) {
                None => return part.phase(index),
                Some(rest) => index = rest,
            }
        }
        unreachable!("there are as many phases")
    }
}
