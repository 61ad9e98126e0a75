//! Checks that code takes locks, atomics, threads and reference counts from `sync`, where the model
//! checker and the rank checks see them.

use super::problem::Problem;
use super::source::Source;

/// Paths of the standard library and of crates that bypass `sync`.
const BYPASSES: [&str; 5] = [
    "std::sync",
    "core::sync",
    "std::thread",
    "alloc::sync",
    "parking_lot",
];

/// Files that may bypass it, by the start of their paths, and the reason. Test code may, too: its
/// locks have no place in the order of the engine.
const EXCEPTIONS: [(&str, &str); 14] = [
    ("crates/sync/", "is the one place"),
    ("crates/testkit/", "uses nothing of ours"),
    ("crates/exerciser/", "uses a mount as any program does"),
    ("crates/judge/", "a test kit"),
    (
        "crates/schedules/",
        "records outside the schedules that it explores",
    ),
    (
        "crates/lab/",
        "measures, and is measured against other libraries",
    ),
    ("xtask/", "runs the tests"),
    (
        "crates/builder/",
        "one builder: a pipeline of threads, no mount",
    ),
    (
        "crates/archive/",
        "decoders in threads of their own, no mount",
    ),
    ("crates/image/", "threads that hash a file, no mount"),
    ("crates/fs/examples/", "what a user of the library writes"),
    ("crates/fsck/examples/", "what a user of the library writes"),
    ("crates/fuse/examples/", "what a user of the library writes"),
    ("crates/tree/examples/", "what a user of the library writes"),
];

pub(super) fn check(source: &Source) -> Vec<Problem> {
    let is_excepted = source.is_test()
        || EXCEPTIONS
            .iter()
            .any(|(start, _)| source.path.starts_with(start));
    if is_excepted {
        return Vec::new();
    }
    source.problems(
        source.lines_outside_tests(),
        |line| BYPASSES.iter().any(|path| line.contains(path)),
        "locks, atomics, threads and reference counts come from `uext4_sync`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        check(&Source::new(path, text)).len()
    }

    #[test]
    fn only_code_of_the_engine_goes_through_sync() {
        let file = "crates/fuse/src/a.rs";
        for path in ["std::sync::Arc", "std::thread", "parking_lot::Mutex"] {
            let text = format!("use {path};\n");
            assert_eq!(problems(file, &text), 1, "{path}");
            assert_eq!(problems("crates/fuse/src/a/tests.rs", &text), 0);
            assert_eq!(problems("crates/lab/src/a.rs", &text), 0);
            let test = format!("#[cfg(test)]\nmod tests {{\n    {text}}}\n");
            assert_eq!(problems(file, &test), 0);
        }
        assert_eq!(problems(file, "fn a() { std::thread::yield_now() }\n"), 1);
        assert_eq!(problems(file, "//! std::sync\nuse uext4_sync::Arc;\n"), 0);
    }
}
