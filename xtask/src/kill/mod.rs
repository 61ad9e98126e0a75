//! The server of a mount killed at random moments, again and again on one image.
//!
//! Clients create, write, rename and remove files of their own and note every promise: what fsync
//! answered and nobody touched afterwards. After each kill the next mount of ours, the kernel or
//! e2fsck recovers; the file system must be clean and hold every promise.
//!
//! Not here: crashes of the machine, where unflushed writes are lost (`uext4-journal`, `uext4`).

mod client;
mod promise;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use uext4_testkit::oracle::{
    KernelMount, Repair, dumpe2fs, e2fsck, e2fsck_repair, mke2fs, scratch_dir,
};
use uext4_testkit::rng::Rng;
use uext4_testkit::served::ServedMount;

use crate::server::{Rights, Server};
use client::Client;

const IMAGE_BYTES: u64 = 512 << 20;
const CLIENTS: u64 = 4;
/// A kill comes within this time after the clients begin, in milliseconds.
const KILL_WITHIN_MS: u64 = 700;

/// What the rounds came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Kills.
    pub rounds: u32,
    /// Operations of all clients.
    pub operations: u64,
    /// Files and absences that fsync had promised and that were looked up after a kill.
    pub promises: u64,
    /// Rounds that ended in a journal that had to be replayed.
    pub replays: u32,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills, {} operations, {} promises kept, {} journals replayed",
            self.rounds, self.operations, self.promises, self.replays
        )
    }
}

/// Who looks first at what the kill left.
#[derive(Clone, Copy, Debug)]
enum Judge {
    OurMount,
    Kernel,
    E2fsck,
}

/// Kills `rounds` times.
///
/// # Errors
/// A broken promise or what e2fsck said, with the seed and the round.
pub fn run(server: &Server, rounds: u32, seed: u64) -> Result<Figures> {
    let mut figures = Figures::default();
    if !(ServedMount::available_or_skip("kill") && KernelMount::available_or_skip("kill")) {
        return Ok(figures);
    }
    println!("{rounds} kills, {CLIENTS} clients, seed {seed}");
    let mut run = Run::new(server, seed)?;
    for round in 0..rounds {
        run.round(round, &mut figures)
            .with_context(|| format!("seed {seed}, round {round}"))?;
    }
    Ok(figures)
}

struct Run<'a> {
    server: &'a Server,
    rng: Rng,
    scratch: TempDir,
    clients: Vec<Client>,
}

impl<'a> Run<'a> {
    fn new(server: &'a Server, seed: u64) -> Result<Self> {
        let run = Self {
            server,
            rng: Rng::new(seed),
            scratch: scratch_dir()?,
            clients: (0..CLIENTS)
                .map(|id| Client::new(id, Rng::new(seed).fork(id)))
                .collect(),
        };
        mke2fs(&run.image(), IMAGE_BYTES, &["-b", "4096"])?;
        let mount = server.mount(&run.image(), Rights::ReadWrite)?;
        client::make_directories(mount.path(), CLIENTS)?;
        mount.unmount()?;
        Ok(run)
    }

    fn image(&self) -> PathBuf {
        self.scratch.path().join("image")
    }

    fn round(&mut self, round: u32, figures: &mut Figures) -> Result<()> {
        let start = Instant::now();
        let after = Duration::from_millis(20 + self.rng.below(KILL_WITHIN_MS));
        let operations = self.use_and_kill(after)?;
        let promises: u64 = self.clients.iter().map(Client::promises).sum();
        figures.replays += u32::from(dumpe2fs(&self.image())?.has_feature("needs_recovery"));
        let judge = [Judge::OurMount, Judge::Kernel, Judge::E2fsck][round as usize % 3];
        self.judge(judge)
            .with_context(|| format!("judged by {judge:?}"))?;
        self.go_on()?;
        figures.rounds += 1;
        figures.operations += operations;
        figures.promises += promises;
        println!(
            "round {round:3}: killed after {:3} ms and {operations:5} operations, {promises:3} \
             promises kept, {judge:?} first, {:.1} s",
            after.as_millis(),
            start.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Lets the clients work until the server is dead; their operations.
    fn use_and_kill(&mut self, after: Duration) -> Result<u64> {
        let mount = self.server.mount(&self.image(), Rights::ReadWrite)?;
        let root = mount.path();
        std::thread::scope(|scope| {
            let workers: Vec<_> = self
                .clients
                .iter_mut()
                .map(|client| scope.spawn(|| client.work(root)))
                .collect();
            std::thread::sleep(after);
            let killed = mount.kill();
            let mut operations = 0;
            for worker in workers {
                operations += worker.join().expect("a client does not panic")?;
            }
            killed.map(|()| operations)
        })
    }

    /// Recovers a copy (the kernel, e2fsck) or nothing (our mount, which comes anyway).
    fn judge(&self, judge: Judge) -> Result<()> {
        let copy = self.scratch.path().join("copy");
        match judge {
            Judge::OurMount => return Ok(()),
            Judge::Kernel => {
                std::fs::copy(self.image(), &copy)?;
                let mount = KernelMount::new(&copy, "")?;
                self.check(mount.path())?;
                mount.unmount()?;
            }
            Judge::E2fsck => {
                std::fs::copy(self.image(), &copy)?;
                let verdict = e2fsck_repair(&copy, Repair::Preen)?;
                ensure!(verdict.is_repaired(), "e2fsck -p: {verdict}");
                let mount = KernelMount::new(&copy, "ro")?;
                self.check(mount.path())?;
                mount.unmount()?;
            }
        }
        clean(&copy)?;
        Ok(std::fs::remove_file(&copy)?)
    }

    /// Our mount recovers the image itself, and the clients see what they have.
    fn go_on(&mut self) -> Result<()> {
        let mount = self.server.mount(&self.image(), Rights::ReadWrite)?;
        self.check(mount.path()).context("after our own recovery")?;
        for client in &mut self.clients {
            client.look(mount.path())?;
        }
        mount.unmount()?;
        clean(&self.image())
    }

    fn check(&self, root: &Path) -> Result<()> {
        self.clients
            .iter()
            .try_for_each(|client| client.check(root))
    }
}

fn clean(image: &Path) -> Result<()> {
    let verdict = e2fsck(image)?;
    ensure!(verdict.is_clean(), "{verdict}");
    Ok(())
}
