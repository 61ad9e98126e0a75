//! The tool `uext4`: makes, mounts, inspects, changes and recovers ext4 images.
//!
//! Layout: `cli` says what can be asked, `commands` has one file per command, `image` opens what
//! they work on, `failure` is how they fail. `transfer` brings trees in and out.
//! Invariants: a command that only reads never writes to the image: a journal that needs replay is
//! replayed in memory.
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod date;
mod failure;
mod image;
mod numbers;
mod show;
mod transfer;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
