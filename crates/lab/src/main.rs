//! `uext4-lab`: experiments that compare uext4 with its peers on the same backing.
//!
//! Layout: an [`experiments`] entry defines the work of one worker, by phase, on a [`client`]: the
//! library in this process, or system calls in one process per worker. A [`stage`] is a fresh file
//! system of one [`system`]; all [`workers`] start each phase at once. Runs of all systems take
//! turns, so that noise affects all of them; [`report`] shows medians.
#![forbid(unsafe_code)]

mod age;
mod allocator;
mod backing;
mod base_lines;
mod calibrate;
mod calibrate_operations;
mod checkpoint;
mod cleanup;
mod cli;
mod client;
mod collection;
mod cpus;
mod durable;
mod experiments;
mod fragmented;
mod measure;
mod memory;
mod mounts;
mod page;
mod report;
mod report_options;
mod scale;
mod shrinker;
#[cfg(simulated)]
mod simulate;
mod simulate_options;
mod stage;
mod system;
mod workers;

use clap::Parser;
use std::process::ExitCode;

/// Threads allocate and free concurrently, also memory of each other, where glibc contends.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("uext4-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
