//! The machine, the version and the date of a report.

use anyhow::Result;
use std::process::Command;

/// One sentence about them.
pub(super) fn sentence() -> Result<String> {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpus.lines().find(|line| line.starts_with("model name"));
    let name = name.and_then(|line| line.split(": ").nth(1));
    let cores = std::thread::available_parallelism()?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let date = said("date", &["-u", "+%Y-%m-%d"]).unwrap_or_else(|| "unknown day".into());
    let commit = said("git", &["describe", "--always", "--dirty", "--exclude=*"]);
    Ok(format!(
        "{date}, commit {}, {cores} cores of {}, Linux {}.",
        commit.unwrap_or_else(|| "unknown".into()),
        name.unwrap_or("an unknown processor"),
        release.split(['-', '\n']).next().unwrap_or_default(),
    ))
}

/// The output of a program that may be missing.
fn said(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
