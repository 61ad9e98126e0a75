//! Kill test: the server is killed at random moments, repeatedly, on one image of each kind.
//!
//! Clients create, write, rename and remove their own files, and record every name whose last
//! change fsync acknowledged. After each kill our next mount, the kernel or e2fsck recovers; the
//! file system must be clean and hold all recorded content. Rounds alternate between the
//! transports.
//!
//! Not here: crashes of the machine, where unflushed writes are lost (`uext4-journal`, `uext4`).

mod client;
mod promise;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use uext4_testkit::oracle::{KernelMount, Repair, dumpe2fs, e2fsck, e2fsck_repair, scratch_dir};
use uext4_testkit::rng::Rng;
use uext4_testkit::served::ServedMount;

use crate::server::{Rights, Server, Transport};
use crate::trees::Config;
use client::{Client, Worked};

/// Capacity of the image in names; far more than the clients create.
const ENTRIES: usize = 10_000;
const CLIENTS: u64 = 4;
/// Upper bound of the random part of the delay before a kill, in milliseconds.
const KILL_WITHIN_MS: u64 = 700;

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Kills.
    pub rounds: u32,
    /// Operations of all clients.
    pub operations: u64,
    /// Files and absences that fsync had acknowledged and that were checked after a kill.
    pub promises: u64,
    /// Rounds that left a journal to replay.
    pub replays: u32,
    /// Maximum of open, unlinked files at a kill.
    pub orphans_max: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills, {} operations, {} promises kept, {} journals replayed, at most {} orphans",
            self.rounds, self.operations, self.promises, self.replays, self.orphans_max
        )
    }
}

/// First judge of the image after a kill.
#[derive(Clone, Copy, Debug)]
enum Judge {
    OurMount,
    Kernel,
    E2fsck,
}

/// Runs all kinds that survive crashes, or one.
///
/// # Errors
/// As [`kill`].
pub fn run(server: &Server, rounds: u32, seed: u64, only: Option<Config>) -> Result<()> {
    let mut kinds = Config::ALL.to_vec();
    kinds.retain(Config::survives_crashes);
    for kind in only.map_or(kinds, |kind| vec![kind]) {
        println!("{}: {}", kind.name, kill(server, rounds, seed, &kind)?);
    }
    Ok(())
}

/// Kills `rounds` times.
///
/// A mismatch or e2fsck's report, with the seed and the round; a kind without a journal.
pub fn kill(server: &Server, rounds: u32, seed: u64, kind: &Config) -> Result<Figures> {
    let name = kind.name;
    ensure!(
        kind.survives_crashes(),
        "{name} has no journal: it promises nothing"
    );
    let mut figures = Figures::default();
    if !(ServedMount::available_or_skip("kill") && KernelMount::available_or_skip("kill")) {
        return Ok(figures);
    }
    println!("{name}: {rounds} kills, {CLIENTS} clients, seed {seed}");
    let mut run = Run::new(server, seed, kind)?;
    for round in 0..rounds {
        run.round(round, &mut figures)
            .with_context(|| format!("{name}, seed {seed}, round {round}"))?;
    }
    Ok(figures)
}

struct Run<'a> {
    server: &'a Server,
    kind: &'a Config,
    transports: Vec<Transport>,
    rng: Rng,
    scratch: TempDir,
    clients: Vec<Client>,
}

impl<'a> Run<'a> {
    fn new(server: &'a Server, seed: u64, kind: &'a Config) -> Result<Self> {
        let mut transports = Transport::ALL.to_vec();
        transports.retain(|transport| transport.available_or_skip("kill over io_uring"));
        let run = Self {
            server,
            kind,
            transports,
            rng: Rng::new(seed),
            scratch: scratch_dir()?,
            clients: (0..CLIENTS)
                .map(|id| Client::new(id, Rng::new(seed).fork(id)))
                .collect(),
        };
        kind.make_reference(&run.image(), ENTRIES)?;
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
        let transport = self.transports[round as usize % self.transports.len()];
        let Worked {
            operations,
            orphans,
        } = self.use_and_kill(after, transport)?;
        let promises: u64 = self.clients.iter().map(Client::promises).sum();
        figures.replays += u32::from(dumpe2fs(&self.image())?.has_feature("needs_recovery"));
        let judge = self.judge_of(round);
        self.judge(judge)
            .with_context(|| format!("judged by {judge:?}"))?;
        self.go_on()?;
        figures.rounds += 1;
        figures.operations += operations;
        figures.promises += promises;
        figures.orphans_max = figures.orphans_max.max(orphans);
        println!(
            "round {round:3}: {transport:?} killed after {:3} ms, {operations:5} operations and \
             {orphans:3} orphans, {promises:3} promises kept, {judge:?} first, {:.1} s",
            after.as_millis(),
            start.elapsed().as_secs_f64()
        );
        Ok(())
    }

    /// Runs the clients until the server is dead.
    fn use_and_kill(&mut self, after: Duration, transport: Transport) -> Result<Worked> {
        let mount = self.server.mount_via(&self.image(), transport)?;
        let root = mount.path();
        std::thread::scope(|scope| {
            let workers: Vec<_> = self
                .clients
                .iter_mut()
                .map(|client| scope.spawn(|| client.work(root)))
                .collect();
            std::thread::sleep(after);
            let killed = mount.kill();
            let mut all = Worked::default();
            for worker in workers {
                all += worker.join().expect("a client does not panic")?;
            }
            killed.map(|()| all)
        })
    }

    /// The judge of a round, in turn; the kernel only for kinds that it can mount here.
    fn judge_of(&self, round: u32) -> Judge {
        match round % 3 {
            0 => Judge::OurMount,
            1 if self.kind.fits_kernel() => Judge::Kernel,
            _ => Judge::E2fsck,
        }
    }

    /// Recovers and checks a copy by the kernel or e2fsck. Our mount needs no copy: it follows in
    /// [`Self::go_on`].
    fn judge(&self, judge: Judge) -> Result<()> {
        let copy = self.scratch.path().join("copy");
        match judge {
            Judge::OurMount => return Ok(()),
            Judge::Kernel => {
                std::fs::copy(self.image(), &copy)?;
                self.check_by_kernel(&copy, "")?;
            }
            Judge::E2fsck => {
                std::fs::copy(self.image(), &copy)?;
                let verdict = e2fsck_repair(&copy, Repair::Preen)?;
                ensure!(verdict.is_repaired(), "e2fsck -p: {verdict}");
                self.check_repaired(&copy)?;
            }
        }
        clean(&copy)?;
        Ok(std::fs::remove_file(&copy)?)
    }

    fn check_repaired(&self, copy: &Path) -> Result<()> {
        if self.kind.fits_kernel() {
            return self.check_by_kernel(copy, "ro");
        }
        let mount = self.server.mount(copy, Rights::ReadOnly)?;
        self.check(mount.path())?;
        mount.unmount()
    }

    fn check_by_kernel(&self, copy: &Path, options: &str) -> Result<()> {
        let mount = KernelMount::new(copy, options)?;
        self.check(mount.path())?;
        mount.unmount()
    }

    /// Our mount recovers the image; the clients check it and record its state.
    fn go_on(&mut self) -> Result<()> {
        let mount = self.server.mount(&self.image(), Rights::ReadWrite)?;
        self.check(mount.path()).context("after our own recovery")?;
        for client in &mut self.clients {
            client.record_state(mount.path())?;
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
