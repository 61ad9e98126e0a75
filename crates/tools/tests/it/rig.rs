//! Runs the tool on an image in a private directory.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;
use uext4_testkit::{oracle, wait};

/// Exit status for an image in use.
const BUSY: i32 = 5;

/// A directory with the image `disk.img` in it, made by the tool.
pub(crate) struct Rig {
    dir: TempDir,
}

impl Rig {
    /// An empty directory.
    pub(crate) fn empty() -> Self {
        Self {
            dir: oracle::scratch_dir().expect("a scratch directory"),
        }
    }

    /// A directory with an image of 64 MiB, made with these arguments of `uext4 mkfs`.
    pub(crate) fn new(mkfs: &[&str]) -> Self {
        let rig = Self::empty();
        let fixed = ["mkfs", "disk.img", "--size", "64M", "-q"];
        rig.ok(&[&fixed, mkfs].concat());
        rig
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.path("disk.img")
    }

    /// Runs the tool in the directory.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uext4"));
        command.current_dir(self.dir.path()).args(args);
        command.output().expect("the tool starts")
    }

    /// Runs the tool with these environment variables.
    pub(crate) fn run_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uext4"));
        command.envs(variables.iter().copied());
        command.current_dir(self.dir.path()).args(args);
        command.output().expect("the tool starts")
    }

    /// Starts the tool.
    pub(crate) fn start(&self, args: &[&str], input: Stdio) -> Child {
        // The program that runs the tests may ignore SIGINT, and would pass that on.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_uext4")]);
        command.current_dir(self.dir.path()).args(args);
        command
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn().expect("the tool starts")
    }

    /// Waits until the child has a new file in the directory open, which may have no name yet.
    pub(crate) fn wait_for_new_file(&self, child: &Child) {
        let directory = self.dir.path().canonicalize().expect("it exists");
        let own = format!("/proc/{}/fd", child.id());
        wait::until("the new file is open", || {
            let files = std::fs::read_dir(&own).ok()?.flatten();
            let mut files = files.filter_map(|file| std::fs::read_link(file.path()).ok());
            files.find(|file| file.parent() == Some(&directory))
        });
    }

    /// Runs the tool with this standard input.
    pub(crate) fn fed(&self, input: &[u8], args: &[&str]) -> Output {
        let mut child = self.start(args, Stdio::piped());
        let mut stdin = child.stdin.take().expect("it is piped");
        // A tool that refuses its arguments does not read its input.
        let _ = stdin.write_all(input);
        drop(stdin);
        child.wait_with_output().expect("it ends")
    }

    /// As [`Rig::run`], with retries while the image is in use. A child that another test forks
    /// holds all open files and their locks until its exec.
    fn run_when_free(&self, args: &[&str]) -> Output {
        wait::until("the image is free", || {
            Some(self.run(args)).filter(|output| output.status.code() != Some(BUSY))
        })
    }

    /// Runs the tool, which must succeed without messages. Returns its output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run_when_free(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "{args:?}: {:?}: {said}",
            output.status
        );
        assert_eq!(said, "", "{args:?} is silent on stderr");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Unmounts an image with recorded errors; the tool must report them.
    pub(crate) fn umounts_with_errors(&self) {
        let output = self.run(&["umount", "mnt"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(said.contains("errors are recorded"), "{said}");
    }

    /// Runs the tool, which must fail with this status and one line that contains `word`.
    pub(crate) fn fails(&self, status: i32, word: &str, args: &[&str]) {
        let output = match status {
            BUSY => self.run(args),
            _ => self.run_when_free(args),
        };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
        assert!(
            said.contains(word),
            "{args:?} says {said:?} without {word:?}"
        );
        assert!(
            status == 2 || said.lines().count() == 1,
            "{args:?} says {said:?}"
        );
    }

    /// JSON output of the tool.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(args)).expect("JSON")
    }

    pub(crate) fn assert_clean(&self) {
        oracle::assert_clean(&self.image());
    }

    /// Output of a debugfs command.
    pub(crate) fn debugfs(&self, command: &str) -> String {
        oracle::debugfs_one(&self.image(), command).expect("debugfs answers")
    }
}

/// All bytes of a file, for comparison.
pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the file")
}
