//! Damaged images through the commands that read and repair them: `log`, `undelete`, `debug`,
//! `get --rescue` and `fsck -fy`, each as a process with a limit of time and of address space.
//!
//! Each round has one seed. It damages a copy of an image and runs the commands on it. None may
//! panic, run past its limit or be ended by a signal; an image that `fsck` calls sound is sound for
//! a second run, and stays as it is. What `e2fsck -fn` says about it is counted, and its seeds are
//! printed.

mod images;
mod program;

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use uext4_testkit::oracle::{self, scratch_dir};

use images::{bases, damage};
pub use program::Tool;

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Rounds.
    pub rounds: u64,
    /// Images that a repair changed and left sound.
    pub repaired: u64,
    /// Images with a problem that is left, or that no command opens.
    pub left: u64,
    /// Sound images in which e2fsck finds something.
    pub doubted: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rounds, repaired, left, doubted) =
            (self.rounds, self.repaired, self.left, self.doubted);
        write!(
            f,
            "{rounds} images: {repaired} repaired, {left} left with a message; e2fsck finds \
             something in {doubted} of the others"
        )
    }
}

/// Runs rounds for `time`, with seeds from `first_seed` on.
///
/// The first failed round, with its seed.
pub fn run(tool: &Tool, time: Duration, first_seed: u64) -> Result<Figures> {
    let scratch = scratch_dir()?;
    let bases = bases(scratch.path())?;
    let mut figures = Figures::default();
    let start = Instant::now();
    let mut seed = first_seed;
    while start.elapsed() < time {
        let (image, what) = damage(&bases, seed, scratch.path())?;
        let kept = scratch.path().join("kept");
        std::fs::copy(&image, &kept)?;
        if let Err(error) = round(tool, &image, scratch.path(), seed, &mut figures) {
            let to = std::env::temp_dir().join(format!("uext4-seed-{seed}.img"));
            std::fs::copy(&kept, &to)?;
            let to = to.display();
            return Err(error.context(format!("seed {seed}, image in {to}: {what}")));
        }
        seed += 1;
    }
    Ok(figures)
}

fn round(
    tool: &Tool,
    image: &Path,
    scratch: &Path,
    seed: u64,
    figures: &mut Figures,
) -> Result<()> {
    figures.rounds += 1;
    let found = scratch.join("found");
    read(tool, image, &found)?;
    if found.exists() {
        std::fs::remove_dir_all(&found)?;
    }
    change(tool, image, seed)?;
    repair(tool, image, seed, figures)
}

/// The commands that only read.
fn read(tool: &Tool, image: &Path, found: &Path) -> Result<()> {
    let before = std::fs::read(image)?;
    let name = text(image)?;
    tool.run(&["log", "--json", name])?;
    std::fs::create_dir_all(found)?;
    let to = found.join("deleted");
    tool.run(&["undelete", name, "--to", text(&to)?])?;
    let to = found.join("rescued");
    tool.run(&["get", "-r", "--rescue", name, "/", text(&to)?])?;
    let shown = SHOWN.iter().flat_map(|command| ["-c", command]);
    let debug: Vec<_> = ["debug", name].into_iter().chain(shown).collect();
    tool.run(&debug)?;
    ensure!(
        std::fs::read(image)? == before,
        "a command that reads wrote"
    );
    Ok(())
}

/// What `debug` shows.
const SHOWN: &[&str] = &[
    "show superblock",
    "show journal",
    "show mmp",
    "show group 0",
    "show group 1",
    "show inode /",
    "show inode <8>",
    "show inode <12>",
    "show extents <8>",
    "show extents <12>",
    "show directory /",
    "show directory /a",
    "show xattrs /a",
    "show block 1",
];

/// One more damage, by `debug -w`.
fn change(tool: &Tool, image: &Path, seed: u64) -> Result<()> {
    let inode = 11 + seed % 60;
    let command = match seed % 5 {
        0 => format!("set inode <{inode}> links_count {}", seed % 4),
        1 => format!("set inode <{inode}> mode 0x{:x}", seed % 0x1_0000),
        2 => format!("set group 0 block_bitmap {}", seed % 4000),
        3 => format!("set node <{inode}> root depth {}", seed % 7),
        _ => format!(
            "mark block {} {}",
            seed % 3000,
            ["used", "free"][seed as usize / 5 % 2]
        ),
    };
    tool.run(&["debug", "-w", "-y", text(image)?, "-c", &command])?;
    Ok(())
}

fn repair(tool: &Tool, image: &Path, seed: u64, figures: &mut Figures) -> Result<()> {
    let fsck = ["fsck", "-fy", text(image)?];
    let first = tool.run(&fsck)?;
    if first > FSCK_REPAIRED {
        figures.left += 1;
        return Ok(());
    }
    figures.repaired += u64::from(first == FSCK_REPAIRED);
    let after = std::fs::read(image)?;
    let second = tool.run(&fsck)?;
    ensure!(second == 0, "a second repair ends with {second}");
    let changed = differing(&after, &std::fs::read(image)?);
    ensure!(
        changed.is_empty(),
        "a second repair changed KiB {changed:?}"
    );
    let verdict = oracle::e2fsck(image)?;
    if !verdict.is_silent() {
        figures.doubted += 1;
        println!("seed {seed}: e2fsck: {:?}", verdict.problems());
    }
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path in UTF-8")
}

/// Status of fsck(8): errors were corrected.
const FSCK_REPAIRED: i32 = 1;

/// The KiB in which the images differ, without the superblock, whose times and counts may change.
fn differing(before: &[u8], after: &[u8]) -> Vec<usize> {
    let pairs = before.chunks(1024).zip(after.chunks(1024));
    let changed = pairs.enumerate().filter(|(_, (old, new))| old != new);
    changed.map(|(at, _)| at).filter(|at| *at != 1).collect()
}
