//! Real programs on the mount: version control, archives, copies, a database, a compiler, a load.

use crate::support::{Mounted, run};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use uext4_testkit::{skip, wait};

/// Rows that the database commits before the disturbance.
const ROWS_MIN: u64 = 300;
const SCRIPT: &str = include_str!("programs.sh");

/// Directories of 50 files in the repository; `UEXT4_FULL` asks for 3,000 files.
fn n_directories() -> &'static str {
    match std::env::var_os("UEXT4_FULL") {
        Some(_) => "60",
        None => "12",
    }
}

#[test]
fn git_archives_copies_and_load() {
    let mut mounted = Mounted::new();
    let output = Command::new("timeout")
        .args(["-k", "5", "300", "sh", "-c", SCRIPT, "programs"])
        .arg(n_directories())
        .current_dir(mounted.root())
        .output()
        .expect("timeout is there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}{errors}", output.status);
    eprint!("{}", skipped(&said));
    mounted.unmount();
}

fn skipped(said: &str) -> String {
    let lines = said.lines().filter(|line| line.starts_with("==="));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn cargo_builds_on_the_mount() {
    let mut mounted = Mounted::new();
    let root = mounted.root();
    fs::create_dir_all(root.join("src")).unwrap();
    let manifest =
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    fs::write(root.join("Cargo.toml"), manifest).unwrap();
    fs::write(
        root.join("src/main.rs"),
        "fn main() { println!(\"built\") }\n",
    )
    .unwrap();
    for _ in 0..2 {
        let output = Command::new("timeout")
            .args(["120", "cargo", "run", "--offline", "--quiet"])
            .env("CARGO_TARGET_DIR", root.join("target"))
            .env_remove("CARGO_BUILD_TARGET_DIR")
            .env_remove("RUSTFLAGS")
            .current_dir(&root)
            .output()
            .expect("timeout is there");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.stdout, b"built\n", "{errors}");
        fs::write(
            root.join("src/main.rs"),
            "fn main() { print!(\"built\\n\") }\n",
        )
        .unwrap();
    }
    mounted.unmount();
}

/// A database in write-ahead-log mode that commits rows one by one and acknowledges each.
struct Database {
    shell: Child,
}

impl Database {
    fn start(dir: &Path) -> Self {
        let acks = fs::File::create(dir.join("acks")).unwrap();
        let mut shell = Command::new("sqlite3")
            .arg("db")
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(acks)
            .stderr(Stdio::null())
            .spawn()
            .expect("sqlite3 is installed");
        let mut input = shell.stdin.take().expect("it is piped");
        std::thread::spawn(move || {
            let setup = "pragma journal_mode=wal; pragma synchronous=full;\n\
                create table if not exists t(a integer primary key, b text);\n";
            let mut sent = input.write_all(setup.as_bytes());
            // The pipe breaks when the shell is killed.
            while sent.is_ok() {
                sent = input.write_all(
                    b"insert into t(b) values(hex(randomblob(300))); \
                   select 'row', max(a) from t;\n",
                );
            }
        });
        Self { shell }
    }

    fn kill(mut self) {
        self.shell.kill().expect("it is our child");
        self.shell.wait().expect("it is our child");
    }
}

/// The last row acknowledged by a complete line.
fn acknowledged(acks: &Path) -> u64 {
    let said = fs::read_to_string(acks).unwrap_or_default();
    let complete = said.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let row = |line: &str| line.strip_prefix("row|")?.parse().ok();
    complete.lines().rev().find_map(row).unwrap_or(0)
}

/// Waits for a few hundred acknowledged rows; returns their number.
fn wait_for_rows(acks: &Path) -> u64 {
    wait::until("rows are acknowledged", || {
        Some(acknowledged(acks)).filter(|n_rows| *n_rows >= ROWS_MIN)
    })
}

/// Checks that the database is intact and has at least that many rows.
fn check(dir: &Path, n_rows: u64) {
    let database = dir.join("db");
    let query = "pragma integrity_check; select max(a), count(*) from t;";
    let said = run("sqlite3", &[&database, &query]);
    let counts = said
        .strip_prefix("ok\n")
        .unwrap_or_else(|| panic!("{said}"));
    let (max, count) = counts.trim().split_once('|').expect("two numbers");
    assert_eq!(max, count);
    let max: u64 = max.parse().expect("a number");
    assert!(
        n_rows >= ROWS_MIN && max >= n_rows,
        "{max} of {n_rows} acknowledged rows"
    );
}

fn sqlite_or_skip() -> bool {
    skip::programs_or_skip("a database", &["sqlite3"])
}

#[test]
fn a_killed_database_keeps_its_rows() {
    if !sqlite_or_skip() {
        return;
    }
    let mut mounted = Mounted::new();
    let acks = mounted.path("acks");
    let database = Database::start(&mounted.root());
    wait_for_rows(&acks);
    database.kill();
    check(&mounted.root(), acknowledged(&acks));
    mounted.unmount();
}

#[test]
fn a_database_outlives_its_server() {
    if !sqlite_or_skip() {
        return;
    }
    let mut mounted = Mounted::new();
    let acks = mounted.path("acks");
    let database = Database::start(&mounted.root());
    let n_rows = wait_for_rows(&acks);
    mounted.kill();
    database.kill();
    run("umount", &[&"-l", &mounted.root()]);
    mounted.mount(&[]);
    check(&mounted.root(), n_rows);
    mounted.unmount();
}
