//! Data: write a new file and fsync it, drop the cache, read it back; then the same file at random
//! offsets, and with direct I/O.

use super::phase::{Phase, Unit, Work};
use super::task::Task;
use crate::client::{Cache, Client, OpenFile};
use anyhow::{Context, Result, ensure};
use uext4_testkit::rng::Rng;

/// Alignment of memory for direct I/O.
const ALIGN_BYTES: usize = 4096;

struct Step {
    name: &'static str,
    what: What,
    call_bytes: usize,
    order: Order,
    cache: Cache,
}

#[derive(Clone, Copy)]
enum What {
    Make,
    Write,
    Read,
}

#[derive(Clone, Copy)]
enum Order {
    Sequential,
    Random,
}

const STEPS: [Step; 10] = {
    use Cache::{Past, Through};
    use Order::{Random, Sequential};
    use What::{Make, Read, Write};
    const fn step(name: &'static str, what: What, how: (usize, Order, Cache)) -> Step {
        let (call_bytes, order, cache) = how;
        Step {
            name,
            what,
            call_bytes,
            order,
            cache,
        }
    }
    const LARGE: usize = 1 << 20;
    const SMALL: usize = 4096;
    [
        step("write 1 MiB", Make, (LARGE, Sequential, Through)),
        step("read 1 MiB", Read, (LARGE, Sequential, Through)),
        step("write 4 KiB", Make, (SMALL, Sequential, Through)),
        step("read 4 KiB", Read, (SMALL, Sequential, Through)),
        step("random write 4 KiB", Write, (SMALL, Random, Through)),
        step("random read 4 KiB", Read, (SMALL, Random, Through)),
        step("direct write 1 MiB", Write, (LARGE, Sequential, Past)),
        step("direct read 1 MiB", Read, (LARGE, Sequential, Past)),
        step("direct random write 4 KiB", Write, (SMALL, Random, Past)),
        step("direct random read 4 KiB", Read, (SMALL, Random, Past)),
    ]
};

pub(super) fn phases() -> Vec<Phase> {
    STEPS
        .iter()
        .map(|step| Phase::new(step.name, Unit::MegabytesPerSecond))
        .collect()
}

struct MountIo {
    client: Box<dyn Client>,
    worker: u32,
    size_bytes: u64,
    file: Option<Box<dyn OpenFile>>,
    memory: Vec<u8>,
}

pub(super) fn start(task: Task, client: Box<dyn Client>) -> Result<Box<dyn Work>> {
    let size_bytes = task.count << 20;
    Ok(Box::new(MountIo {
        client,
        worker: task.worker,
        size_bytes,
        file: None,
        memory: vec![0x5a; (1 << 20) + ALIGN_BYTES],
    }))
}

impl Work for MountIo {
    fn phase(&mut self, index: usize) -> Result<u64> {
        let step = &STEPS[index];
        if let What::Make = step.what {
            let name = format!("data.{}.{index}", self.worker);
            self.file = Some(self.client.open_new(&name)?);
        }
        let file = self.file.as_ref().context("the first phase makes it")?;
        file.set_cache(step.cache)?;
        let start = self.memory.as_ptr().align_offset(ALIGN_BYTES);
        let memory = &mut self.memory[start..start + step.call_bytes];
        for offset in offsets(self.size_bytes, step) {
            match step.what {
                What::Make | What::Write => file.write(offset, memory)?,
                What::Read => {
                    let read = file.read(offset, memory)?;
                    ensure!(read == memory.len(), "short read at byte {offset}");
                }
            }
        }
        if let What::Make | What::Write = step.what {
            file.fsync()?;
        }
        file.drop_cache()?;
        Ok(self.size_bytes)
    }
}

/// Offsets of the calls, in bytes, in the order of the step.
fn offsets(size_bytes: u64, step: &Step) -> Vec<u64> {
    let mut offsets: Vec<u64> = (0..size_bytes).step_by(step.call_bytes).collect();
    if let Order::Random = step.order {
        let mut rng = Rng::new(size_bytes);
        for index in (1..offsets.len()).rev() {
            offsets.swap(index, rng.below(index as u64 + 1) as usize);
        }
    }
    offsets
}
