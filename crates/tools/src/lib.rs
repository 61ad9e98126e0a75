//! The tool `uext4`: makes, mounts, inspects, changes and recovers ext4 images.
//!
//! Layout: `cli` is the command-line grammar; `commands` has one file per command; `image` opens
//! and mounts images; `failure` is the error type; `foreign` identifies devices without ext4;
//! `helper` translates the calls of `mount(8)` and `umount(8)`; `transfer` copies trees in and out.
//! Invariants: a reading command never writes to the image. It replays a journal in memory.
//!
//! The library lets `xtask` serve its mounts with the code of `uext4 mount`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod cli;
mod commands;
mod date;
mod failure;
mod foreign;
mod helper;
mod image;
mod location;
mod numbers;
mod reproducible;
mod show;
mod transfer;

use clap::Parser;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs a command line; the first argument is the name of the program.
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
