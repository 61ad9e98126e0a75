//! What is measured of a build: experiments of the lab, and times of the tool.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Build;

/// Directories and files of the tree that `uext4 build` takes.
const DIRS: usize = 100;
const FILES_PER_DIR: usize = 100;
const FILE_BYTES: usize = 4096;

/// A number that a run measured, under the name of its metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    /// Experiment, variant, number of workers and metric.
    pub name: String,
    /// Unit of the value.
    pub unit: String,
    /// The value.
    pub value: f64,
}

/// One command, run on both builds.
#[derive(Clone, Copy, Debug)]
pub enum Experiment {
    /// Arguments of `uext4-lab`.
    Lab(&'static [&'static str]),
    /// `uext4 build` and `uext4 check`.
    Tool,
}

/// The paths that are compared before a release.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment::Lab(&["fallocate2", "--workers", "1,2", "--systems", "uext4"]),
    Experiment::Lab(&[
        "mdtest",
        "--workers",
        "1,2,48",
        "--systems",
        "uext4",
        "--variants",
        "own,shared",
    ]),
    Experiment::Lab(&["fsync", "--workers", "1,16", "--systems", "uext4"]),
    Experiment::Lab(&[
        "mount-names",
        "--workers",
        "1,16",
        "--systems",
        "uext4-mount",
    ]),
    Experiment::Tool,
];

impl Experiment {
    /// Its name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Lab(arguments) => arguments.first().copied().unwrap_or("uext4-lab"),
            Self::Tool => "build and check",
        }
    }

    /// Runs it once.
    pub(super) fn run(&self, build: &Build) -> Result<Vec<Measured>> {
        match self {
            Self::Lab(arguments) => of_lab(&build.lab, arguments),
            Self::Tool => of_tool(&build.tool),
        }
    }
}

fn of_lab(lab: &Path, arguments: &[&str]) -> Result<Vec<Measured>> {
    let mut command = Command::new(lab);
    command.args(arguments).args(["--runs", "1", "--json"]);
    let text = output_of(&mut command)?;
    let lines = text.lines().map(|line| {
        let row: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        measured(&row).with_context(|| format!("not a metric: {line}"))
    });
    let found: Vec<Measured> = lines.collect::<Result<_>>()?;
    ensure!(!found.is_empty(), "{command:?} measured nothing");
    Ok(found)
}

fn measured(row: &Value) -> Option<Measured> {
    let word = |key: &str| row.get(key)?.as_str();
    Some(Measured {
        name: format!(
            "{} {} x{} {}",
            word("experiment")?,
            word("variant")?,
            row.get("workers")?.as_u64()?,
            word("metric")?
        ),
        unit: word("unit")?.to_owned(),
        value: row.get("median")?.as_f64()?,
    })
}

fn of_tool(tool: &Path) -> Result<Vec<Measured>> {
    let dir = tempfile::tempdir().context("a directory for an image")?;
    let tree = dir.path().join("tree");
    for number in 0..DIRS {
        let sub = tree.join(format!("{number}"));
        std::fs::create_dir_all(&sub)?;
        for file in 0..FILES_PER_DIR {
            std::fs::write(sub.join(format!("{file}")), vec![b'x'; FILE_BYTES])?;
        }
    }
    let image = dir.path().join("image");
    let built = seconds(Command::new(tool).arg("build").arg(&image).arg(&tree))?;
    let checked = seconds(Command::new(tool).arg("check").arg(&image))?;
    Ok(vec![timed("build", built), timed("check", checked)])
}

fn timed(what: &str, seconds: f64) -> Measured {
    Measured {
        name: format!("uext4 {what}, {} files", DIRS * FILES_PER_DIR),
        unit: "1/s".to_owned(),
        value: (DIRS * FILES_PER_DIR) as f64 / seconds,
    }
}

fn seconds(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    output_of(command)?;
    Ok(start.elapsed().as_secs_f64())
}

/// The standard output of a command that must end with status 0.
fn output_of(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{command:?} cannot start"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{command:?} ended with {}: {errors}",
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
