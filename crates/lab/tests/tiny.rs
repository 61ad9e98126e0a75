//! Every experiment at tiny size, as a smoke test. Times are not checked.

use std::process::Command;
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::skip;

fn lab(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_uext4-lab"))
        .args(args)
        .args([
            "--runs",
            "1",
            "--image-mib",
            "64",
            "--journal-mib",
            "4",
            "--seconds",
            "0.02",
        ])
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Missing peers are named, never an error; the library always runs.
fn rows(args: &[&str], system: &str) -> usize {
    let lines = lab(&[args, &["--json"]].concat());
    let of_system = format!("\"system\":\"{system}\"");
    lines
        .lines()
        .filter(|line| line.starts_with('{') && line.contains(&of_system))
        .count()
}

#[test]
fn mdtest_reports_three_metrics_per_variant_and_worker_count() {
    let args = ["mdtest", "--workers", "1,2", "--count", "30"];
    assert_eq!(rows(&args, "uext4"), 8 * 2 * 3);
}

#[test]
fn fallocate2_runs_every_allocator() {
    assert_eq!(rows(&["fallocate2", "--workers", "2"], "uext4"), 7);
}

#[test]
fn append_counts_extents() {
    let args = ["append", "--workers", "2", "--count", "8"];
    assert_eq!(rows(&args, "uext4"), 2 * 3);
}

#[test]
fn stress_orphan_runs_all_ways_and_the_floor() {
    assert_eq!(rows(&["stress-orphan", "--workers", "2"], "uext4"), 4 * 2);
}

/// The expected number of rows, where mounts are possible.
fn of_mounts(rows: usize) -> usize {
    if std::path::Path::new("/dev/fuse").exists() {
        rows
    } else {
        0
    }
}

#[test]
fn stress_orphan_and_checkpoint_run_through_both_transports() {
    let mut transports = vec!["no_io_uring"];
    transports.extend(RingsSwitch::is_available().then_some("io_uring"));
    for transport in transports {
        let options = [
            "--mount-options",
            transport,
            "--systems",
            "uext4,uext4-mount",
        ];
        let orphans = lab(&[&["stress-orphan", "--workers", "2", "--json"], &options[..]].concat());
        let of_mount = |lines: &str| lines.matches("\"uext4-mount\"").count();
        assert_eq!(of_mount(&orphans), of_mounts(4 * 2), "{orphans}");
        let size = ["--image-mib", "64", "--journal-mib", "4", "--files", "20"];
        let checkpoint = ["checkpoint", "--workers", "2", "--queue-max", "1000"];
        let files = own_lab(&[&checkpoint[..], &size, &options].concat());
        assert_eq!(of_mount(&files), of_mounts(1), "{files}");
    }
}

#[test]
fn parallel_write_runs_every_allocator() {
    let args = ["parallel-write", "--workers", "2", "--count", "1"];
    assert_eq!(rows(&args, "uext4"), 4 * 3);
}

/// Programs read the lines by these keys.
#[test]
fn a_line_has_exactly_the_keys_that_are_documented() {
    let lines = lab(&["append", "--workers", "1", "--count", "8", "--json"]);
    let keys = [
        "experiment",
        "system",
        "variant",
        "workers",
        "metric",
        "unit",
        "median",
        "min",
        "max",
        "runs",
    ];
    for line in lines.lines().filter(|line| line.starts_with('{')) {
        let fields: Vec<_> = line.trim_matches(['{', '}']).split(',').collect();
        let found = fields.iter().filter_map(|field| field.split('"').nth(1));
        assert!(found.eq(keys), "{line}");
    }
    assert!(lines.contains("\"uext4\""), "{lines}");
}

#[test]
fn mounts_are_compared_where_they_can_be() {
    let systems = "uext4,uext4-mount,fuse2fs,kernel-ext4";
    let io = [
        "mount-io",
        "--workers",
        "1",
        "--count",
        "2",
        "--systems",
        systems,
    ];
    assert_eq!(rows(&io, "uext4"), 10);
    let can = of_mounts(1) == 1 || KernelMount::is_available();
    if !skip::can_or_skip("mounts_are_compared_where_they_can_be", can, "a mount") {
        return;
    }
    let all = ["mount", "--workers", "2", "--count", "10"];
    let table = lab(&all);
    let per_row = 5 + 10 + 3;
    let ours = table.lines().filter(|line| line.contains(" uext4-mount "));
    assert!(ours.clone().count() % per_row == 0, "{table}");
    if table.contains(" kernel-ext4 ") {
        let of_kernel = |line: &str| line.split(' ').next_back().map(str::parse::<f64>);
        assert!(table.contains("of kernel"), "{table}");
        assert!(
            ours.map(of_kernel)
                .all(|ratio| matches!(ratio, Some(Ok(_)))),
            "{table}"
        );
    }
    let names = [
        "mount-names",
        "--workers",
        "2",
        "--count",
        "10",
        "--systems",
        systems,
    ];
    assert_eq!(rows(&names, "uext4"), 5);
    let create = [
        "mount-create",
        "--workers",
        "2",
        "--count",
        "40",
        "--systems",
        systems,
    ];
    assert_eq!(rows(&create, "uext4"), 1);
}

#[test]
fn the_table_and_the_drawing_name_what_was_measured() {
    let drawing = std::env::temp_dir().join(format!("uext4-lab-{}.svg", std::process::id()));
    let path = drawing.to_str().expect("a path of UTF-8");
    let args = [
        "mdtest",
        "--workers",
        "1",
        "--count",
        "10",
        "--systems",
        "uext4",
        "--svg",
        path,
    ];
    let table = lab(&args);
    let picture = std::fs::read_to_string(&drawing).expect("the drawing");
    std::fs::remove_file(&drawing).expect("the drawing goes");
    for word in ["create", "stat", "remove", "uext4", "1/s"] {
        assert!(table.contains(word), "{word} is not in\n{table}");
        assert!(picture.contains(word), "{word} is not drawn");
    }
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
}

#[test]
fn an_unknown_variant_is_refused_with_the_known_ones() {
    let output = Command::new(env!("CARGO_BIN_EXE_uext4-lab"))
        .args(["mdtest", "--variants", "wrong"])
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("own, shared"),
        "{errors}"
    );
}

fn own_lab(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_uext4-lab"))
        .args(args)
        .args(["--runs", "1", "--json"])
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn default_sizes_go_together() {
    let task = ["mdtest", "--workers", "1", "--count", "10"];
    let lines = own_lab(&[&task[..], &["--systems", "uext4", "--variants", "own"]].concat());
    assert_eq!(lines.lines().count(), 3, "{lines}");
}

#[test]
fn checkpoint_tells_shares_and_queues() {
    let size = ["--image-mib", "64", "--journal-mib", "4", "--files", "20"];
    let args = [
        "checkpoint",
        "--workers",
        "2",
        "--queue-max",
        "10000",
        "--systems",
        "uext4",
    ];
    let lines = own_lab(&[&args[..], &size].concat());
    assert_eq!(lines.lines().count(), 2 * 2 + 4 * 6, "{lines}");
}

#[test]
fn shrinker_compares_two_algorithms_on_two_loads() {
    let lines = own_lab(&[
        "shrinker",
        "--workers",
        "4",
        "--blocks",
        "1500",
        "--memory-kib",
        "16",
    ]);
    // Per clock the longest call, p99.9 and the mean, calls and drops; the kernel has two numbers.
    let there = |needle: &str| lines.lines().filter(|line| line.contains(needle)).count();
    let kernel = 2 * there("\"kernel-ext4\"").min(2);
    let mount = 8 * there("\"uext4-mount\"").min(2);
    assert_eq!(lines.lines().count(), 4 * 8 + mount + kernel, "{lines}");
    let calls = lines.lines().filter(|line| line.contains("\"calls\""));
    assert!(
        calls.clone().all(|line| !line.contains("\"median\":0")),
        "{lines}"
    );
    assert_percentiles_are_not_above_the_longest(&lines);
}

/// Checks each variant by each clock; with one run every number is that of the run.
fn assert_percentiles_are_not_above_the_longest(lines: &str) {
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let number = |line: &serde_json::Value| {
        let name = |key: &str| line[key].as_str().expect("text").to_owned();
        let place = (name("system"), name("variant"), name("metric"));
        (place, line["median"].as_f64().expect("a number"))
    };
    let numbers: std::collections::BTreeMap<_, _> = lines.map(|line| number(&line)).collect();
    let mut compared = 0;
    for ((system, variant, metric), p999) in &numbers {
        let Some(clock) = metric.strip_prefix("p99.9 call, ") else {
            continue;
        };
        let other = |name: &str| {
            let metric = format!("{name} call, {clock}");
            numbers[&(system.clone(), variant.clone(), metric)]
        };
        let (worst, mean) = (other("worst"), other("mean"));
        let said = format!("{system} {variant} {clock}: {mean}, {p999}, {worst}");
        assert!(*p999 <= worst && mean <= worst && *p999 > 0.0, "{said}");
        compared += 1;
    }
    assert!(compared >= 8, "two clocks of four variants");
}

#[test]
fn scale_counts_names_and_asks_e2fsck() {
    let output = Command::new(env!("CARGO_BIN_EXE_uext4-lab"))
        .args(["scale", "--files", "2500", "--systems", "uext4", "--json"])
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    // Four steps with their memory and two e2fsck runs, in one directory and in a tree.
    let lines = String::from_utf8_lossy(&output.stdout).lines().count();
    assert_eq!(lines, 2 * (4 + 4 + 2), "{errors}");
}

#[test]
fn a_report_is_written_again_from_its_record() {
    let dir = std::env::temp_dir().join(format!("uext4-lab-report-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let row = r#"{"experiment":"fallocate2","system":"uext4","variant":"linear","workers":1,
        "metric":"fallocate","unit":"1/s","median":1234567.0}"#;
    let record =
        format!(r#"{{"machine":"a machine","depth":"Quick","rows":[{row}],"failures":[]}}"#);
    let path = dir.join("old.json");
    std::fs::write(&path, record).expect("the record");
    let [path, out] = [&path, &dir].map(|path| path.to_str().expect("a path of UTF-8"));
    let ends = Command::new(env!("CARGO_BIN_EXE_uext4-lab"))
        .args(["report", "--quick", "--record", path, "--out", out])
        .status();
    assert!(ends.expect("the program starts").success());
    for name in ["report.html", "report.md", "record.json"] {
        let text = std::fs::read_to_string(dir.join(name)).expect("it is written");
        assert!(text.contains("a machine"), "{name}");
        let number = if name == "record.json" {
            "1234567"
        } else {
            "1 234 567"
        };
        assert!(text.contains(number), "{name}");
    }
    std::fs::remove_dir_all(&dir).expect("the directory goes");
}
