//! Fuzzing of mounts with damaged images: the server stays alive, sandboxed, responsive and within
//! its memory limit.
//!
//! Each round has one seed. It damages a copy of an image that was filled through our mount, mounts
//! it, runs random operations and a walk, and unmounts it. A refused mount is a valid outcome. The
//! check of `untrusted` refuses most damaged images, so the round mounts a refused image again with
//! the other restrictions of `untrusted` but without the check.
//!
//! One damaged image that passes the check stays mounted as untrusted for the whole run and is used
//! between the rounds. Every 16 rounds injected code in a server tries system calls, and must reach
//! nothing.

mod look;
mod used;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use uext4_testkit::damage::{Checksums, Target as Part, Wound};
use uext4_testkit::ops::{HostTarget, Palette, Stream, Target};
use uext4_testkit::oracle::{mke2fs, scratch_dir};
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::rng::Rng;
use uext4_testkit::served::ServedMount;

use crate::server::Server;
use look::{Budget, Memory, check_server, try_from_inside};
use used::used;

const IMAGE_BYTES: u64 = 24 << 20;
/// Number of operations that fill an image.
const FILLING: usize = 1200;
/// Rounds per attempt to escape from a server's sandbox.
const TRY_EVERY: u64 = 16;
/// Extra lifetime of the long mount, for the last round and the unmount.
const CLOSING: Duration = Duration::from_secs(900);
/// Mount options for untrusted images.
const UNTRUSTED: [&str; 2] = ["untrusted", "untrusted,rw"];
/// Restrictions of `untrusted` without the check and the limit of address space.
const CONFINED: &str = "sandbox,nosuid,nodev,operation_bytes=268435456,operation_seconds=30";
/// Options of mke2fs for the images.
const KINDS: [&[&str]; 2] = [&["-b", "4096"], &["-b", "1024", "-O", "^has_journal"]];

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Rounds.
    pub rounds: u64,
    /// Images that were refused with `untrusted`.
    pub refused: u64,
    /// Images that were also refused without the check.
    pub refused_blindly: u64,
    /// Operations that succeeded.
    pub done: u64,
    /// Successful operations on the long mount.
    pub done_long: u64,
    /// Attempts to escape from a sandbox.
    pub tried: u64,
    /// Peak memory over all servers.
    pub memory: Memory,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mounted = self.rounds - self.refused_blindly;
        let (rounds, refused, done, long) = (self.rounds, self.refused, self.done, self.done_long);
        let (tried, memory) = (self.tried, self.memory);
        write!(
            f,
            "{rounds} images, {refused} refused, {mounted} mounted (some of those without a look), \
             {done} operations succeeded, \
             {long} on the one that stayed; {tried} servers reached nothing; {memory}"
        )
    }
}

/// Runs rounds for `time`, with seeds from `first_seed` on.
///
/// The first failed round, with its seed.
pub fn run(server: &Server, time: Duration, first_seed: u64) -> Result<Figures> {
    let scratch = scratch_dir()?;
    let bases = KINDS.iter().enumerate().map(|(at, kind)| {
        let path = scratch.path().join(format!("base{at}"));
        base(server, &path, kind)?;
        Ok(path)
    });
    let bases: Vec<PathBuf> = bases.collect::<Result<_>>()?;
    let mut figures = Figures::default();
    let long = Long {
        server,
        life: time + CLOSING,
        image: &scratch.path().join("long"),
    };
    let (mount, long_seed) = long.mount(&bases, first_seed)?;
    let image = scratch.path().join("image");
    let (start, mut seed) = (Instant::now(), first_seed);
    while start.elapsed() < time {
        std::fs::copy(base_of(&bases, seed), &image)?;
        let wound = hurt(&image, seed)?;
        round(server, &image, seed, &mut figures)
            .with_context(|| format!("seed {seed}: {wound}"))?;
        go_on(&mount, seed, &mut figures).with_context(|| {
            format!("the image that stays (wound {long_seed}), operations of {seed}")
        })?;
        seed += 1;
    }
    closed(mount).with_context(|| format!("the image that stays (wound {long_seed})"))?;
    Ok(figures)
}

fn base_of(bases: &[PathBuf], seed: u64) -> &Path {
    &bases[seed as usize % bases.len()]
}

/// The mount that lasts for the whole run.
struct Long<'a> {
    server: &'a Server,
    life: Duration,
    image: &'a Path,
}

impl Long<'_> {
    /// Mounts the first damaged image that `untrusted` accepts; returns the mount and its seed.
    fn mount(&self, bases: &[PathBuf], first_seed: u64) -> Result<(ServedMount, u64)> {
        for seed in first_seed.. {
            std::fs::copy(base_of(bases, seed), self.image)?;
            if hurt(self.image, seed)?.is_empty() {
                continue;
            }
            let words = "untrusted,rw";
            match self.server.mount_for(self.life, self.image, words) {
                Ok(mount) => return Ok((mount, seed)),
                Err(error) => may_be_refused(&error)?,
            }
        }
        unreachable!("seeds do not end before an image is harmless")
    }
}

/// Runs operations on the long mount; every [`TRY_EVERY`] seeds it also tries to escape.
fn go_on(mount: &ServedMount, seed: u64, figures: &mut Figures) -> Result<()> {
    figures.done_long += used(mount.path(), seed)?;
    check_server(mount, Budget::Set, &mut figures.memory)?;
    if seed.is_multiple_of(TRY_EVERY) {
        try_from_inside(mount)?;
        figures.tried += 1;
    }
    Ok(())
}

/// An image with files of all kinds.
fn base(server: &Server, path: &Path, kind: &[&str]) -> Result<()> {
    mke2fs(path, IMAGE_BYTES, kind)?;
    let mount = server.mount_with(path, "")?;
    let mut target = HostTarget::new(mount.path());
    for op in Stream::new(7, Palette::default()).take(FILLING) {
        // Some operations fail by design; the created files are what matters.
        let _ = target.run(&op);
    }
    mount.unmount()
}

fn hurt(image: &Path, seed: u64) -> Result<String> {
    let mut rng = Rng::new(seed);
    let part = Part::ALL[rng.below(Part::ALL.len() as u64) as usize];
    let checksums = match rng.below(4) {
        0 => Checksums::Left,
        _ => Checksums::Fixed,
    };
    let wound = Wound::inflict(image, part, seed, checksums)?;
    Ok(wound.map_or_else(String::new, |wound| wound.to_string()))
}

fn round(server: &Server, image: &Path, seed: u64, figures: &mut Figures) -> Result<()> {
    figures.rounds += 1;
    let Some((mount, budget)) = mounted(server, image, seed, figures)? else {
        return Ok(());
    };
    figures.done += used(mount.path(), seed)?;
    check_server(&mount, budget, &mut figures.memory)?;
    if figures.rounds.is_multiple_of(TRY_EVERY) {
        try_from_inside(&mount)?;
        figures.tried += 1;
    }
    closed(mount)
}

/// Mounts with `untrusted`, and if that is refused, without the check. `None` if both are refused.
fn mounted(
    server: &Server,
    image: &Path,
    seed: u64,
    figures: &mut Figures,
) -> Result<Option<(ServedMount, Budget)>> {
    let rings = seed.is_multiple_of(2) && RingsSwitch::is_available();
    let mount = |words| {
        let _on = rings.then(RingsSwitch::on).transpose()?;
        server.mount_with(image, words)
    };
    match mount(UNTRUSTED[seed as usize / 2 % 2]) {
        Ok(mount) => return Ok(Some((mount, Budget::Set))),
        Err(error) => may_be_refused(&error)?,
    }
    figures.refused += 1;
    match mount(CONFINED) {
        Ok(mount) => return Ok(Some((mount, Budget::Unset))),
        Err(error) => may_be_refused(&error)?,
    }
    figures.refused_blindly += 1;
    Ok(None)
}

/// Unmounts. A server that found damage reports it by its exit status.
fn closed(mount: ServedMount) -> Result<()> {
    match mount.unmount() {
        Err(error) if format!("{error:#}").contains("exit status") => Ok(()),
        unmounted => unmounted,
    }
}

/// A server may refuse a mount but must not die from a signal.
fn may_be_refused(error: &anyhow::Error) -> Result<()> {
    let text = format!("{error:#}");
    ensure!(!text.contains("signal"), "while mounting: {text}");
    Ok(())
}
