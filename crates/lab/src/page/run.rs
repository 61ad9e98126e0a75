//! Measurements of a report: this program, or its simulated build, as child processes with
//! `--json`. Each shows its rows on the standard error as they finish.

use super::row::Rows;
use crate::cpus::{cpus, stay_on};
use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// This program, on the real machine.
    Lab,
    /// This program as built for the simulator.
    Simulator,
}

/// How long a report may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Depth {
    /// A few minutes in all.
    Quick,
    /// Also rows that take minutes each, and more runs of all.
    Full,
}

/// One command line, without the name of the program, for each depth; `None`: it does not run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) program: Program,
    pub(super) quick: Option<&'static str>,
    pub(super) full: Option<&'static str>,
}

impl Run {
    /// Its command line at this depth.
    pub(super) fn args(&self, depth: Depth) -> Option<&'static str> {
        match depth {
            Depth::Quick => self.quick,
            Depth::Full => self.full,
        }
    }

    /// How a reader repeats it.
    pub(super) fn command(&self, depth: Depth) -> Option<String> {
        let args = self.args(depth)?;
        Some(match self.program {
            Program::Lab => format!("uext4-lab {args}"),
            Program::Simulator => format!("make simulate ARGS=\"{args}\""),
        })
    }
}

/// Measures on the real machine.
pub(super) fn measure(line: &str) -> Result<Rows> {
    child(&std::env::current_exe()?, line)
}

/// Simulates on all CPUs, since virtual time does not depend on the load; returns each line with
/// its rows, in order.
pub(super) fn simulate<'a>(
    simulator: &Path,
    lines: &[&'a str],
) -> Result<Vec<(&'a str, Result<Rows>)>> {
    ensure!(simulator.exists(), "{} is missing", simulator.display());
    let next = AtomicUsize::new(0);
    let work = |cpu: usize| -> Result<Vec<(usize, Result<Rows>)>> {
        stay_on(cpu)?;
        let mut found = Vec::new();
        loop {
            let index = next.fetch_add(1, Relaxed);
            let Some(line) = lines.get(index) else {
                return Ok(found);
            };
            found.push((index, child(simulator, &format!("simulate {line}"))));
        }
    };
    let (work, cpus) = (&work, cpus()?);
    let mut found = thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .into_iter()
            .map(|cpu| scope.spawn(move || work(cpu)))
            .collect();
        let mut found = Vec::new();
        for thread in threads {
            found.extend(thread.join().map_err(|_| anyhow!("a thread panicked"))??);
        }
        anyhow::Ok(found)
    })?;
    found.sort_by_key(|(index, _)| *index);
    Ok(found
        .into_iter()
        .map(|(index, rows)| (lines[index], rows))
        .collect())
}

fn child(program: &Path, line: &str) -> Result<Rows> {
    eprintln!("{line}");
    let output = Command::new(program)
        .args(line.split_whitespace())
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("start {}", program.display()))?;
    ensure!(output.status.success(), "{line}: {}", output.status);
    Rows::parse(&String::from_utf8(output.stdout)?)
}
