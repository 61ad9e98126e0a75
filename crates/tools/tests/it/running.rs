//! Requests to a running mount: statistics, tunables, quota, trim, ioctls.

use crate::rig::Rig;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use uext4_testkit::{skip, wait};

/// A background mount on `mnt`, unmounted on drop.
struct Mounted(Rig);

impl Mounted {
    /// `None` without FUSE.
    fn new(options: &[&str]) -> Option<Self> {
        Self::of(&[], options)
    }

    /// Mounts an image made with these arguments of mkfs.
    fn of(shape: &[&str], options: &[&str]) -> Option<Self> {
        if !skip::fuse_or_skip("running") {
            return None;
        }
        let rig = Rig::new(shape);
        std::fs::create_dir(rig.path("mnt")).unwrap();
        rig.ok(&[&["mount", "disk.img", "mnt"], options].concat());
        Some(Self(rig))
    }

    /// Writes and syncs 20 files.
    fn used(self) -> Self {
        for nr in 0..20 {
            let path = self.0.path(&format!("mnt/file{nr}"));
            std::fs::write(&path, vec![nr; 50_000]).unwrap();
            std::fs::File::open(&path).unwrap().sync_all().unwrap();
        }
        self
    }

    fn umount(self) {
        self.0.ok(&["umount", "mnt"]);
        self.0.assert_clean();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.0.run(&["umount", "--lazy", "mnt"]);
    }
}

/// Collects the names of all scalars of a JSON value.
fn names(value: &Value, name: &str, found: &mut HashSet<String>) {
    match value {
        Value::Object(map) => map
            .iter()
            .for_each(|(name, value)| names(value, name, found)),
        Value::Array(list) => list.iter().for_each(|value| names(value, name, found)),
        _ => drop(found.insert(name.to_owned())),
    }
}

#[test]
fn info_tells_how_a_mount_is_served() {
    let Some(mounted) = Mounted::new(&["-o", "no_io_uring"]) else {
        return;
    };
    let info = mounted.0.json(&["info", "mnt", "--json"]);
    let (served, point) = (&info["served"], info["mount_point"].as_str().unwrap());
    assert!(served.as_str().unwrap().starts_with("through /dev/fuse"));
    let text = mounted.0.ok(&["info", "mnt"]);
    assert!(text.contains("served       through /dev/fuse, threads: "));
    assert!(text.contains("sandbox      locked in by "), "{text}");
    assert!(text.contains(&format!("mounted on   {point}")), "{text}");
    let wrong = mounted.0.run(&["info", "mnt", "--groups"]);
    assert_eq!(wrong.status.code(), Some(2));
    mounted.umount();
}

#[test]
fn statistics_tell_what_happened_and_are_documented() {
    let Some(mounted) = Mounted::new(&["-o", "freespace_tree"]).map(Mounted::used) else {
        return;
    };
    let stats = mounted.0.json(&["stats", "mnt", "--json"]);
    assert_eq!(stats["engine"], "freespace-tree");
    assert!(stats["trees"]["used_bytes"].as_u64() > Some(0), "{stats}");
    assert!(
        stats["journal"]["requested"].as_u64() >= Some(20),
        "{stats}"
    );
    let text = mounted.0.ok(&["stats", "mnt"]);
    for word in [
        "freespace-tree",
        "transactions",
        "fsync",
        "goal_fast",
        "  logging",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let groups = mounted.0.json(&["stats", "mnt", "--groups", "--json"]);
    let free = |group: &Value| group["free_clusters"].as_u64().unwrap();
    let sum: u64 = groups.as_array().unwrap().iter().map(free).sum();
    let space = mounted.0.json(&["stats", "mnt", "--json"])["space"].take();
    let number = |name: &str| space[name].as_u64().unwrap();
    assert_eq!(
        sum + number("preallocated_clusters"),
        number("free_clusters")
    );
    assert!(
        mounted
            .0
            .ok(&["stats", "mnt", "--groups"])
            .starts_with("#0 ")
    );
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/statistics.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let mut found = HashSet::new();
    names(&stats, "", &mut found);
    names(&groups, "", &mut found);
    let missing: Vec<_> = found
        .iter()
        .filter(|name| !docs.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "not in docs/statistics.md: {missing:?}");
    mounted.umount();
}

/// One sample of the text format.
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Reads `NAME{LABEL="VALUE",...} VALUE`.
fn sample(line: &str) -> Option<Sample> {
    let (name, rest) = line.split_once('{')?;
    let mut labels = BTreeMap::new();
    let mut rest = rest;
    loop {
        let (label, behind) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = behind.char_indices();
        let end = loop {
            match letters.next()? {
                (_, '\\') => value.push(match letters.next()?.1 {
                    'n' => '\n',
                    letter @ ('\\' | '"') => letter,
                    _ => return None,
                }),
                (at, '"') => break at,
                (_, letter) => value.push(letter),
            }
        };
        assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
        rest = &behind[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    let value = rest.strip_prefix("} ")?.parse().ok()?;
    Some(Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

/// The types by metric name, and all samples. Each sample must follow the HELP and TYPE of its
/// metric.
fn parse(text: &str) -> (HashMap<String, String>, Vec<Sample>) {
    let (mut types, mut samples, mut helped) = (HashMap::new(), Vec::new(), String::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help has a text");
            assert!(!help.is_empty());
            helped = name.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type has a name");
            assert_eq!(name, helped, "help comes before");
            assert!(
                types.insert(name.to_owned(), kind.to_owned()).is_none(),
                "{line}"
            );
        } else {
            let sample = sample(line).unwrap_or_else(|| panic!("{line}"));
            let family = sample.name.strip_prefix(helped.as_str());
            let suffix = family.unwrap_or_else(|| panic!("{line} is under {helped}"));
            match types[&helped].as_str() {
                "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix)),
                _ => assert_eq!(suffix, ""),
            }
            samples.push(sample);
        }
    }
    (types, samples)
}

#[test]
fn prometheus_can_read_it() {
    let Some(mounted) = Mounted::new(&["-o", "freespace_tree"]).map(Mounted::used) else {
        return;
    };
    let text = mounted.0.ok(&["stats", "mnt", "--prometheus"]);
    assert!(text.ends_with('\n'));
    let (types, samples) = parse(&text);
    for (name, kind) in &types {
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        assert!(
            name.starts_with("uext4_") && !name.contains("_ns"),
            "{name}"
        );
        assert!(
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || b"_4".contains(&byte))
        );
    }
    let mut seen = HashSet::new();
    let point = std::fs::canonicalize(mounted.0.path("mnt")).unwrap();
    for sample in &samples {
        assert!(
            seen.insert((&sample.name, &sample.labels)),
            "{} twice",
            sample.name
        );
        assert_eq!(sample.labels["mount"], point.to_str().unwrap());
    }
    let stats = mounted.0.json(&["stats", "mnt", "--json"]);
    for (section, prefix) in [("allocator", "alloc"), ("trees", "trees"), ("space", "")] {
        for name in stats[section].as_object().expect("numbers by name").keys() {
            // Hits per criterion are one metric with a label.
            let is_label = section == "allocator"
                && stats["criteria"]
                    .get(name.trim_end_matches("_hits"))
                    .is_some();
            let stem =
                format!("uext4_{prefix}_{}", name.replace("_ns", "_seconds")).replace("__", "_");
            let told = samples.iter().any(|sample| sample.name.starts_with(&stem));
            assert!(is_label || told, "{section} {name} is not told: {stem}");
        }
    }
    let of = |name: &str, request: &str| -> Vec<&Sample> {
        let ours = |sample: &&Sample| {
            sample.name == name
                && sample
                    .labels
                    .get("name")
                    .is_some_and(|name| name == request)
        };
        samples.iter().filter(ours).collect()
    };
    let buckets = of("uext4_request_duration_seconds_bucket", "fsync");
    assert!(buckets.windows(2).all(|two| two[0].value <= two[1].value));
    let bound = |sample: &Sample| sample.labels["le"].parse::<f64>().unwrap();
    assert!(buckets.windows(2).all(|two| bound(two[0]) < bound(two[1])));
    let last = buckets.last().expect("files were synced");
    assert_eq!(last.labels["le"], "+Inf");
    let count = of("uext4_request_duration_seconds_count", "fsync")[0].value;
    assert!(count >= 20.0 && last.value == count);
    assert!(of("uext4_request_duration_seconds_sum", "fsync")[0].value > 0.0);
    mounted.umount();
}

#[test]
fn tunables_are_read_and_set_while_it_runs() {
    let Some(mounted) = Mounted::new(&[]) else {
        return;
    };
    let rig = &mounted.0;
    let all = rig.json(&["tunables", "mnt", "--json"]);
    assert_eq!(all["mb_max_to_scan"], 200);
    assert_eq!(rig.ok(&["tunables", "mnt", "mb_max_to_scan"]), "200\n");
    assert_eq!(
        rig.ok(&["tunables", "mnt", "mb_max_to_scan=7", "mb_stream_req=9"]),
        ""
    );
    let two = rig.ok(&["tunables", "mnt", "mb_max_to_scan", "mb_stream_req"]);
    assert_eq!(two, "mb_max_to_scan=7\nmb_stream_req=9\n");
    rig.fails(1, "no such tunable", &["tunables", "mnt", "mb_scan"]);
    rig.fails(
        1,
        "can only be read",
        &["tunables", "mnt", "frsp_tree_usage=1"],
    );
    let set_only = ["tunables", "mnt", "trigger_fs_error"];
    rig.fails(1, "can only be set", &set_only);
    for (word, more) in [
        ("keeps no user quota", &[][..]),
        ("not supported", &["--set", "7", "--inodes-hard", "9"]),
        ("not supported", &["--space-grace", "7"]),
    ] {
        rig.fails(1, word, &[&["quota", "mnt"], more].concat());
    }
    rig.fails(1, "range", &["tunables", "mnt", "frsp_cache_aggression=4"]);
    rig.fails(2, "whole number", &["tunables", "mnt", "mb_prefetch=many"]);
    rig.fails(
        1,
        "split, and never",
        &["tunables", "mnt", "extent_max_zeroout_kb"],
    );
    rig.fails(
        1,
        "no kernel log",
        &["tunables", "mnt", "warning_ratelimit_burst=5"],
    );
    rig.fails(
        1,
        "only be read",
        &["tunables", "mnt", "session_write_kbytes=5"],
    );
    assert_eq!(rig.ok(&["tunables", "mnt", "errors_count"]), "0\n");
    let written = |name: &str| -> u64 {
        rig.json(&["tunables", "mnt", "--json"])[name]
            .as_u64()
            .unwrap()
    };
    let (before, lifetime) = (
        written("session_write_kbytes"),
        written("lifetime_write_kbytes"),
    );
    let file = std::fs::File::create(rig.path("mnt/file")).unwrap();
    std::io::Write::write_all(&mut &file, &[1; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let added = written("session_write_kbytes") - before;
    assert!((1024..2048).contains(&added), "{added}");
    assert!(written("lifetime_write_kbytes") >= lifetime + added);
    rig.fails(1, "not a mount point", &["stats", "."]);
    rig.fails(1, "not a mount point", &["tunables", "disk.img"]);
    rig.ok(&["umount", "mnt"]);
    let said = rig.debugfs("stats -h");
    let kept = said
        .lines()
        .find_map(|line| line.strip_prefix("Lifetime writes:"));
    assert!(
        kept.is_some_and(|kept| !kept.trim().starts_with('0')),
        "{said}"
    );
    mounted.0.assert_clean();
}

#[test]
fn an_error_can_be_triggered() {
    let Some(mounted) = Mounted::new(&["-o", "errors=remount-ro"]) else {
        return;
    };
    let rig = &mounted.0;
    rig.fails(
        1,
        "triggers nothing",
        &["tunables", "mnt", "trigger_fs_error=0"],
    );
    rig.ok(&["tunables", "mnt", "trigger_fs_error=1"]);
    let told = rig.json(&[
        "tunables",
        "mnt",
        "--json",
        "errors_count",
        "last_error_time",
    ]);
    assert_eq!(told["errors_count"], 1);
    assert!(
        told["last_error_time"].as_u64() > Some(1_700_000_000),
        "{told}"
    );
    let refused = std::fs::create_dir(rig.path("mnt/dir")).expect_err("it is read-only");
    assert_eq!(refused.raw_os_error(), Some(30));
}

#[test]
fn free_space_of_a_running_mount_is_shown_and_trimmed() {
    use std::os::unix::fs::MetadataExt;
    let Some(mounted) = Mounted::new(&[]).map(Mounted::used) else {
        return;
    };
    let rig = &mounted.0;
    let root = std::fs::File::open(rig.path("mnt")).unwrap();
    let free = || rustix::fs::fstatvfs(&root).unwrap().f_bfree;
    let at_first = free();
    let big = rig.path("mnt/big");
    std::fs::write(&big, vec![1; 8 << 20]).unwrap();
    std::fs::File::open(&big).unwrap().sync_all().unwrap();
    std::fs::remove_file(&big).unwrap();
    // The kernel sends FORGET asynchronously.
    wait::until_true("it is freed", || free() + 16 >= at_first);
    // A commit makes the space usable. FUSE does not forward syncfs.
    let after = rig.path("mnt/after");
    std::fs::write(&after, b"later").unwrap();
    std::fs::File::open(&after).unwrap().sync_all().unwrap();
    drop(root);
    let online = rig.json(&["freefrag", "mnt", "--json"]);
    assert!(rig.ok(&["freefrag", "mnt"]).contains('█'));
    let blocks = || std::fs::metadata(rig.image()).unwrap().blocks();
    let before = blocks();
    let said = rig.ok(&["trim", "mnt"]);
    assert!(
        said.contains("trimmed") && blocks() + (7 << 11) <= before,
        "{said}"
    );
    // The kernel forwards the FITRIM ioctl.
    let fstrim = std::process::Command::new("fstrim");
    let output = { fstrim }.arg("-v").arg(rig.path("mnt")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("bytes) trimmed"),
        "{output:?}"
    );
    // As on ext4 the superuser needs the capability.
    let fstrim = ["--bounding-set", "-sys_admin", "fstrim"];
    let mut setpriv = std::process::Command::new("setpriv");
    let output = setpriv.args(fstrim).arg(rig.path("mnt")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("not permitted"), "{output:?}");
    rig.ok(&["umount", "mnt"]);
    let offline = rig.json(&["freefrag", "disk.img", "--json"]);
    assert_eq!(online["free_bytes"], offline["free_bytes"]);
    rig.assert_clean();
}

#[test]
fn the_label_is_told_and_changed_by_ioctl() {
    let Some(mounted) = Mounted::new(&[]) else {
        return;
    };
    let rig = &mounted.0;
    std::fs::write(rig.path("mnt/file"), "").unwrap();
    let label = |bytes: &str| {
        let script = format!(
            "open F, '<', $ARGV[0] or die; my $set = pack('a256', '{bytes}');
             ioctl(F, 0x41009432, $set) or die $!;
             my $told = chr(0) x 256; ioctl(F, 0x81009431, $told) or die $!;
             print unpack('Z*', $told)"
        );
        let perl = std::process::Command::new("perl");
        let output = { perl }
            .args(["-e", &script])
            .arg(rig.path("mnt/file"))
            .output();
        output.unwrap()
    };
    let told = label("sixteen bytes ok");
    assert_eq!(told.stdout, b"sixteen bytes ok", "{told:?}");
    assert!(!label("seventeen is more").status.success());
    rig.ok(&["umount", "mnt"]);
    assert!(rig.debugfs("stats -h").contains("sixteen bytes ok"));
    rig.assert_clean();
}

#[test]
fn quota_of_a_mount_is_told_and_set() {
    let shape = ["-O", "quota,project"];
    let Some(mounted) = Mounted::of(&shape, &["-o", "usrquota"]).map(Mounted::used) else {
        return;
    };
    let rig = &mounted.0;
    let before = rig.json(&["quota", "mnt", "--json"]);
    assert_eq!(before[0]["id"], 0);
    assert!(before[0]["inodes"].as_u64().unwrap() > 20, "{before}");
    let limits = ["--space-hard", "1M", "--inodes-soft", "7"];
    rig.ok(&[&["quota", "mnt", "--set", "4242"][..], &limits].concat());
    rig.ok(&["quota", "mnt", "--space-grace", "77", "--kind", "group"]);
    let after = rig.json(&["quota", "mnt", "--json"]);
    assert_eq!(after[1]["id"], 4242);
    assert_eq!(after[1]["space_hard_bytes"], 1 << 20);
    rig.ok(&["quota", "mnt", "--set", "4242", "--inodes-hard", "9"]);
    let text = rig.ok(&["quota", "mnt"]);
    let line = text.lines().find(|line| line.contains("4242")).unwrap();
    assert!(line.contains("1 MiB") && line.ends_with('9'), "{text}");
    rig.ok(&["umount", "mnt"]);
    rig.assert_clean();
    let told = rig.debugfs("get_quota user 4242");
    let line = told.lines().find(|line| line.contains("4242")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["4242", "0", "0", "1024", "0", "7", "9"], "{told}");
}

/// `uext4 stats --watch` of a mount, and the lines that it prints.
fn watched(rig: &Rig, more: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uext4"));
    command.current_dir(rig.path("")).stdout(Stdio::piped());
    command.args(["stats", "mnt", "--watch"]).args(more);
    let mut child = command.spawn().expect("the tool starts");
    let lines = child.stdout.take().expect("it is piped");
    (child, BufReader::new(lines))
}

#[test]
fn statistics_are_shown_again_with_what_was_added() {
    let Some(mounted) = Mounted::new(&[]) else {
        return;
    };
    let rig = &mounted.0;
    let read = |lines: &mut BufReader<ChildStdout>| {
        let mut line = String::new();
        lines.read_line(&mut line).expect("it is text");
        assert!(!line.is_empty(), "it ended");
        line
    };
    let work = |name: &str| {
        let file = std::fs::File::create(rig.path("mnt").join(name)).unwrap();
        std::io::Write::write_all(&mut &file, &[7; 50_000]).unwrap();
        file.sync_all().unwrap();
    };
    // Each snapshot is one line of JSON.
    let (mut child, mut lines) = watched(rig, &["--json"]);
    let requested = |line: String| -> u64 {
        let stats: Value = serde_json::from_str(&line).expect("a line is JSON");
        stats["journal"]["requested"].as_u64().expect("a number")
    };
    let before = requested(read(&mut lines));
    work("one");
    assert!(requested(read(&mut lines)) > before);
    // Its reader has gone, which is no failure.
    drop(lines);
    assert!(child.wait().unwrap().success());

    let (mut child, mut lines) = watched(rig, &["1"]);
    let mut next = || loop {
        let line = read(&mut lines);
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        if words.first().is_some_and(|word| word == "requested") {
            return words;
        }
    };
    let (first, mut added) = (next(), 0);
    work("two");
    let second = next();
    let number = |word: &String| word.parse::<i64>().expect("a number");
    if let [_, _, word] = &second[..] {
        added = number(word);
    }
    assert_eq!(
        (first.len(), added),
        (2, number(&second[1]) - number(&first[1]))
    );
    assert!(added > 0, "{second:?}");
    drop(lines);
    assert!(child.wait().unwrap().success());
    mounted.umount();
}

#[test]
fn shutdown_writes_what_it_is_told_to() {
    for (flush, late, is_lost) in [
        (&["--flush", "all"][..], true, false),
        (&[], true, false),
        (&["--flush", "log"], true, true),
        (&["--flush", "none"], false, true),
    ] {
        let Some(mounted) = Mounted::new(&["-o", "commit=2000"]).map(Mounted::used) else {
            return;
        };
        let rig = &mounted.0;
        std::fs::create_dir(rig.path("mnt/late")).unwrap();
        rig.ok(&[&["shutdown", "mnt"], flush].concat());
        let refused = std::fs::create_dir(rig.path("mnt/refused")).expect_err("it is shut");
        assert_eq!(refused.raw_os_error(), Some(5), "{flush:?}");
        rig.fails(1, "shut down", &["freeze", "mnt"]);
        let umounted = rig.run(&["umount", "mnt"]);
        assert_eq!(umounted.status.success(), !is_lost, "{umounted:?}");
        if !is_lost {
            rig.assert_clean();
        }
        rig.ok(&["replay", "-q", "disk.img"]);
        rig.assert_clean();
        let listed = rig.ok(&["ls", "disk.img"]);
        assert_eq!(listed.contains("late"), late, "{flush:?}: {listed}");
        assert!(listed.contains("file19"), "{flush:?}: {listed}");
        assert_eq!(
            rig.ok(&["cat", "disk.img", "/file7"]),
            "\u{7}".repeat(50_000)
        );
    }
}
