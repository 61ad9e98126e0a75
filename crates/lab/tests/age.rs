//! The aging experiment at small size. The program itself compares the image with the workload and
//! asks e2fsck.

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use uext4_testkit::oracle::KernelMount;

const ARGS: [&str; 14] = [
    "age",
    "--json",
    "--runs",
    "1",
    "--image-mib",
    "64",
    "--journal-mib",
    "4",
    "--overwrites",
    "2",
    "--utilisations",
    "50,90",
    "--seed",
    "5",
];

/// Median by system, variant and metric.
type Numbers = BTreeMap<(String, String, String), f64>;

fn age() -> Numbers {
    let output = Command::new(env!("CARGO_BIN_EXE_uext4-lab"))
        .args(ARGS)
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    let number = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let text = |key: &str| line[key].as_str().expect("text").to_owned();
        let key = (text("system"), text("variant"), text("metric"));
        (key, line["median"].as_f64().expect("a number"))
    };
    lines.lines().map(number).collect()
}

#[test]
fn every_allocator_ages_the_same_files() {
    let numbers = age();
    let mut ways = vec![
        ("uext4", "linear"),
        ("uext4", "optimized"),
        ("uext4", "freespace-tree"),
    ];
    if KernelMount::is_available() {
        ways.extend([("kernel-ext4", "linear"), ("kernel-ext4", "optimized")]);
    }
    // Three of the writing, seven of the files, fifteen of the free space.
    assert_eq!(numbers.len(), ways.len() * 2 * 25, "{numbers:?}");
    let number = |(system, variant): (&str, &str), metric: &str| {
        let key = (system.to_owned(), variant.to_owned(), metric.to_owned());
        numbers[&key]
    };
    for percent in [50, 90] {
        let all = |metric: &str| {
            let metric = format!("{percent} %: {metric}");
            ways.iter()
                .map(move |way| number(*way, &metric))
                .collect::<Vec<_>>()
        };
        let files = all("files");
        assert!(
            files
                .iter()
                .all(|count| *count == files[0] && *count > 100.0),
            "{files:?}"
        );
        let extents = all("extents per file");
        assert!(
            extents.iter().all(|count| (1.0..20.0).contains(count)),
            "{extents:?}"
        );
    }
    let fragmented = |way: &(&str, &str)| number(*way, "90 %: fragmented files");
    let most = ways.iter().map(fragmented).fold(0.0, f64::max);
    assert!(most > 0.5 && most < 50.0, "{most} % of the files at most");
}
