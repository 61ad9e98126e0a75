//! Trees, kills and threads as large as they fit into every test run.

use std::time::Duration;

use uext4_testkit::oracle::KernelMount;
use uext4_testkit::served::ServedMount;
use xtask::commands::{self, Tool};
use xtask::database::{self, Device};
use xtask::server::{Server, Transport};
use xtask::{exercise, fuzz, kill, threads, trees};

const ENTRIES: usize = 800;
const SEED: u64 = 20_260_721;
const KILLS: u32 = 4;

fn server() -> Server {
    Server::new(env!("CARGO_BIN_EXE_xtask"))
}

fn trees(names: &[&str]) {
    let test = "trees through the mount";
    if !(ServedMount::available_or_skip(test) && KernelMount::available_or_skip(test)) {
        return;
    }
    for name in names {
        let config = trees::Config::named(name).expect("a known kind");
        if let Err(error) = trees::run(&server(), ENTRIES, SEED, Some(config)) {
            panic!("{error:?}");
        }
    }
}

/// Three tests, so that they share the cores.
const FIRST: [&str; 6] = [
    "default",
    "blocks-1k",
    "blocks-64k",
    "no-journal",
    "ext2",
    "quota",
];
const SECOND: [&str; 6] = [
    "ext3",
    "uninit-bg",
    "meta-bg",
    "inline-data",
    "orphan-file",
    "few-orphans",
];
const THIRD: [&str; 6] = [
    "no-orphan-file",
    "large-dir",
    "fast-commit",
    "ea-inode",
    "bigalloc",
    "inodes-128",
];

#[test]
fn trees_go_there_and_back_first() {
    trees(&FIRST);
}

#[test]
fn trees_go_there_and_back_second() {
    trees(&SECOND);
}

#[test]
fn trees_go_there_and_back_third() {
    trees(&THIRD);
}

#[test]
fn every_config_is_tested() {
    let mut tested = [&FIRST[..], &SECOND, &THIRD].concat();
    let mut all = trees::Config::ALL.map(|config| config.name);
    tested.sort();
    all.sort();
    assert_eq!(tested, all);
}

#[test]
fn a_killed_server_keeps_its_promises() {
    for name in ["default", "few-orphans"] {
        let kind = trees::Config::named(name).expect("a known kind");
        let figures = kill::kill(&server(), KILLS, SEED, &kind);
        let figures = figures.unwrap_or_else(|error| panic!("{error:?}"));
        assert!(
            figures.rounds == 0 || figures.promises > 0,
            "nothing was promised: {figures}"
        );
    }
}

#[test]
fn threads_agree_with_their_models() {
    for threads in [1, 16] {
        let result = threads::measure(threads, Duration::from_secs(2), SEED);
        assert!(
            result
                .unwrap_or_else(|error| panic!("{error:?}"))
                .operations
                > 0
        );
    }
}

#[test]
fn wounded_images_are_refused_or_served() {
    if !ServedMount::available_or_skip("wounded images through the mount") {
        return;
    }
    match fuzz::run(&server(), Duration::from_secs(8), SEED) {
        Err(error) => panic!("{error:?}"),
        Ok(figures) => assert!(figures.rounds > figures.refused_blindly, "{figures}"),
    }
}

/// Few operations of few processes, on the plain kind and on the one that has most features.
#[test]
fn processes_agree_with_their_models() {
    for (kind, transport) in [
        ("default", Transport::IoUring),
        ("many", Transport::DevFuse),
    ] {
        let plan = exercise::Plan {
            server: server(),
            worker: env!("CARGO_BIN_EXE_xtask").into(),
            operations: 12_000,
            processes: 6,
            seed: SEED,
        };
        let kind = exercise::FileSystemKind::named(kind).expect("a known kind");
        if let Err(error) = exercise::run(&plan, Some(kind), Some(transport)) {
            panic!("{error:?}");
        }
    }
}

/// A database in WAL mode, a few transactions and cuts; a device that lies must be noticed.
#[test]
fn a_database_keeps_its_promises_without_power() {
    for (transport, device) in [
        (Transport::DevFuse, Device::Honest),
        (Transport::IoUring, Device::Honest),
        (Transport::DevFuse, Device::DropsFlushes),
    ] {
        if !database::available_or_skip(transport) {
            continue;
        }
        let plan = database::Plan {
            transactions: 40,
            cuts: 24,
            seed: SEED,
            transport,
            device,
        };
        match (device, database::run(&plan)) {
            (Device::Honest, Ok(figures)) => assert!(figures.promised > 0, "{figures}"),
            (Device::Honest, Err(error)) => panic!("{error:?}"),
            (Device::DropsFlushes, Ok(figures)) => panic!("it saw nothing: {figures}"),
            (Device::DropsFlushes, Err(error)) => {
                let error = format!("{error:#}");
                assert!(error.contains("Cut {"), "not by a cut: {error}");
            }
        }
    }
}

#[test]
fn commands_survive_damaged_images() {
    let tool = Tool::behind(env!("CARGO_BIN_EXE_xtask"), "tool");
    let figures = commands::run(&tool, Duration::from_secs(5), 0).expect("no seed fails");
    assert!(figures.rounds > 0 && figures.repaired > 0, "{figures}");
}

#[test]
fn a_command_that_runs_too_long_or_dies_is_told() {
    let late = Tool::new("sleep").within(1).run(&["3600"]);
    assert!(format!("{late:?}").contains("too long"), "{late:?}");
    let dead = Tool::new("sh").run(&["-c", "kill -9 $$"]);
    assert!(dead.is_err(), "{dead:?}");
    let panicked = Tool::new("sh").run(&["-c", "exit 101"]);
    assert!(panicked.is_err(), "{panicked:?}");
}
