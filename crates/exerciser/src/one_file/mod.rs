//! Concurrent use of one file through all layers: asynchronous and synchronous direct I/O, the page
//! cache, a shared mapping, splice.
//!
//! `model` checks every read. At the end the whole file is read with direct I/O, and the caller
//! compares it again in the next mount, which reveals writeback of a stale page.
//!
//! Invariants: the file never changes its length, so that direct writes are asynchronous.

mod model;
mod users;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model::{Model, PAGE_BYTES, PAGES, Units};
use uext4_testkit::rng::Rng;
use users::{User, Way};

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After the asynchronous user has submitted this many batches of requests.
    Groups(u64),
    /// When this time has passed since the start.
    Time(Duration),
}

/// Runs all users on a new file at `path`; returns the bytes that it must have afterwards.
///
/// # Errors
/// A call that failed, or a read of bytes that were not allowed; the message has the seed.
pub fn use_in_all_ways(path: &Path, seed: u64, until: Until) -> Result<Vec<u8>> {
    let model = Model::new();
    fs::write(path, whole(&model)).context("the file is made")?;
    let stop = AtomicBool::new(false);
    let rng = Rng::new(seed);
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let mut users = Vec::new();
        for way in Way::ALL {
            let (model, stop, rng) = (&model, &stop, rng.fork(way as u64));
            users.push(scope.spawn(move || {
                let used = use_as(path, model, way, rng, stop, until);
                // A failure, or the end of the asynchronous user, ends all users.
                let last = used.is_err() || way == Way::Asynchronous;
                stop.fetch_or(last, Ordering::Relaxed);
                used.with_context(|| format!("{way:?} user, seed {seed}"))
            }));
        }
        users
            .into_iter()
            .map(|user| user.join().expect("no user panics"))
            .collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    let expected = whole(&model);
    let read = users::read_past_cache(path, expected.len());
    compare(&read?, &expected).with_context(|| format!("past the cache, seed {seed}"))?;
    compare(&fs::read(path)?, &expected).with_context(|| format!("at the end, seed {seed}"))?;
    Ok(expected)
}

/// Compares the file with the result of [`use_in_all_ways`].
///
/// # Errors
/// The first difference.
pub fn compare(read: &[u8], expected: &[u8]) -> Result<()> {
    anyhow::ensure!(read.len() == expected.len(), "{} bytes", read.len());
    let different = read.iter().zip(expected).position(|(a, b)| a != b);
    match different {
        None => Ok(()),
        Some(at) => anyhow::bail!("byte {at} is of another version"),
    }
}

fn use_as(
    path: &Path,
    model: &Model,
    way: Way,
    rng: Rng,
    stop: &AtomicBool,
    until: Until,
) -> Result<()> {
    let mut user = User::new(path, model, way, rng)?;
    let start = Instant::now();
    for n_groups in 0.. {
        let is_over = way == Way::Asynchronous
            && match until {
                Until::Groups(groups) => n_groups >= groups,
                Until::Time(time) => start.elapsed() >= time,
            };
        if is_over || stop.load(Ordering::Relaxed) {
            break;
        }
        user.step()?;
    }
    Ok(())
}

fn whole(model: &Model) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PAGES * PAGE_BYTES);
    for page in 0..PAGES {
        bytes.extend(model.bytes(Units::of_page(page)));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model allows the behaviour of a file system of the kernel.
    #[test]
    fn the_file_system_of_the_host_passes() {
        let dir = uext4_testkit::oracle::scratch_dir().expect("there is room");
        let path = dir.path().join("file");
        let expected = use_in_all_ways(&path, 3, Until::Groups(200)).expect("all agree");
        compare(&fs::read(&path).expect("it reads"), &expected).expect("it is the last");
    }
}
