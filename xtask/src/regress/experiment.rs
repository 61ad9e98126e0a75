//! What is measured of a build: experiments of the lab, and times of the tool.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::Build;

/// Files in each directory of the tree that `uext4 build` takes.
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
    /// `uext4 build` and `uext4 check`, with so many directories.
    Tool(usize),
}

/// The paths that are compared before a release.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment::Lab(&["fallocate2", "--workers", "1,2,64", "--systems", "uext4"]),
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
    Experiment::Tool(100),
];

impl Experiment {
    /// Its name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Lab(arguments) => arguments.first().copied().unwrap_or("uext4-lab"),
            Self::Tool(_) => "build",
        }
    }

    /// Those of [`EXPERIMENTS`] with these names; all, if there is no name.
    ///
    /// # Errors
    /// No experiment has a name.
    pub(super) fn of_names(names: &[String]) -> Result<Vec<Self>> {
        if names.is_empty() {
            return Ok(EXPERIMENTS.to_vec());
        }
        names
            .iter()
            .map(|name| {
                let found = EXPERIMENTS.iter().find(|one| one.name() == name);
                let Some(found) = found else {
                    let all: Vec<&str> = EXPERIMENTS.iter().map(Self::name).collect();
                    bail!(
                        "no experiment is called {name}: --only takes {}",
                        all.join(", ")
                    );
                };
                Ok(*found)
            })
            .collect()
    }

    pub(super) fn run(&self, build: &Build) -> Result<Vec<Measured>> {
        match self {
            Self::Lab(arguments) => of_lab(&build.lab, arguments),
            Self::Tool(dirs) => of_tool(&build.tool, *dirs),
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
    ensure!(!found.is_empty(), "{} measured nothing", name_of(&command));
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

fn of_tool(tool: &Path, dirs: usize) -> Result<Vec<Measured>> {
    let dir = tempfile::tempdir().context("a directory for an image")?;
    let tree = dir.path().join("tree");
    for number in 0..dirs {
        let sub = tree.join(format!("{number}"));
        std::fs::create_dir_all(&sub)?;
        for file in 0..FILES_PER_DIR {
            std::fs::write(sub.join(format!("{file}")), vec![b'x'; FILE_BYTES])?;
        }
    }
    let image = dir.path().join("image");
    let built = seconds(Command::new(tool).arg("build").arg(&image).arg(&tree))?;
    let checked = seconds(Command::new(tool).arg("check").arg(&image))?;
    let files = dirs * FILES_PER_DIR;
    let timed = |what: &str, seconds: f64| Measured {
        name: format!("uext4 {what}, {files} files"),
        unit: "1/s".to_owned(),
        value: files as f64 / seconds,
    };
    Ok(vec![timed("build", built), timed("check", checked)])
}

fn seconds(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    output_of(command)?;
    Ok(start.elapsed().as_secs_f64())
}

/// The standard output of a command that must end with status 0.
fn output_of(command: &mut Command) -> Result<String> {
    let name = name_of(command);
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{name} cannot start"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name} ended with {}: {}",
        output.status,
        errors.lines().next().unwrap_or("no message")
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The program and what it does: its first argument.
fn name_of(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name();
    let words = program.into_iter().chain(command.get_args().take(1));
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
