//! The tests in which threads meet, under ThreadSanitizer: a build of its own, of the standard
//! library too, with the nightly toolchain.
//!
//! What it finds and is no race stands in `xtask/allow/races.txt`, each with its reason.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;

/// The target whose standard library is built with the detector.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Packages, and a filter for the tests of those that are large.
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
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let allowed = root.join("xtask/allow/races.txt");
        let mut cargo = Command::new("cargo");
        cargo
            .current_dir(root)
            .args([
                "+nightly",
                "test",
                "--quiet",
                "-Zbuild-std",
                "--target",
                TARGET,
            ])
            .args(["--package", self.package, self.kind, "--"])
            .args(self.filters)
            .env("CARGO_TARGET_DIR", PathBuf::from(target).join("race"))
            .env("RUSTFLAGS", "-Zsanitizer=thread")
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
            .env(
                "TSAN_OPTIONS",
                format!("suppressions={}", allowed.display()),
            )
            .env("UEXT4_STRESS_STEPS", options.steps.to_string());
        for name in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC"] {
            cargo.env_remove(name); // of the cargo that runs this program
        }
        cargo
    }
}

/// Runs the suites; the first that finds something ends the run.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    need_nightly()?;
    let wanted = |suite: &&Suite| {
        options
            .package
            .as_deref()
            .is_none_or(|p| p == suite.package)
    };
    let suites: Vec<&Suite> = SUITES.iter().filter(wanted).collect();
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
