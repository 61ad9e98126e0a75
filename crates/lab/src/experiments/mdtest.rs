//! Empty files: create all, stat all, remove all; in an own directory per worker or in one.
//!
//! Names are made before the clock runs, and one round is a rehearsal: it reads the inode tables
//! and touches the memory, as the first repetition of mdtest does. What it left to be committed is
//! committed before the clock runs, so that one worker and many begin alike.

use super::{Phase, Task, Unit, Work};
use crate::seat::Seat;
use anyhow::Result;

const CREATE: usize = 0;
const STAT: usize = 1;
/// After a rehearsal.
const SETTLE: usize = 3;

pub(super) fn phases() -> Vec<Phase> {
    ["create", "stat", "remove"]
        .map(|metric| Phase::new(metric, Unit::PerSecond))
        .to_vec()
}

struct Mdtest {
    seat: Box<dyn Seat>,
    names: Vec<String>,
}

pub(super) fn start(task: Task, mut seat: Box<dyn Seat>) -> Result<Box<dyn Work>> {
    let worker = task.worker;
    let dir = if task.variant == "own" {
        format!("dir.{worker}")
    } else {
        "dir".into()
    };
    seat.make_dir(&dir)?;
    seat.enter(&dir)?;
    let names = (0..task.count)
        .map(|index| format!("file.mdtest.{worker}.{index}"))
        .collect();
    Ok(Box::new(Mdtest { seat, names }))
}

impl Work for Mdtest {
    fn phase(&mut self, index: usize) -> Result<u64> {
        if index == SETTLE {
            self.seat.sync()?;
            return Ok(0);
        }
        for name in &self.names {
            match index {
                CREATE => self.seat.create(name)?,
                STAT => self.seat.stat(name)?,
                _ => self.seat.remove(name)?,
            }
        }
        Ok(self.names.len() as u64)
    }
}
