//! Append-only and immutable files under every way to write.

use crate::support::{Mounted, run};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Calls that no safe library offers.
const SCRIPT: &str = include_str!("guarded.py");

/// What the script prints.
fn said(args: &[&str], path: &Path) -> Vec<String> {
    let mut command = Command::new("timeout");
    let command = command.args(["30", "python3", "-c", SCRIPT]);
    let output = command.args(args).arg(path).output();
    let output = output.expect("timeout is there");
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {wrong}");
    let text = String::from_utf8(output.stdout).expect("it is plain");
    text.lines().map(str::to_owned).collect()
}

/// As ext4 answers, but for a mapping, which the kernel grants: there `msync` answers.
#[test]
fn an_append_only_file_keeps_its_bytes() {
    for words in [&[][..], &["through"]] {
        let mut mounted = Mounted::with(&["-b", "4096"], words);
        let path = mounted.path("log");
        fs::write(&path, "old data").unwrap();
        run("chattr", &[&"+a", &path]);
        for way in [
            "setfl",
            "setfl-end",
            "noappend",
            "mapping",
            "punch",
            "zero",
            "copy",
            "ftruncate",
            "truncate",
            "o_trunc",
            "open",
        ] {
            assert_eq!(said(&[way], &path), ["EPERM"], "{way} {words:?}");
        }
        let append = "for nr in $(seq 50); do printf '%01000d' $nr >>\"$0\"; done";
        run("sh", &[&"-c", &append, &path]);
        assert_eq!(fs::read(&path).unwrap()[..8], *b"old data");
        mounted.unmount();
        mounted.mount(words);
        let now = fs::read(&path).unwrap();
        assert_eq!((&now[..8], now.len()), (&b"old data"[..], 50_008));
        assert!(now.ends_with(b"0050"));
        run("chattr", &[&"-a", &path]);
        assert_eq!(said(&["setfl"], &path), ["done"]);
        mounted.unmount();
    }
}

/// A log that is open for appending goes on; what is there does not change.
#[test]
fn descriptors_older_than_append_only_append() {
    let mut mounted = Mounted::new();
    let path = mounted.path("log");
    fs::write(&path, vec![b'a'; 9000]).unwrap();
    let answers = said(&["+a"], &path);
    assert_eq!(answers[0], "done");
    assert_eq!(answers.last().unwrap(), "EPERM", "{answers:?}");
    mounted.unmount();
    mounted.mount(&[]);
    let now = fs::read(&path).unwrap();
    assert_eq!(now.len(), 9000 + 3_000_004, "{answers:?}");
    assert!(now.ends_with(b"zkept"), "{answers:?}");
    assert_eq!(now[..5], *b"aMaaa", "{answers:?}");
    assert_eq!(now[4096..4102], *b"dirtya");
    assert!(now[9000..3_009_000].iter().all(|byte| *byte == b'z'));
    mounted.unmount();
}

#[test]
fn descriptors_older_than_immutable_write_nothing() {
    for words in [&[][..], &["through"]] {
        let mut mounted = Mounted::with(&["-b", "4096"], words);
        let path = mounted.path("fixed");
        fs::write(&path, vec![b'a'; 9000]).unwrap();
        let answers = said(&["+i"], &path);
        assert_eq!(answers.len(), 6);
        assert!(!answers.contains(&"done".to_owned()), "{answers:?}");
        let expect = |now: &[u8]| {
            assert_eq!(now.len(), 9000);
            assert_eq!(now[..5], *b"aMaaa", "{words:?} {answers:?}");
            assert_eq!(now[4096..4102], *b"dirtya", "{words:?} {answers:?}");
            assert!(now[4101..].iter().all(|byte| *byte == b'a'));
        };
        expect(&fs::read(&path).unwrap());
        mounted.unmount();
        mounted.mount(words);
        expect(&fs::read(&path).unwrap());
        mounted.unmount();
    }
}
