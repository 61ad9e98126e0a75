//! Randomized processes on one mount, each checked against a model.
//!
//! `UEXT4_EXERCISER_OPS` sets the total number of operations, `UEXT4_EXERCISER_SEED` the seed,
//! which a failure prints.
//! `xtask exercise` is the full version, with more processes, kinds of file systems and checks.

use crate::support::{Mounted, program};
use std::path::Path;
use std::process::Command;
use uext4_exerciser::{Workers, shared, worker};

const PROCESSES: u64 = 4;
const OPS: u64 = 8_000;
const SEED: u64 = 5;

fn asked(variable: &str, usual: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn command(root: &Path, process: u64, seed: u64) -> Command {
    let mut command = Command::new(program().with_file_name("exercise"));
    command.arg(root);
    command.args([process.to_string(), seed.to_string()]);
    command
}

/// Half of the work, a remount, the other half, another remount; all data are there each time.
fn exercise(mke2fs: &[&str]) {
    let ops = asked("UEXT4_EXERCISER_OPS", OPS);
    let seed = asked("UEXT4_EXERCISER_SEED", SEED);
    let mut mounted = Mounted::with(mke2fs, &[]);
    let root = mounted.root();
    worker::prepare(&root).expect("it is fresh");
    let workers = Workers::start(PROCESSES, |process| command(&root, process, seed));
    let mut workers = workers.expect("all start");
    let told = || format!("{mke2fs:?}, seed {seed}");
    for _ in 0..2 {
        workers
            .work(ops / 2)
            .unwrap_or_else(|error| panic!("{}: {error:?}", told()));
        workers
            .compare()
            .unwrap_or_else(|error| panic!("{}: {error:?}", told()));
        mounted.unmount();
        mounted.mount(&[]);
        workers
            .compare()
            .unwrap_or_else(|error| panic!("{}, next mount: {error:?}", told()));
        let counted = shared::counted(&worker::shared_dir(&root)).expect("it is there");
        assert_eq!(counted, workers.increments(), "{}", told());
    }
    workers.dismiss().expect("no worker fails");
    mounted.unmount();
}

#[test]
fn processes_exercise_blocks_of_4k() {
    exercise(&["-b", "4096"]);
}

#[test]
fn processes_exercise_blocks_of_1k() {
    exercise(&["-b", "1024", "-O", "inline_data,ea_inode"]);
}
