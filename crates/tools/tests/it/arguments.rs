//! Usage errors, help, JSON output, README examples and closed pipes.

use crate::rig::Rig;
use std::process::{Command, Stdio};

#[test]
fn wrong_arguments_are_status_two() {
    let rig = Rig::new(&[]);
    let wrong: [&[&str]; 13] = [
        &[],
        &["frobnicate"],
        &["ls"],
        &["ls", "disk.img", "/", "--offset", "1", "--partition", "1"],
        &["chmod", "999", "disk.img", "/"],
        &["chmod", "u+q", "disk.img", "/"],
        &["chown", "nobody", "disk.img", "/"],
        &["chown", ":", "disk.img", "/"],
        &["tune", "-e", "stop", "disk.img"],
        &["mkfs", "x.img", "--size", "1Q"],
        &["mkfs", "x.img", "--size", "64M", "-O", "no_such_feature"],
        &["mkfs", "x.img", "--size", "64M", "-E", "no_such_option=1"],
        &["mkfs", "x.img", "--size", "64M", "-J", "size=many"],
    ];
    for args in wrong {
        assert_eq!(rig.run(args).status.code(), Some(2), "{args:?}");
        assert!(!rig.path("x.img").exists(), "{args:?}");
    }
    rig.fails(
        2,
        "frobnicate",
        &["mount", "-o", "frobnicate", "disk.img", "."],
    );
    rig.fails(1, "`uext4 ls` lists it", &["cat", "disk.img", "/"]);
    rig.fails(
        1,
        "-r works on directories",
        &["rm", "disk.img", "/lost+found"],
    );
}

#[test]
fn options_of_images_are_refused_for_mounts() {
    let rig = Rig::empty();
    std::fs::create_dir(rig.path("mnt")).unwrap();
    let commands: [&[&str]; 6] = [
        &["trim", "mnt"],
        &["resize", "mnt"],
        &["quota", "mnt"],
        &["freefrag", "mnt"],
        &["defrag", "mnt", "/"],
        &["compact", "mnt"],
    ];
    for command in commands {
        for option in ["--offset=1M", "--partition=1", "--journal-path=log"] {
            let name = option.split('=').next().unwrap();
            let said = format!("mnt: {name} is for an image");
            rig.fails(2, &said, &[command, &[option]].concat());
        }
    }
}

#[test]
fn help_teaches_with_examples() {
    let rig = Rig::empty();
    assert!(rig.ok(&["--help"]).contains("Exit status"));
    for command in [
        "mkfs", "mount", "umount", "info", "ls", "get", "put", "replay", "chmod",
    ] {
        assert!(
            rig.ok(&[command, "--help"]).contains("Example"),
            "{command}"
        );
    }
    assert!(rig.ok(&["completions", "bash"]).contains("uext4"));
    rig.ok(&["man", "."]);
    assert!(rig.path("uext4-mkfs.1").exists());
}

#[test]
fn help_is_a_command_with_help() {
    let rig = Rig::empty();
    assert!(rig.ok(&["help", "--help"]).contains("uext4 help mkfs"));
    assert_eq!(rig.ok(&["help"]), rig.ok(&["--help"]));
    assert_eq!(rig.ok(&["help", "mkfs"]), rig.ok(&["mkfs", "--help"]));
    rig.fails(2, "no such command", &["help", "frobnicate"]);
}

#[test]
fn commands_that_change_print_json() {
    let rig = Rig::empty();
    let made = rig.json(&["mkfs", "--json", "disk.img", "64M", "-L", "one"]);
    assert_eq!(made["label"], "one");
    let tuned = rig.json(&["tune", "--json", "disk.img", "-L", "two"]);
    assert_eq!(tuned["label"], "two");
    assert_eq!(tuned["uuid"], made["uuid"]);
    assert_eq!(
        rig.json(&["replay", "--json", "disk.img"])["recovered"],
        false
    );
    let trimmed = &rig.json(&["trim", "--json", "disk.img"])["trimmed_bytes"];
    assert!(trimmed.as_u64().expect("a number") > 1 << 20);
    rig.assert_clean();
}

#[test]
fn times_in_json_are_exact() {
    let rig = Rig::new(&[]);
    let file = std::fs::File::create(rig.path("file")).unwrap();
    let ns = 1_234_567_890_123_456_789;
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(ns);
    file.set_modified(time).unwrap();
    rig.ok(&["put", "disk.img", "file", "/file"]);
    let rows = rig.json(&["ls", "--json", "disk.img", "/file"]);
    assert_eq!(rows[0]["modified_ns"], ns);
    assert_eq!(
        rig.json(&["stat", "--json", "disk.img", "/file"])["modified_ns"],
        ns
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let rig = Rig::new(&[]);
    std::fs::write(rig.path("big"), vec![b'x'; 8 << 20]).unwrap();
    rig.ok(&["put", "disk.img", "big", "/big"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_uext4"));
    command.arg("cat").arg(rig.image()).arg("/big");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), b"".as_slice())
    );
}
