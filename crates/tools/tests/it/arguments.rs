//! Wrong arguments, help, pipes.

use crate::rig::Rig;
use std::process::{Command, Stdio};

#[test]
fn wrong_arguments_are_status_two() {
    let rig = Rig::new(&[]);
    let wrong: [&[&str]; 10] = [
        &[],
        &["frobnicate"],
        &["ls"],
        &["ls", "disk.img", "/", "--offset", "1", "--partition", "1"],
        &["chmod", "999", "disk.img", "/"],
        &["chown", "nobody", "disk.img", "/"],
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
