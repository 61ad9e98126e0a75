//! Wounded images, mounted as strangers' images are, and used: the server stays alive and locked
//! in, answers, and needs no more memory than it may.
//!
//! Each round is one seed: a wound in a copy of an image that was filled through our mount, random
//! operations and a walk through the mount, then the unmount. A refused mount is fine; since
//! images that are looked over first are rarely let in with a wound, a refused one is mounted
//! again with all that `untrusted` stands for but the look. One wounded image that is not refused
//! is mounted as a stranger's for the whole time and used between the rounds. Again and again calls
//! are made in the name of a server: it reaches nothing.

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
use look::{Budget, Memory, look_at, try_from_inside};
use used::used;

const IMAGE_BYTES: u64 = 24 << 20;
/// Operations that fill an image.
const FILLING: usize = 1200;
/// So many rounds make calls in the name of one server.
const TRY_EVERY: u64 = 16;
/// Time for the last round and the end.
const CLOSING: Duration = Duration::from_secs(900);
/// How strangers' images are mounted.
const UNTRUSTED: [&str; 2] = ["untrusted", "untrusted,rw"];
/// The same but for the look, and without a limit of addresses.
const CONFINED: &str = "sandbox,nosuid,nodev,operation_bytes=268435456,operation_seconds=30";
/// What images are made of.
const KINDS: [&[&str]; 2] = [&["-b", "4096"], &["-b", "1024", "-O", "^has_journal"]];

/// What came of the rounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Rounds.
    pub rounds: u64,
    /// Images that were refused as strangers'.
    pub refused: u64,
    /// Of them, those that were refused without a look, too.
    pub refused_blindly: u64,
    /// Operations that succeeded.
    pub done: u64,
    /// Operations that succeeded on the image that is mounted all the time.
    pub done_long: u64,
    /// Servers in whose name calls were made.
    pub tried: u64,
    /// Most memory of a server.
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

/// Runs rounds for this time, from this seed on.
///
/// # Errors
/// The first round that went wrong, with its seed.
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
        let told = || format!("seed {seed}: {wound}");
        round(server, &image, seed, &mut figures).with_context(told)?;
        let told = || format!("the image that stays (wound {long_seed}), operations of {seed}");
        go_on(&mount, seed, &mut figures).with_context(told)?;
        seed += 1;
    }
    let told = || format!("the image that stays (wound {long_seed})");
    closed(mount).with_context(told)?;
    Ok(figures)
}

fn base_of(bases: &[PathBuf], seed: u64) -> &Path {
    &bases[seed as usize % bases.len()]
}

/// What is mounted for the whole time.
struct Long<'a> {
    server: &'a Server,
    life: Duration,
    image: &'a Path,
}

impl Long<'_> {
    /// The first wounded image that is not refused, as a stranger's; and its seed.
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

/// Some operations on it; at times it tries to get out.
fn go_on(mount: &ServedMount, seed: u64, figures: &mut Figures) -> Result<()> {
    figures.done_long += used(mount.path(), seed)?;
    look_at(mount, Budget::Set, &mut figures.memory)?;
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
        // The stream knows which fail; what is made is what counts.
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
    look_at(&mount, budget, &mut figures.memory)?;
    if figures.rounds.is_multiple_of(TRY_EVERY) {
        try_from_inside(&mount)?;
        figures.tried += 1;
    }
    closed(mount)
}

/// Mounts as a stranger's, and if that is refused with no look at it. `None`: refused, too.
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

/// A server that met damage says so with its status.
fn closed(mount: ServedMount) -> Result<()> {
    match mount.unmount() {
        Err(error) if format!("{error:#}").contains("exit status") => Ok(()),
        unmounted => unmounted,
    }
}

/// A server may say no, but not break down.
fn may_be_refused(error: &anyhow::Error) -> Result<()> {
    let text = format!("{error:#}");
    ensure!(!text.contains("signal"), "while mounting: {text}");
    Ok(())
}
