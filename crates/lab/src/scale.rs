//! Very many files, in one directory and in a tree: created, looked up, listed and removed, each on
//! a fresh mount, with the library's memory use and `e2fsck -fn` after each change.
//!
//! The image is sparse and its tables are not zeroed in advance, so that ten million files take
//! about 3 GB of memory.

use crate::cleanup::Cleanup;
use crate::client::{Client, LibraryClient, SystemClient};
use crate::experiments::{Clock, Unit};
use crate::measure::{Key, Results, Series, Words, progress};
use crate::memory;
use crate::stage::{Setup, Stage, WorkerAccess};
use crate::system::{self, System};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use uext4_testkit::oracle::{self, Program};

const EXPERIMENT: &str = "scale";
/// Placement of the files: all in one directory, or in directories of a thousand.
pub(crate) const VARIANTS: [&str; 2] = ["one-directory", "tree"];
const FILES_PER_DIR: u64 = 1000;
/// Bytes of an inode, plus those of its name and its part of an index.
const BYTES_PER_FILE: u64 = 256 + 96;
const OTHER_BYTES: u64 = 512 << 20;
const SPARE_INODES: u64 = 1000;

/// Parameters chosen by the user.
pub(crate) struct Plan {
    pub(crate) files: u64,
    pub(crate) variants: Vec<&'static str>,
    pub(crate) systems: Vec<System>,
    pub(crate) mount_options: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    LookUp,
    List,
    Remove,
}

impl Step {
    const ALL: [Step; 4] = [Step::Create, Step::LookUp, Step::List, Step::Remove];

    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::LookUp => "look up",
            Self::List => "list",
            Self::Remove => "remove",
        }
    }

    fn changes(self) -> bool {
        matches!(self, Self::Create | Self::Remove)
    }
}

pub(crate) fn run(plan: &Plan) -> Result<Results> {
    let systems: Vec<System> = system::present(&plan.systems).collect();
    let progress = progress((plan.variants.len() * systems.len() * Step::ALL.len()) as u64);
    let mut series = Vec::new();
    for &variant in &plan.variants {
        for &system in &systems {
            let mut fixture = Fixture::new(plan, variant, system)?;
            for step in Step::ALL {
                let name = step.name();
                progress.set_message(format!("{} {variant} {name}", system.name()));
                let done = fixture
                    .step(plan, step)
                    .with_context(|| format!("{}, {variant}, {name}", system.name()))?;
                if let Some(first) = done.first() {
                    let mut words = Words::new(&first.key);
                    done.iter()
                        .for_each(|one| words.add(&one.metric, one.median(), one.unit));
                    words.show(&progress);
                }
                series.extend(done);
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    let missing = system::missing(&plan.systems);
    Ok(Results { series, missing })
}

/// A file system, with its set of files.
struct Fixture {
    dir: TempDir,
    cleanup: Cleanup,
    system: System,
    variant: &'static str,
    files: u64,
}

impl Fixture {
    fn new(plan: &Plan, variant: &'static str, system: System) -> Result<Self> {
        let dir = oracle::scratch_dir()?;
        let mut cleanup = Cleanup::start()?;
        cleanup.watch(dir.path())?;
        let fixture = Self {
            dir,
            cleanup,
            system,
            variant,
            files: plan.files.max(1),
        };
        let inodes = fixture.files + fixture.dirs() + SPARE_INODES;
        let size_bytes = inodes * BYTES_PER_FILE * 5 / 4 + OTHER_BYTES;
        let image = fixture.image();
        std::fs::File::create(&image)?.set_len(size_bytes)?;
        Program::new("mke2fs")?
            .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256"])
            .args(["-J", "size=256", "-m", "0", "-N", &inodes.to_string()])
            .arg(&image)
            .run_ok()?;
        Ok(fixture)
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image.img")
    }

    fn dirs(&self) -> u64 {
        match self.variant {
            "tree" => self.files.div_ceil(FILES_PER_DIR),
            _ => 1,
        }
    }

    /// Runs one step on a mount of its own; returns its costs.
    fn step(&mut self, plan: &Plan, step: Step) -> Result<Vec<Series>> {
        memory::begin()?;
        let stage = self.mount(plan)?;
        let place = stage.access();
        let done = self.work(&place, step);
        drop(place);
        let torn_down = stage.tear_down();
        let elapsed = done?;
        torn_down?;
        let peak = memory::peak_mib()?;
        let rate = self.files as f64 / elapsed.as_secs_f64().max(1e-9);
        let mut samples = vec![(step.name().to_owned(), Unit::PerSecond, rate)];
        if self.system == System::Uext4 {
            // For the whole process: the allocator may still hold memory of earlier steps.
            let metric = format!("peak memory to {}", step.name());
            samples.push((metric, Unit::Mebibytes, peak));
        }
        if step.changes() {
            let start = crate::workers::now(Clock::Wall);
            self.check()?;
            let took = crate::workers::now(Clock::Wall).saturating_sub(start);
            let metric = format!("e2fsck after {}", step.name());
            let ms = took.as_secs_f64() * 1e3;
            samples.push((metric, Unit::Milliseconds, ms));
        }
        Ok(samples
            .into_iter()
            .map(|sample| self.series(sample))
            .collect())
    }

    fn mount(&mut self, plan: &Plan) -> Result<Stage> {
        let setup = Setup {
            options: if self.system.is_ours() {
                plan.mount_options.clone()
            } else {
                String::new()
            },
            ..Setup::default()
        };
        let (image, scratch) = (self.image(), self.dir.path());
        Stage::mount(self.system, &image, scratch, &setup, &mut self.cleanup)
    }

    fn client(&self, place: &WorkerAccess) -> Result<Box<dyn Client>> {
        Ok(match place {
            WorkerAccess::Library(filesystem) => Box::new(LibraryClient::new(filesystem.clone())?),
            WorkerAccess::Directory(dir) => Box::new(SystemClient::new(dir)?),
        })
    }

    /// Runs the step in all directories; returns the time.
    fn work(&self, place: &WorkerAccess, step: Step) -> Result<Duration> {
        let start = crate::workers::now(Clock::Wall);
        let mut left = self.files;
        for nr in 0..self.dirs() {
            let here = match self.variant {
                "tree" => left.min(FILES_PER_DIR),
                _ => left,
            };
            left -= here;
            let mut client = self.client(place)?;
            let dir = format!("directory.{nr}");
            if step == Step::Create {
                client.make_dir(&dir)?;
            }
            client.enter(&dir)?;
            in_one(&*client, step, here)?;
        }
        Ok(crate::workers::now(Clock::Wall).saturating_sub(start))
    }

    fn check(&self) -> Result<()> {
        let image: &Path = &self.image();
        let verdict = oracle::e2fsck(image)?;
        ensure!(verdict.is_clean(), "e2fsck: {:?}", verdict.problems());
        Ok(())
    }

    fn series(&self, (metric, unit, value): (String, Unit, f64)) -> Series {
        Series {
            key: Key {
                experiment: EXPERIMENT,
                system: self.system,
                variant: self.variant.into(),
                workers: 1,
            },
            metric,
            unit,
            samples: vec![value],
        }
    }
}

fn in_one(client: &dyn Client, step: Step, files: u64) -> Result<()> {
    if step == Step::List {
        let found = client.list()?;
        ensure!(
            found == files,
            "{found} names are listed, {files} are there"
        );
        return Ok(());
    }
    for nr in 0..files {
        let name = format!("file.{nr}");
        match step {
            Step::Create => client.create(&name)?,
            Step::LookUp => client.stat(&name)?,
            _ => client.remove(&name)?,
        }
    }
    Ok(())
}
