//! pjdfstest, a POSIX conformance suite: a test that passes on the kernel's ext4 passes here.

use crate::support::Mounted;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use uext4_testkit::oracle::{self, KernelMount};
use uext4_testkit::skip;

/// Tests that pass on the kernel's ext4 only. glibc recognizes ext4 by its magic number and answers
/// `pathconf(_PC_LINK_MAX)` with 127 for FUSE, so the suite skips the test. Our limit is the
/// kernel's: 65,000.
const EXCEPTIONS: &[(&str, &str)] = &[("link::link_count_max", "skipped")];

/// Minimum number of tests; fewer mean that the suite did not run.
const TESTS_MIN: usize = 350;

/// Two users of every Linux, and a sleep longer than a tick. The suite remounts by type name, which
/// needs an installed helper, hence no tests on a file system remounted read-only.
const CONFIG: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// `target/tools/bin/pjdfstest`, where `make test` installs it.
fn suite() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = root.join("target/tools/bin/pjdfstest");
    program.exists().then_some(program)
}

/// Result of each test: `ok`, `skipped` or `FAILED`.
fn run(suite: &Path, config: &Path, at: &Path, second: &Path) -> BTreeMap<String, String> {
    let readable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(at, readable).expect("we are the superuser");
    let output = Command::new("timeout")
        .args(["-k", "5", "300"])
        .arg(suite)
        .arg("-c")
        .arg(config)
        .arg("-p")
        .arg(at)
        .arg("-s")
        .arg(second)
        .output()
        .expect("timeout is there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let result = |line: &str| {
        let (name, how) = line.split_once(char::is_whitespace)?;
        let how = how.trim();
        let is_result = name.contains("::") && ["ok", "skipped", "FAILED"].contains(&how);
        is_result.then(|| (name.to_owned(), how.to_owned()))
    };
    let results: BTreeMap<_, _> = said.lines().filter_map(result).collect();
    assert!(
        results.len() >= TESTS_MIN,
        "{} tests: {said}",
        results.len()
    );
    results
}

#[test]
fn what_the_kernel_passes_we_pass() {
    let Some(suite) = suite() else {
        skip::can_or_skip(
            "what_the_kernel_passes_we_pass",
            false,
            "pjdfstest (`make tools`)",
        );
        return;
    };
    if !KernelMount::available_or_skip("what_the_kernel_passes_we_pass") {
        return;
    }
    let dir = oracle::scratch_dir().unwrap();
    let config = dir.path().join("pjdfstest.toml");
    std::fs::write(&config, CONFIG).unwrap();
    let mut mounted = Mounted::new();
    let (_kept, image) =
        oracle::mke2fs_image(crate::support::IMAGE_BYTES, &["-b", "4096"]).unwrap();
    let kernel = KernelMount::new(&image, "").unwrap();
    // Each mount is the other's second file system, for tests across two.
    let theirs = run(&suite, &config, kernel.path(), &mounted.root());
    let ours = run(&suite, &config, &mounted.root(), kernel.path());
    let differ = |(name, how): &(&String, &String)| {
        let here = ours.get(*name).map_or("missing", String::as_str);
        *how == "ok" && here != "ok" && !EXCEPTIONS.contains(&(name.as_str(), here))
    };
    let failed: Vec<_> = theirs.iter().filter(differ).collect();
    assert!(
        failed.is_empty(),
        "these pass on the kernel's ext4: {failed:?}"
    );
    kernel.unmount().unwrap();
    mounted.unmount();
}
