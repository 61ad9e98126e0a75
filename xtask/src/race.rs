//! Runs the concurrent tests, or a mount under load, with ThreadSanitizer. It builds everything,
//! including the standard library, with the nightly toolchain.
//!
//! `xtask/allow/races.txt` lists false positives with their reasons.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;
use xtask::exercise::{self, Plan};
use xtask::server::Server;

/// Target whose standard library is built with the sanitizer.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Packages with filters for the large test suites.
const SUITES: [Suite; 6] = [
    Suite::new("uext4-sync", "--lib", &[]),
    Suite::new("uext4-journal", "--lib", &[]),
    Suite::new("uext4-alloc", "--tests", &[]),
    Suite::new("uext4-device", "--lib", &[]),
    Suite::new(
        "uext4",
        "--test=it",
        &["threads::", "races::", "quota_limits::", "freeze::"],
    ),
    Suite::new("uext4-fuse", "--lib", &[]),
];

/// What to run.
#[derive(Args)]
pub(crate) struct Options {
    /// One package only.
    #[arg(long)]
    package: Option<String>,
    /// Steps of each of the threads that stress the engine.
    #[arg(long, default_value_t = 2000)]
    steps: u64,
    /// No tests: a mount over each transport, used as by `exercise`
    #[arg(long)]
    mount: bool,
    /// Operations on each mount
    #[arg(long, default_value_t = 200_000)]
    operations: u64,
    /// Repeats what the processes on the mount do
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

struct Suite {
    package: &'static str,
    kind: &'static str,
    filters: &'static [&'static str],
}

impl Suite {
    const fn new(
        package: &'static str,
        kind: &'static str,
        filters: &'static [&'static str],
    ) -> Self {
        Self {
            package,
            kind,
            filters,
        }
    }

    fn command(&self, root: &Path, options: &Options) -> Command {
        let mut cargo = cargo(root, "test");
        cargo
            .args(["--package", self.package, self.kind, "--"])
            .args(self.filters)
            .env("TSAN_OPTIONS", tsan_options(root))
            .env("UEXT4_STRESS_STEPS", options.steps.to_string());
        cargo
    }
}

fn cargo(root: &Path, does: &str) -> Command {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(root)
        .args(["+nightly", does, "--quiet", "-Zbuild-std"])
        .args(["--target", TARGET])
        .env("CARGO_TARGET_DIR", target_dir(root))
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
    for name in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC"] {
        cargo.env_remove(name); // of the cargo that runs this program
    }
    cargo
}

fn target_dir(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target).join("race")
}

fn tsan_options(root: &Path) -> String {
    let allowed = root.join("xtask/allow/races.txt");
    format!("suppressions={}", allowed.display())
}

/// Runs `exercise` on a mount of a sanitized server. A server that found a race exits with a
/// special status, which makes its unmount fail.
fn mount(root: &Path, options: &Options) -> Result<()> {
    let mut build = cargo(root, "build");
    build.args(["--package", "uext4-tools", "--bin", "uext4"]);
    let status = build.status().context("run cargo")?;
    ensure!(status.success(), "the tool: see above");
    let program = target_dir(root).join(TARGET).join("debug/uext4");
    println!("race: a mount");
    let plan = Plan {
        server: Server::new(program)
            .with("TSAN_OPTIONS", tsan_options(root))
            // The sanitizer starts a symbolizer process, which the sandbox would forbid.
            .always("no_sandbox"),
        worker: std::env::current_exe().context("the path of this program")?,
        operations: options.operations,
        processes: 16,
        seed: options.seed,
    };
    exercise::run(&plan, Some(exercise::FileSystemKind::ALL[0]), None)
}

/// Runs the suites and stops at the first finding.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    need_nightly()?;
    if options.mount {
        mount(root, options)?;
        println!("race: nothing found");
        return Ok(ExitCode::SUCCESS);
    }
    let suites: Vec<&Suite> = SUITES
        .iter()
        .filter(|suite| {
            options
                .package
                .as_deref()
                .is_none_or(|p| p == suite.package)
        })
        .collect();
    ensure!(!suites.is_empty(), "no suite of that package");
    for suite in suites {
        println!("race: {}", suite.package);
        let status = suite.command(root, options).status().context("run cargo")?;
        ensure!(status.success(), "{}: see above", suite.package);
    }
    println!("race: nothing found");
    Ok(ExitCode::SUCCESS)
}

fn need_nightly() -> Result<()> {
    let asked = Command::new("rustc")
        .args(["+nightly", "--print", "sysroot"])
        .output();
    let sysroot = asked.ok().filter(|out| out.status.success());
    let sysroot = sysroot.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    let source = sysroot.map(|root| Path::new(&root).join("lib/rustlib/src/rust/library/std"));
    ensure!(
        source.is_some_and(|source| source.is_dir()),
        "race needs the nightly toolchain with its source: \
         rustup toolchain install nightly --component rust-src"
    );
    Ok(())
}
