//! Checks that tests wait for events: only one file of the test kit sleeps.

use super::problem::Problem;
use super::source::Source;

/// Crates of tests.
const KITS: [&str; 5] = [
    "crates/testkit/",
    "crates/judge/",
    "crates/exerciser/",
    "crates/schedules/",
    "xtask/",
];

/// Files that may sleep, by the start of their paths, and the reason.
const EXCEPTIONS: [(&str, &str); 4] = [
    ("crates/testkit/src/wait.rs", "polls for all others"),
    (
        "crates/sync/src/backend/simulated/tests.rs",
        "sleeps in virtual time",
    ),
    ("xtask/src/kill/", "varies the time until the kill"),
    (
        "crates/fuse/tests/it/storms/",
        "polls with deadlines of its own",
    ),
];

pub(super) fn check(source: &Source) -> Vec<Problem> {
    let starts = |start: &&str| source.path.starts_with(start);
    if EXCEPTIONS.iter().any(|(start, _)| starts(start)) {
        return Vec::new();
    }
    let is_test = source.is_test() || KITS.iter().any(starts);
    let tests = source.test_lines();
    let lines = (1..).zip(source.parts.code.lines());
    source.problems(
        lines.filter(|(nr, _)| is_test || tests.iter().any(|range| range.contains(nr))),
        |line| line.contains("thread::sleep") || line.contains(" sleep("),
        "a test waits for an event: see `uext4_testkit::wait`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        check(&Source::new(path, text)).len()
    }

    #[test]
    fn tests_do_not_sleep_and_code_may() {
        let sleep = "    std::thread::sleep(PAUSE);\n";
        assert_eq!(problems("crates/a/tests/it/b.rs", sleep), 1);
        assert_eq!(
            problems("crates/a/tests/it/b.rs", "    looks(|_| sleep(TIME));\n"),
            1
        );
        assert_eq!(problems("crates/testkit/src/oracle/kernel.rs", sleep), 1);
        assert_eq!(problems("crates/testkit/src/wait.rs", sleep), 0);
        assert_eq!(problems("crates/a/src/b.rs", sleep), 0);
        let module = format!("#[cfg(test)]\nmod tests {{\n{sleep}}}\n");
        assert_eq!(problems("crates/a/src/b.rs", &module), 1);
        assert_eq!(
            problems("crates/a/tests/it/b.rs", "    // thread::sleep\n"),
            0
        );
    }
}
