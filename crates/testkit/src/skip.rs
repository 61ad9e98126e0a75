//! Tests that this machine cannot run.
//!
//! A skipped test prints a line that begins with `=== SKIPPED`, and appends the same to the file
//! that `UEXT4_SKIPPED` names, because the harness hides what a passing test prints. `make test`
//! ends with a table of that file. In continuous integration (`CI=true`) a skip is a failure.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use crate::oracle::{in_ci, is_installed};

/// The bit of `CAP_SYS_ADMIN` in `/proc/self/status`.
const CAP_SYS_ADMIN: u32 = 21;

/// Returns `can`. If it is false, `test` is skipped because it needs `needs`.
///
/// # Panics
/// In continuous integration, if `can` is false.
pub fn can_or_skip(test: &str, can: bool, needs: &str) -> bool {
    if !can {
        assert!(!in_ci(), "{test} needs {needs}, and CI may not skip it");
        record(test, needs);
    }
    can
}

/// As [`can_or_skip`] with false, for what is missing in continuous integration too.
pub fn record(test: &str, needs: &str) {
    eprintln!("=== SKIPPED: {test} needs {needs} ===");
    let Some(list) = std::env::var_os("UEXT4_SKIPPED") else {
        return;
    };
    let opened = OpenOptions::new().create(true).append(true).open(&list);
    let written =
        opened.and_then(|mut file| file.write_all(format!("{needs}\t{test}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", list.display()));
}

/// Whether this process may mount: it has `CAP_SYS_ADMIN`, which root of a container may lack.
pub fn may_mount() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set >> CAP_SYS_ADMIN & 1 == 1)
}

/// Whether this process is root and may give files to others; if not, `test` is skipped.
///
/// # Panics
/// As [`can_or_skip`].
pub fn root_or_skip(test: &str) -> bool {
    can_or_skip(test, rustix::process::geteuid().is_root(), "root")
}

/// Whether this device node opens for reading and writing.
pub fn opens(device: impl AsRef<Path>) -> bool {
    let opened = OpenOptions::new().read(true).write(true).open(device);
    opened.is_ok()
}

/// Whether the tool can mount here, by itself or through `fusermount3`; if not, `test` is skipped.
///
/// # Panics
/// As [`can_or_skip`].
pub fn fuse_or_skip(test: &str) -> bool {
    let can = opens("/dev/fuse") && (may_mount() || is_installed("fusermount3"));
    can_or_skip(
        test,
        can,
        "a mount through FUSE (/dev/fuse, and root or fusermount3)",
    )
}

/// Whether these programs are installed; if not, `test` is skipped.
///
/// # Panics
/// As [`can_or_skip`].
pub fn programs_or_skip(test: &str, names: &[&str]) -> bool {
    let missing: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| !is_installed(name))
        .collect();
    can_or_skip(
        test,
        missing.is_empty(),
        &format!("the programs {}", missing.join(", ")),
    )
}
