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
mod new_files;
mod numbers;
mod reproducible;
mod show;
mod transfer;

use clap::Parser;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Runs a command line; the first argument is the name of the program.
pub fn run(args: Vec<OsString>) -> ExitCode {
    let caller = helper::Caller::of(&args);
    let done = match caller.meant(args) {
        Ok(Some(args)) => match cli::Cli::try_parse_from(&args) {
            Ok(parsed) => commands::run(parsed.command),
            Err(error) => return refused(&error, &args),
        },
        Ok(None) => Ok(()),
        Err(failure) => Err(failure),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(caller),
    }
}

/// Prints help, or what is wrong with the arguments; `fsck(8)` has a status of its own for these.
fn refused(error: &clap::Error, args: &[OsString]) -> ExitCode {
    let is_fsck = args.get(1).is_some_and(|command| command == "fsck");
    if is_fsck && error.kind() == clap::error::ErrorKind::DisplayVersion {
        // As e2fsck does, whose callers read results from the other stream.
        let _ = writeln!(
            std::io::stderr(),
            "uext4 fsck {}",
            env!("CARGO_PKG_VERSION")
        );
        return ExitCode::SUCCESS;
    }
    // There is nowhere else to say it.
    let _ = error.print();
    match (error.use_stderr(), is_fsck) {
        (false, _) => ExitCode::SUCCESS,
        (true, true) => ExitCode::from(FSCK_MISUSE),
        (true, false) => ExitCode::from(MISUSE),
    }
}

const MISUSE: u8 = 2;
const FSCK_MISUSE: u8 = 16;
