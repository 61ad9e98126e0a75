//! Threads that read files ahead, in order, within a bounded memory.
//!
//! The work is cut into batches before: small files together, large ones in chunks. Reader `r` of
//! `n` reads the batches r, r + n, and so on, into a channel of its own; the builder takes them in
//! turn. So the order of batches does not depend on the threads.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use uext4_num::{clamp_u32, usize_of};

use crate::content::batch::Batch;
use crate::content::chunks::{CHUNK_BYTES, chunk_len};
use crate::tree::file::Later;
use crate::tree::ids::FileId;

/// Batches that wait for the builder, of all readers together: about 1 MiB each.
const WAITING_MAX: usize = 16;

/// A file to be read.
pub(crate) struct Job {
    pub(crate) file: FileId,
    pub(crate) size: u64,
    /// Index into the files to be read later.
    pub(crate) later: u32,
}

/// What all readers share.
struct Work {
    jobs: Vec<Job>,
    files: Vec<Later>,
    loads: Vec<Load>,
    block_size: u32,
}

/// What one batch has.
enum Load {
    /// Small files, each as a whole.
    Files(Range<u32>),
    /// The chunk of a file at this offset.
    Chunk {
        job: u32,
        offset: u64,
        is_last: bool,
    },
}

/// A batch, or the file that could not be read.
type Outcome = Result<Batch, (FileId, std::io::Error)>;

/// The threads, and a channel from each.
pub(crate) struct Readers {
    channels: Vec<Receiver<Outcome>>,
    /// For each reader: buffers to use again.
    buffers: Vec<Sender<Vec<u8>>>,
    threads: Vec<JoinHandle<()>>,
    batches: usize,
    taken: usize,
}

impl Readers {
    /// Starts `count` threads on the files, in this order.
    pub(crate) fn new(jobs: Vec<Job>, files: Vec<Later>, count: usize, block_size: u32) -> Readers {
        let loads = plan(&jobs, &files, block_size);
        let batches = loads.len();
        let count = count.clamp(1, WAITING_MAX);
        let shared = Arc::new(Work {
            jobs,
            files,
            loads,
            block_size,
        });
        let started = (0..count).map(|first| {
            let (sender, receiver) = sync_channel((WAITING_MAX / count).max(1));
            let (buffer, buffers) = channel();
            let shared = shared.clone();
            let thread = std::thread::spawn(move || {
                let own = shared.loads.iter().skip(first).step_by(count);
                shared.read_all(own, &buffers, &sender);
            });
            ((receiver, buffer), thread)
        });
        let (ends, threads): (Vec<_>, _) = started.unzip();
        let (channels, buffers) = ends.into_iter().unzip();
        Readers {
            channels,
            buffers,
            threads,
            batches,
            taken: 0,
        }
    }

    /// Takes a buffer whose bytes are written, for the reader of the next batch.
    pub(crate) fn reuse(&mut self, buffer: Vec<u8>) {
        let at = self.taken % self.buffers.len();
        let _reader_has_ended = self.buffers[at].send(buffer);
    }

    /// The next batch; `None` after the last.
    pub(crate) fn next(&mut self) -> Option<Outcome> {
        if self.taken == self.batches {
            return None;
        }
        let channel = &self.channels[self.taken % self.channels.len()];
        self.taken += 1;
        channel.recv().ok()
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.channels.clear();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn plan(jobs: &[Job], files: &[Later], block_size: u32) -> Vec<Load> {
    let mut loads = Vec::new();
    let mut open: Range<u32> = 0..0;
    let mut bytes = 0;
    for (at, job) in (0..clamp_u32(jobs.len())).zip(jobs) {
        let padded = job.size.next_multiple_of(u64::from(block_size));
        if bytes + padded > CHUNK_BYTES && !open.is_empty() {
            loads.push(Load::Files(open.clone()));
            (open, bytes) = (at..at, 0);
        }
        if job.size > CHUNK_BYTES {
            let ranges = files[usize_of(job.later)].ranges_of(job.size);
            plan_chunks(&mut loads, at, job.size, &ranges);
            open = at + 1..at + 1;
        } else {
            open.end = at + 1;
            bytes += padded;
        }
    }
    if !open.is_empty() {
        loads.push(Load::Files(open));
    }
    loads
}

/// The chunks of a large file in which data may be.
fn plan_chunks(loads: &mut Vec<Load>, job: u32, size: u64, ranges: &[Range<u64>]) {
    let mut next = 0;
    for range in ranges {
        let end = range.end.min(size);
        let mut offset = (range.start / CHUNK_BYTES * CHUNK_BYTES).max(next);
        while offset < end {
            let is_last = false;
            loads.push(Load::Chunk {
                job,
                offset,
                is_last,
            });
            offset += CHUNK_BYTES;
        }
        next = next.max(offset);
    }
    if let Some(Load::Chunk {
        job: last, is_last, ..
    }) = loads.last_mut()
    {
        *is_last = *last == job;
    }
}

impl Work {
    fn read_all<'a>(
        &self,
        loads: impl Iterator<Item = &'a Load>,
        buffers: &Receiver<Vec<u8>>,
        sender: &SyncSender<Outcome>,
    ) {
        for load in loads {
            let buffer = buffers.try_recv().unwrap_or_else(|_| {
                let bytes = usize_of(clamp_u32(CHUNK_BYTES));
                vec![0; bytes]
            });
            let outcome = self.read(load, buffer);
            let failed = outcome.is_err();
            if sender.send(outcome).is_err() || failed {
                return;
            }
        }
    }

    fn read(&self, load: &Load, buffer: Vec<u8>) -> Outcome {
        let mut batch = Batch::with_buffer(buffer);
        match load {
            Load::Chunk {
                job,
                offset,
                is_last,
            } => {
                let job = &self.jobs[usize_of(*job)];
                self.read_chunk(&mut batch, job, *offset, *is_last)?;
            }
            Load::Files(range) => {
                for job in &self.jobs[usize_of(range.start)..usize_of(range.end)] {
                    self.read_chunk(&mut batch, job, 0, true)?;
                }
            }
        }
        Ok(batch)
    }

    fn read_chunk(
        &self,
        batch: &mut Batch,
        job: &Job,
        offset: u64,
        is_last: bool,
    ) -> Result<(), (FileId, std::io::Error)> {
        let chunk = (offset, chunk_len(offset, job.size));
        let later = &self.files[usize_of(job.later)];
        let ranges = later.ranges_of(job.size);
        let range = batch.fill(chunk, self.block_size, &ranges, |at, bytes| {
            later.file.read_at(at, bytes)
        });
        let range = range.map_err(|error| (job.file, error))?;
        batch.complete(job.file, offset, range, self.block_size, is_last);
        Ok(())
    }
}
