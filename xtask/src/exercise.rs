//! Stress test of one mount by many processes, over both transports and on several kinds of file
//! systems.
//!
//! Each process compares its results with its model ([`uext4_exerciser`]). After each round all
//! processes pause, and the whole tree is compared: before the unmount, through the kernel's ext4,
//! and after the next mount. e2fsck checks the image after the unmount.

use std::fmt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use uext4_exerciser::{Workers, worker};
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::oracle::{KernelMount, mke2fs, scratch_dir};
use uext4_testkit::served::ServedMount;

use crate::server::{Server, Transport};
use crate::trees::judge;

/// Size of the image in bytes; the file is sparse.
const IMAGE_BYTES: u64 = 2 << 30;
/// Number of rounds. All processes pause after each.
const ROUNDS: u64 = 4;

/// A kind of file system: name and options of mke2fs.
#[derive(Clone, Copy, Debug)]
pub struct FileSystemKind {
    /// Name for `--kind` and messages.
    pub name: &'static str,
    options: &'static [&'static str],
}

impl FileSystemKind {
    /// All kinds.
    pub const ALL: [FileSystemKind; 8] = [
        FileSystemKind {
            name: "default",
            options: &["-b", "4096"],
        },
        FileSystemKind {
            name: "blocks-1k",
            options: &["-b", "1024"],
        },
        FileSystemKind {
            name: "inline-data",
            options: &["-b", "4096", "-O", "inline_data"],
        },
        FileSystemKind {
            name: "bigalloc",
            options: &["-b", "4096", "-O", "bigalloc", "-C", "16384"],
        },
        FileSystemKind {
            name: "fast-commit",
            options: &["-b", "4096", "-O", "fast_commit"],
        },
        FileSystemKind {
            name: "quota",
            options: &["-b", "4096", "-O", "quota,project"],
        },
        FileSystemKind {
            name: "no-journal",
            options: &["-b", "4096", "-O", "^has_journal"],
        },
        FileSystemKind {
            name: "many",
            options: &["-b", "1024", "-O", "inline_data,quota,ea_inode,large_dir"],
        },
    ];

    /// The kind of this name.
    pub fn named(name: &str) -> Option<FileSystemKind> {
        Self::ALL.into_iter().find(|kind| kind.name == name)
    }
}

impl ValueEnum for FileSystemKind {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name))
    }
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Server of the mounts.
    pub server: Server,
    /// Program with the command `exercise-process`: this one.
    pub worker: PathBuf,
    /// Operations of all processes on each mount.
    pub operations: u64,
    /// Processes.
    pub processes: u64,
    /// Seed that reproduces the operations of each process.
    pub seed: u64,
}

/// Figures of one mount.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Operations of all processes.
    pub operations: u64,
    /// Time spent in operations.
    pub time: Duration,
    /// Names in the tree at the end.
    pub names: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs_f64();
        let rate = self.operations as f64 / seconds;
        let (operations, names) = (self.operations, self.names);
        write!(
            f,
            "{operations} operations in {seconds:.0} s ({rate:.0}/s), {names} names, no difference"
        )
    }
}

/// Runs all kinds, or one, over both transports, or one.
///
/// The first difference or e2fsck's report, with the seed.
pub fn run(plan: &Plan, kind: Option<FileSystemKind>, transport: Option<Transport>) -> Result<()> {
    let kinds = kind.map_or_else(|| FileSystemKind::ALL.to_vec(), |kind| vec![kind]);
    let transports = Transport::ALL.into_iter();
    let transports: Vec<_> = transports
        .filter(|one| transport.is_none_or(|transport| transport == *one))
        .collect();
    for kind in kinds {
        for transport in &transports {
            exercise(plan, &kind, *transport)?;
        }
    }
    Ok(())
}

/// Runs one kind over one transport; `None` if this machine lacks the means.
///
/// # Errors
/// As [`run`].
pub fn exercise(
    plan: &Plan,
    kind: &FileSystemKind,
    transport: Transport,
) -> Result<Option<Figures>> {
    let what = format!("{} over {transport:?}, seed {}", kind.name, plan.seed);
    let has_judges = ServedMount::available_or_skip(&what) && KernelMount::available_or_skip(&what);
    if !(has_judges && transport.available_or_skip(&what)) {
        return Ok(None);
    }
    let figures = on_fresh_image(plan, kind, transport).with_context(|| what.clone())?;
    println!("{what}: {figures}");
    Ok(Some(figures))
}

fn on_fresh_image(plan: &Plan, kind: &FileSystemKind, transport: Transport) -> Result<Figures> {
    let scratch = scratch_dir()?;
    let image = scratch.path().join("image");
    mke2fs(&image, IMAGE_BYTES, kind.options)?;
    let mut run = Run::start(plan, kind, transport, scratch.path())?;
    let (mut time, mut operations, mut names) = (Duration::ZERO, 0, 0);
    for round in 0..ROUNDS {
        let start = Instant::now();
        operations += run.workers.work(plan.operations / ROUNDS)?;
        time += start.elapsed();
        names = run.turn().with_context(|| format!("round {round}"))?;
    }
    run.workers.dismiss()?;
    run.unmount()?;
    judge::clean("at the end", &run.image)?;
    Ok(Figures {
        operations,
        time,
        names,
    })
}

struct Run<'a> {
    /// Declared first, so that it is dropped before the mount.
    workers: Workers,
    plan: &'a Plan,
    transport: Transport,
    kernel_mounts: bool,
    image: PathBuf,
    /// Symbolic link to the current mount point.
    at: PathBuf,
    mount: Option<ServedMount>,
}

impl<'a> Run<'a> {
    fn start(
        plan: &'a Plan,
        kind: &FileSystemKind,
        transport: Transport,
        scratch: &Path,
    ) -> Result<Self> {
        let (image, at) = (scratch.join("image"), scratch.join("at"));
        let mount = plan.server.mount_via(&image, transport)?;
        symlink(mount.path(), &at)?;
        worker::prepare(&at)?;
        let has_quota = kind.options.iter().any(|option| option.contains("quota"));
        Ok(Self {
            plan,
            transport,
            kernel_mounts: !has_quota || KernelMount::has_quota(),
            image,
            mount: Some(mount),
            workers: Workers::start(plan.processes, |process| command(plan, &at, process))?,
            at,
        })
    }

    /// All processes compare; then the image is remounted, and they compare again. Returns the
    /// number of names.
    fn turn(&mut self) -> Result<usize> {
        self.workers.compare().context("before the unmount")?;
        let before = self.manifest()?;
        self.unmount()?;
        judge::clean("after the unmount", &self.image)?;
        if self.kernel_mounts {
            let seen = judge::by_kernel(&self.image)?;
            compare("as the kernel sees it", &before, &seen)?;
        }
        self.mount_again()?;
        compare("after the next mount", &before, &self.manifest()?)?;
        self.workers.compare().context("after the next mount")?;
        let counted = uext4_exerciser::shared::counted(&worker::shared_dir(&self.at))?;
        let increments = self.workers.increments();
        ensure!(counted == increments, "counted {counted} of {increments}");
        Ok(before.entries.len())
    }

    fn mounted(&self) -> &ServedMount {
        self.mount
            .as_ref()
            .expect("it is mounted but in the middle of a turn")
    }

    fn manifest(&self) -> Result<Manifest> {
        Manifest::of_dir(self.mounted().path())
    }

    fn unmount(&mut self) -> Result<()> {
        let mount = self
            .mount
            .take()
            .expect("it is mounted but in the middle of a turn");
        mount.unmount()
    }

    fn mount_again(&mut self) -> Result<()> {
        let mount = self.plan.server.mount_via(&self.image, self.transport)?;
        std::fs::remove_file(&self.at)?;
        symlink(mount.path(), &self.at)?;
        self.mount = Some(mount);
        Ok(())
    }
}

fn command(plan: &Plan, at: &Path, process: u64) -> Command {
    let mut command = Command::new(&plan.worker);
    command.arg("exercise-process").arg(at);
    command.args([process.to_string(), plan.seed.to_string()]);
    command
}

/// Only access times may differ between mounts, because reading sets them.
fn compare(when: &str, before: &Manifest, seen: &Manifest) -> Result<()> {
    let policy = Policy::default().check(Field::Ctime);
    judge::same(when, before, seen, &policy)
}
