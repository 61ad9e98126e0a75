//! Runs the damage test of the library over many images, in several processes with a memory limit.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Limit of peak memory per process, in KiB.
const PEAK_MAX_KIB: u64 = 256 << 10;

const TEST: &str = "damage::damaged_images_are_refused_or_survived";

/// Figures that one process printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    wounds: u64,
    noticed: u64,
    peak_kib: u64,
}

/// Runs the test on `images` images, divided among `jobs` processes.
///
/// The test failed (it prints the seed), or it exceeded the memory limit.
pub fn run(root: &Path, images: u64, first_seed: u64, jobs: u64) -> Result<()> {
    let program = build(root)?;
    let jobs = jobs.clamp(1, images.max(1));
    println!("{images} images from seed {first_seed}, {jobs} processes");
    let start = Instant::now();
    let share = |job: u64| images * job / jobs;
    let parts = (0..jobs).map(|job| (first_seed + share(job), share(job + 1) - share(job)));
    let answers: Vec<Result<Figures>> = std::thread::scope(|scope| {
        let workers: Vec<_> = parts
            .map(|(first, count)| {
                scope.spawn({
                    let program = &program;
                    move || part(program, first, count)
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker only waits for its process"))
            .collect()
    });
    let mut total = Figures::default();
    for answer in answers {
        let figures = answer?;
        total.wounds += figures.wounds;
        total.noticed += figures.noticed;
        total.peak_kib = total.peak_kib.max(figures.peak_kib);
    }
    println!(
        "{} wounds, {} noticed, no panic and no hang; at most {} MiB of memory; {:.0} s",
        total.wounds,
        total.noticed,
        total.peak_kib.div_ceil(1024),
        start.elapsed().as_secs_f64()
    );
    ensure!(
        total.peak_kib <= PEAK_MAX_KIB,
        "more than {} MiB of memory",
        PEAK_MAX_KIB >> 10
    );
    Ok(())
}

fn part(program: &Path, first: u64, count: u64) -> Result<Figures> {
    let output = Command::new(program)
        .args(["--exact", TEST, "--nocapture"])
        .env("UEXT4_DAMAGE_FIRST", first.to_string())
        .env("UEXT4_DAMAGE_SEEDS", count.to_string())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.success(),
        "seeds from {first}: {said}{complained}"
    );
    figures(&said).with_context(|| format!("seeds from {first} told no figures: {said}"))
}

/// Reads `W wounds, N noticed, K KiB of memory`.
fn figures(said: &str) -> Option<Figures> {
    let line = said.lines().find(|line| line.contains(" wounds, "))?;
    let mut numbers = line
        .split(", ")
        .filter_map(|part| part.split(' ').next()?.parse().ok());
    Some(Figures {
        wounds: numbers.next()?,
        noticed: numbers.next()?,
        peak_kib: numbers.next()?,
    })
}

/// Builds the tests of the library, with overflow checks, and returns the path of the test program.
fn build(root: &Path) -> Result<PathBuf> {
    let output = Command::new(env!("CARGO"))
        .args(["test", "--package", "uext4", "--test", "it", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("run cargo")?;
    ensure!(output.status.success(), "the tests of uext4 do not build");
    let text = String::from_utf8_lossy(&output.stdout);
    let program = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| Some(PathBuf::from(message.get("executable")?.as_str()?)));
    program.context("cargo names no test program")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_the_test_prints() {
        let said = "running 1 test\n360 wounds, 240 noticed, 31000 KiB of memory\nok";
        let expected = Figures {
            wounds: 360,
            noticed: 240,
            peak_kib: 31000,
        };
        assert_eq!(figures(said), Some(expected));
        assert_eq!(figures("no figures"), None);
    }
}
