//! Crashes of four threads with background commits, at random cuts.
//!
//! Such a run is not repeatable, so the checks hold for every schedule: the recovered image is
//! clean, synced data are present, no file has written blocks behind its end, and range moves of
//! small files are atomic.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use uext4::device::{Event, Recorder};
use uext4::{Caller, Filesystem, InodeRef, MountOptions, RenameFlags, WriteContext};
use uext4_testkit::manifest::Source;
use uext4_testkit::ops::written_bytes;
use uext4_testkit::rng::Rng;

use super::case::Survivors;
use super::config::Config;
use super::disk::Recorders;
use super::event_log::EventLog;
use super::extents;
use super::recover::{Recovered, Scratch, by_us};
use super::threads_beyond::{BeyondFiles, check_shifted};
use crate::EngineTarget;

const THREADS: u64 = 4;
/// Files per syncing thread.
const FILES: u64 = 12;

/// What was checked, summed over all crashes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadsFigures {
    /// Crash images that were recovered.
    pub images: u64,
    /// Synced files found with their content.
    pub files: u64,
}

/// Runs the threads once and crashes `crashes` times.
///
/// # Errors
/// A promise was violated.
pub fn run_threads(config: Config, seed: u64, crashes: u64) -> Result<ThreadsFigures> {
    let recorders = Recorders::new(&config.make()?);
    let options = MountOptions {
        no_atime: true,
        ..MountOptions::default()
    };
    let fs = Arc::new(recorders.mount(config.mounted(options))?);
    let workers: Vec<_> = (0..THREADS)
        .map(|id| {
            let worker = Worker {
                fs: fs.clone(),
                recorder: recorders.main.clone(),
                config,
                id,
                seed,
            };
            thread::spawn(move || worker.run())
        })
        .collect();
    for worker in workers {
        worker.join().map_err(|_| anyhow!("a worker panicked"))??;
    }
    fs.unmount()?;
    let mut event_log = EventLog::of(&recorders);
    let mut rng = Rng::new(seed).fork(99);
    let (mut scratch, mut figures) = (Scratch::new(config), ThreadsFigures::default());
    for _ in 0..crashes {
        let cut = rng.below(event_log.len() as u64 + 1) as usize;
        let survivors = match rng.below(3) {
            0 => Survivors::None,
            1 => Survivors::All,
            _ => Survivors::Torn(rng.next_u64()),
        };
        figures.files += crash(config, &mut event_log, (cut, survivors), &mut scratch, seed)
            .with_context(|| format!("{} seed {seed}, cut {cut}, {survivors}", config.name))?;
        figures.images += 1;
    }
    Ok(figures)
}

fn crash(
    config: Config,
    event_log: &mut EventLog,
    (cut, survivors): (usize, Survivors),
    scratch: &mut Scratch,
    seed: u64,
) -> Result<u64> {
    let recovered = by_us(&config, event_log.image(cut, survivors.for_device()))?;
    let target = EngineTarget::new(&recovered.fs);
    let mut found = 0;
    let events = (0..cut).filter_map(|cut| event_log.event(cut));
    let marks = events.filter_map(|event| match event {
        Event::Mark(label) => Some((label / FILES, label % FILES)),
        _ => None,
    });
    for (id, n) in marks {
        let path = format!("thread {id}/kept {n}");
        let file = target.find(path.as_bytes());
        let file = file.map_err(|errno| anyhow!("{path} answers errno {}", errno.0))?;
        let expected = kept(seed, id, n);
        let mut data = vec![0; expected.len() + 1];
        let len = recovered.fs.read(&file, 0, &mut data)?;
        ensure!(data[..len] == expected, "{path} has other content");
        found += 1;
    }
    extents::end_with_their_files(&recovered.fs, &recovered.tree)?;
    check_moved(config, &recovered)?;
    recovered.fs.unmount()?;
    scratch.check(&recovered.disk, "our recovery")?;
    Ok(found)
}

/// Checks that range moves of small files are atomic.
fn check_moved(config: Config, recovered: &Recovered) -> Result<()> {
    let source = EngineTarget::new(&recovered.fs);
    let moved = recovered
        .tree
        .entries
        .keys()
        .filter(|path| path.windows(7).any(|part| part == b"/moved "));
    for path in moved {
        let mut data = Vec::new();
        source.read(path, 1 << 20, &mut |bytes| data.extend_from_slice(bytes))?;
        check_shifted(&config, &data).with_context(|| format!("\"{}\"", path.escape_ascii()))?;
    }
    Ok(())
}

/// Content of a synced file.
fn kept(seed: u64, id: u64, n: u64) -> Vec<u8> {
    written_bytes(seed ^ (id << 32 | n), 100 + 3001 * n as u32)
}

struct Worker {
    fs: Arc<Filesystem>,
    recorder: Arc<Recorder>,
    config: Config,
    id: u64,
    seed: u64,
}

impl Worker {
    fn run(&self) -> Result<()> {
        let caller = Caller::root();
        let root = self.fs.root()?;
        let name = format!("thread {}", self.id);
        let own = self.fs.mkdir(&root, name.as_bytes(), 0o755, &caller)?;
        let mut rng = Rng::new(self.seed).fork(self.id);
        let mut churned = BTreeMap::new();
        for n in 0..FILES {
            for _ in 0..rng.below(30) {
                self.churn(&own, &mut rng, &mut churned)?;
            }
            if self.config.has_extents() {
                let files = BeyondFiles {
                    fs: &self.fs,
                    own: &own,
                    config: &self.config,
                };
                files.shift(n)?;
                files.preallocate_and_write(n, &mut rng)?;
            }
            let name = format!("kept {n}");
            let file = self.fs.create(&own, name.as_bytes(), 0o644, &caller)?;
            let data = kept(self.seed, self.id, n);
            let written = self.fs.write(&file, 0, &data, &WriteContext::ROOT)?;
            ensure!(written.len_bytes == data.len(), "a short write");
            self.fs.fsync(&file)?;
            self.recorder.mark(self.id * FILES + n);
        }
        Ok(())
    }

    /// Load whose results are not checked.
    fn churn(
        &self,
        own: &InodeRef,
        rng: &mut Rng,
        made: &mut BTreeMap<u64, InodeRef>,
    ) -> Result<()> {
        let caller = Caller::root();
        let n = rng.below(20);
        let name = format!("churn {n}");
        match made.remove(&n) {
            None => {
                let file = self.fs.create(own, name.as_bytes(), 0o600, &caller)?;
                self.fs.write(
                    &file,
                    rng.below(9000),
                    &rng.bytes(5000),
                    &WriteContext::ROOT,
                )?;
                made.insert(n, file);
            }
            Some(file) => match rng.below(3) {
                0 => self.fs.unlink(own, name.as_bytes(), &caller)?,
                1 => {
                    self.fs.truncate(&file, rng.below(9000))?;
                    made.insert(n, file);
                }
                _ => {
                    let to = 20 + n;
                    let new = format!("churn {to}");
                    let (old, new) = (name.as_bytes(), new.as_bytes());
                    self.fs
                        .rename(own, old, own, new, RenameFlags::Replace, &caller)?;
                    made.insert(to, file);
                }
            },
        }
        Ok(())
    }
}
