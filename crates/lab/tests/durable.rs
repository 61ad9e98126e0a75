//! Experiments with fsync at tiny size. Times are not checked.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::skip;

const SIZE: [&str; 9] = [
    "--runs",
    "1",
    "--image-mib",
    "64",
    "--journal-mib",
    "4",
    "--seconds",
    "0.05",
    "--json",
];

fn run(mut command: Command, args: &[&str]) -> Output {
    command.args(args).args(SIZE);
    command.output().expect("the program starts")
}

/// The lines of a run that succeeds.
fn lab(args: &[&str]) -> Vec<Value> {
    let output = run(Command::new(env!("CARGO_BIN_EXE_uext4-lab")), args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    let line = |line: &str| serde_json::from_str(line).expect("JSON");
    lines.lines().map(line).collect()
}

/// The values of a metric, by system and variant.
fn values<'a>(lines: &'a [Value], metric: &str) -> Vec<(&'a str, &'a str, f64)> {
    let of_metric = lines.iter().filter(|line| line["metric"] == metric);
    let text = |line: &'a Value, key: &str| line[key].as_str().expect("text");
    let value = |line: &'a Value| {
        let median = line["median"].as_f64().expect("a number");
        (text(line, "system"), text(line, "variant"), median)
    };
    of_metric.map(value).collect()
}

/// One caller shares no commit: each fsync writes and flushes.
#[test]
fn each_fsync_of_one_caller_writes_and_flushes() {
    if !KernelMount::available_or_skip("each_fsync_of_one_caller_writes_and_flushes") {
        return;
    }
    let lines = lab(&["fsync", "--workers", "1", "--count", "20"]);
    for metric in ["requests per fsync", "flushes per fsync"] {
        let values = values(&lines, metric);
        let of = |system: &str| values.iter().filter(|(one, ..)| *one == system).count();
        assert_eq!((of("uext4"), of("kernel-ext4")), (4, 4), "{values:?}");
        assert!(values.iter().all(|(.., value)| *value >= 1.0), "{values:?}");
    }
    let fast = values(&lines, "fast commits");
    let of_kernel = |variant: &str| {
        let mut fast = fast.iter();
        fast.find(|(system, name, _)| (*system, *name) == ("kernel-ext4", variant))
    };
    assert!(of_kernel("append").is_none(), "{fast:?}");
    let (.., commits) = of_kernel("append, fast_commit").expect("the kernel counts them");
    assert!(*commits >= 1.0, "{fast:?}");
}

#[test]
fn callers_share_commits() {
    if !KernelMount::available_or_skip("callers_share_commits") {
        return;
    }
    let task = [
        "fsync",
        "--workers",
        "3",
        "--count",
        "5",
        "--commits",
        "full",
    ];
    let lines = lab(&[&task[..], &["--systems", "uext4,uext4-mount"]].concat());
    // Two variants in process, and over each transport.
    let mounts = values(&lines, "ops").len() - 2;
    assert!([0, 2, 4].contains(&mounts), "{lines:?}");
    let commits = values(&lines, "full commits");
    assert!(
        commits.iter().all(|(.., value)| *value >= 1.0),
        "{commits:?}"
    );
}

#[test]
fn varmail_runs_on_every_system() {
    if !KernelMount::available_or_skip("varmail_runs_on_every_system") {
        return;
    }
    let lines = lab(&["varmail", "--workers", "2", "--count", "20"]);
    for metric in ["ops", "written", "flushes per fsync", "full commits"] {
        let values = values(&lines, metric);
        let of = |system: &str| values.iter().filter(|(one, ..)| *one == system).count();
        assert_eq!(
            (of("uext4"), of("kernel-ext4")),
            (2, 2),
            "{metric}: {values:?}"
        );
    }
    let rates = values(&lines, "ops");
    assert!(rates.iter().all(|(.., value)| *value > 0.0), "{rates:?}");
}

#[test]
fn the_slow_device_serves_all_systems() {
    let test = "the_slow_device_serves_all_systems";
    let has_header = Path::new("/usr/include/nbdkit-plugin.h").exists();
    if !skip::programs_or_skip(test, &["nbdkit", "nbdfuse", "cc"])
        || !skip::can_or_skip(test, has_header, "the header of nbdkit")
        || !KernelMount::available_or_skip(test)
    {
        return;
    }
    let task = [
        "fsync",
        "--devices",
        "slow",
        "--workers",
        "1",
        "--count",
        "5",
    ];
    let lines = lab(&[&task[..], &["--commits", "full", "--variants", "append"]].concat());
    let flushes = values(&lines, "flushes per fsync");
    assert!(flushes.len() >= 2, "{flushes:?}");
    let is_slow = |(_, variant, value): &(&str, &str, f64)| {
        variant.starts_with("append, slow") && *value >= 1.0
    };
    assert!(flushes.iter().all(is_slow), "{flushes:?}");
}

#[test]
fn without_root_one_sentence_says_why() {
    if !KernelMount::available_or_skip("without_root_one_sentence_says_why") {
        return;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(env!("CARGO_BIN_EXE_uext4-lab"));
    let output = run(command, &["varmail"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("needs root"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}
