//! Single requests through a mount: create, attributes, positive and negative lookups, remove; each
//! worker in a directory of its own.
//!
//! Every operation is a round trip to a FUSE server: attributes bypass the kernel's cache, no
//! negative lookup is repeated, and a positive lookup is a mkdir on an existing name, for which the
//! kernel never trusts its cache. A first round of create, attributes and remove is not measured.

use super::phase::{Phase, Unit, Work};
use super::task::Task;
use crate::client::{Client, OpenFile};
use anyhow::Result;

const CREATE: usize = 0;
const GETATTR: usize = 1;
const LOOKUP: usize = 2;
const MISS: usize = 3;
const REMOVE: usize = 4;

pub(super) fn phases() -> Vec<Phase> {
    ["create", "getattr", "lookup", "lookup absent", "remove"]
        .map(|metric| Phase::new(metric, Unit::PerSecond))
        .to_vec()
}

struct MountNames {
    client: Box<dyn Client>,
    open: Box<dyn OpenFile>,
    names: Vec<String>,
    absent: Vec<String>,
}

pub(super) fn start(task: Task, mut client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    let dir = format!("dir.{}", task.worker);
    client.make_dir(&dir)?;
    client.enter(&dir)?;
    let names = |what: &str| -> Vec<String> {
        let numbered = (0..task.count).map(|index| format!("{what}.{index}"));
        numbered.collect()
    };
    let mut work = MountNames {
        open: client.open_new("open")?,
        client,
        names: names("file"),
        absent: names("absent"),
    };
    for phase in [CREATE, GETATTR, REMOVE] {
        work.phase(phase)?;
    }
    Ok(Box::new(work))
}

impl Work for MountNames {
    fn phase(&mut self, index: usize) -> Result<u64> {
        let each = |names: &[String], act: &dyn Fn(&str) -> Result<()>| {
            names.iter().try_for_each(|name| act(name))
        };
        match index {
            CREATE => each(&self.names, &|name| self.client.create(name))?,
            GETATTR => each(&self.names, &|_| self.open.attributes())?,
            LOOKUP => each(&self.names, &|name| self.client.make_dir(name))?,
            MISS => each(&self.absent, &|name| self.client.miss(name))?,
            REMOVE => each(&self.names, &|name| self.client.remove(name))?,
            _ => unreachable!("there are as many phases"),
        }
        Ok(self.names.len() as u64)
    }
}
