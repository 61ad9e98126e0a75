//! The commands of the README's section "Use", run as they are written, in their order.

use crate::rig::Rig;
use std::path::Path;
use std::process::Command;
use uext4_testkit::skip;

/// The blocks of commands of the section.
fn blocks() -> Vec<&'static str> {
    let readme = include_str!("../../../../README.md");
    let (_, section) = readme.split_once("\n## Use\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("the next one");
    let parts = section.split("\n```sh\n").skip(1);
    parts
        .map(|part| part.split_once("\n```").expect("its end").0)
        .collect()
}

/// Runs each line; `uext4 diff` says 1 for a difference.
fn run(rig: &Rig, block: &str) {
    let tool = Path::new(env!("CARGO_BIN_EXE_uext4"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", tool.parent().expect("a directory").display());
    for line in block.lines().filter(|line| !line.is_empty()) {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "120", "sh", "-c", line]);
        command.current_dir(rig.path("")).env("PATH", &path);
        let output = command.output().expect("timeout is there");
        let expected = i32::from(line.starts_with("uext4 diff "));
        assert_eq!(output.status.code(), Some(expected), "{line}: {output:?}");
    }
}

/// Takes a mount off that a failed command left.
struct Unmounted<'r>(&'r Rig);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        self.0.run(&["umount", "--lazy", "mnt"]);
    }
}

#[test]
fn the_commands_of_the_readme_work_in_their_order() {
    let blocks = blocks();
    assert_eq!(blocks.len(), 4, "{blocks:?}");
    let rig = Rig::empty();
    let _unmounted = Unmounted(&rig);
    for block in blocks {
        let runs = !block.contains("uext4 mount") || skip::fuse_or_skip("the README's mount");
        if runs {
            run(&rig, block);
        } else {
            rig.ok(&["mkfs", "disk.img", "2G", "-q"]);
        }
    }
    let page = std::fs::read_to_string(rig.path("out/index.html"));
    assert_eq!(page.expect("the tree came back"), "<h1>Hello</h1>\n");
    rig.assert_clean();
}
