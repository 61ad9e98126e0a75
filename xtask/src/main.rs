//! Work on the repository itself: `cargo xtask tidy` keeps the house rules.
//!
//! Each further job is one subcommand in its own module.
#![forbid(unsafe_code)]

mod crash;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Work on the repository itself.
#[derive(Parser)]
#[command(name = "xtask")]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Checks the house rules of STYLE.md that a program can check.
    Tidy,
    /// Crashes the engine at every write, over many seeds.
    Crash(crash::Options),
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let root = repository_root()?;
    match &arguments.job {
        Job::Tidy => tidy::run(&root),
        Job::Crash(options) => crash::run(options),
    }
}

fn repository_root() -> Result<PathBuf> {
    let parent = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    Ok(parent
        .context("xtask lies in the repository")?
        .to_path_buf())
}
