//! The tool `uext4`: makes, mounts, inspects, changes and recovers ext4 images.
//!
//! Layout: `cli` says what can be asked, `commands` has one file per command, `image` opens what
//! they work on, `failure` is how they fail, `foreign`
//! says what an image is that holds no ext4; `helper`
//! understands `mount(8)` and `umount(8)`. `transfer` brings trees in and out.
//! Invariants: a command that only reads never writes to the image: a journal that needs replay is
//! replayed in memory.
//!
//! It is a library, so that `xtask` serves its mounts by the very code of `uext4 mount`.
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod date;
mod failure;
mod foreign;
mod helper;
mod image;
mod numbers;
mod reproducible;
mod show;
mod transfer;

use clap::Parser;
use std::ffi::OsString;
use std::process::ExitCode;

/// Does what this command line says, the name of the program in front.
pub fn run(args: Vec<OsString>) -> ExitCode {
    let caller = helper::Caller::of(&args);
    let done = match caller.meant(args) {
        Ok(Some(args)) => commands::run(cli::Cli::parse_from(args).command),
        Ok(None) => Ok(()),
        Err(failure) => Err(failure),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(caller),
    }
}
