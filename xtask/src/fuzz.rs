//! Wounded images, mounted as strangers' images are and plainly, and used: the server stays alive
//! and locked in, answers, and needs no more memory than it may.
//!
//! Each round is one seed: a wound in a copy of an image that was filled through our
//! mount, random operations and a walk through the mount, then the unmount. A refused mount is
//! fine. That a process which is locked in reaches nothing is tried from inside by the tests of the
//! sandbox; here the kernel says of each server that it is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use uext4_testkit::damage::{Checksums, Target as Part, Wound};
use uext4_testkit::ops::{HostTarget, Palette, Stream, Target};
use uext4_testkit::oracle::{mke2fs, scratch_dir};
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::rng::Rng;
use uext4_testkit::served::ServedMount;

use crate::server::Server;

/// Most memory that a server may have used.
const PEAK_MAX_KIB: u64 = 512 << 10;
/// Longest time that the operations of a round may take.
const ROUND_LIMIT: Duration = Duration::from_secs(120);
/// Longest time from the mount's first answer until the server is locked in.
const LOCKING_LIMIT: Duration = Duration::from_secs(10);
const IMAGE_BYTES: u64 = 24 << 20;
/// Operations that fill an image, and those of a round.
const FILLING: usize = 1200;
const OPS: usize = 150;
/// Entries that a walk looks at: damage can make a tree endless.
const WALK_MAX: usize = 2000;
/// What images are made of.
const KINDS: [&[&str]; 2] = [&["-b", "4096"], &["-b", "1024", "-O", "^has_journal"]];

/// What came of the rounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Rounds.
    pub rounds: u64,
    /// Mounts that were refused.
    pub refused: u64,
    /// Operations that succeeded.
    pub done: u64,
    /// Most memory of a server.
    pub peak_kib: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mounted = self.rounds - self.refused;
        write!(
            f,
            "{} images, {} refused, {mounted} mounted, {} operations succeeded; at most {} MiB",
            self.rounds,
            self.refused,
            self.done,
            self.peak_kib.div_ceil(1024)
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
    let image = scratch.path().join("image");
    let (start, mut figures) = (Instant::now(), Figures::default());
    let mut seed = first_seed;
    while start.elapsed() < time {
        std::fs::copy(&bases[seed as usize % bases.len()], &image)?;
        let wound = hurt(&image, seed)?;
        let told = || format!("seed {seed}: {wound}");
        round(server, &image, seed, &mut figures).with_context(told)?;
        seed += 1;
    }
    Ok(figures)
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
    let words = ["untrusted", "untrusted,rw", "", ""][seed as usize / 2 % 4];
    let mounted = {
        let rings = seed.is_multiple_of(2) && RingsSwitch::is_available();
        let _on = rings.then(RingsSwitch::on).transpose()?;
        server.mount_with(image, words)
    };
    let mount = match mounted {
        Err(error) => {
            let text = format!("{error:#}");
            ensure!(!text.contains("signal"), "while mounting: {text}");
            figures.refused += 1;
            return Ok(());
        }
        Ok(mount) => mount,
    };
    figures.done += used(mount.path(), seed)?;
    figures.peak_kib = figures.peak_kib.max(look_at(&mount)?);
    match mount.unmount() {
        Err(error) if format!("{error:#}").contains("exit status") => Ok(()),
        unmounted => unmounted,
    }
}

/// Random operations and a walk, on a thread of their own: a hang ends with the mount.
fn used(root: &Path, seed: u64) -> Result<u64> {
    let (done, answer) = mpsc::channel();
    let root = root.to_path_buf();
    let worker = std::thread::spawn(move || {
        walk(&root, &mut 0);
        let mut target = HostTarget::new(&root);
        let ops = Stream::new(seed, Palette::default()).take(OPS);
        let succeeded = ops.filter(|op| target.run(op).is_ok()).count();
        walk(&root, &mut 0);
        // The receiver may have given up.
        let _ = done.send(succeeded as u64);
    });
    match answer.recv_timeout(ROUND_LIMIT) {
        Ok(succeeded) => Ok(succeeded),
        Err(mpsc::RecvTimeoutError::Timeout) => bail!("the mount hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let ended = worker.join();
            bail!("the operations ended with a panic: {ended:?}")
        }
    }
}

/// Looks at everything; every error is fine.
fn walk(dir: &Path, seen: &mut usize) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        *seen += 1;
        if *seen > WALK_MAX {
            return;
        }
        let Ok(metadata) = entry.path().symlink_metadata() else {
            continue;
        };
        if metadata.is_dir() {
            walk(&entry.path(), seen);
        } else if metadata.is_file() {
            let _ = head(&entry.path());
        } else if metadata.is_symlink() {
            let _ = std::fs::read_link(entry.path());
        }
    }
}

/// Reads the start of a file: it may say that it is endless.
fn head(path: &Path) -> std::io::Result<usize> {
    use std::io::Read;
    let mut text = Vec::new();
    std::fs::File::open(path)?
        .take(1 << 20)
        .read_to_end(&mut text)
}

/// The server is alive, locked in, and small; answers its largest size.
fn look_at(mount: &ServedMount) -> Result<u64> {
    let start = Instant::now();
    let status = loop {
        let status = std::fs::read_to_string(format!("/proc/{}/status", mount.pid()));
        let status = status.context("the server is gone")?;
        // It answers a moment before it is locked in.
        if status.contains("Seccomp:\t2") || start.elapsed() > LOCKING_LIMIT {
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|rest| rest.trim_start_matches(':').trim().to_owned())
    };
    let state = field("State").unwrap_or_default();
    ensure!(!state.starts_with('Z'), "the server ended: {state}");
    ensure!(
        field("Seccomp").as_deref() == Some("2"),
        "not locked in:\n{status}"
    );
    // Opening files of others, which Landlock limits to the image.
    let rights = field("CapEff").unwrap_or_default();
    let rights = u64::from_str_radix(&rights, 16).context("CapEff is a number")?;
    ensure!(rights & !2 == 0, "it has rights: {rights:x}");
    let peak = field("VmHWM").context("Linux tells the peak")?;
    let peak = peak.split(' ').next().unwrap_or_default().parse()?;
    ensure!(peak <= PEAK_MAX_KIB, "it took {peak} KiB of memory");
    Ok(peak)
}
