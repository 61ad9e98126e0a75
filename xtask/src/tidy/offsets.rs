//! Checks that numbers are read from and written to the bytes of a disk in `format` only.
//!
//! Its readers and writers are private, so other crates can only convert a number by themselves.

use super::problem::Problem;
use super::source::Source;

const CONVERSIONS: [&str; 4] = [
    "from_le_bytes",
    "to_le_bytes",
    "from_be_bytes",
    "to_be_bytes",
];

/// Files that may convert, by the start of their paths, and the reason. Test code may, too: a judge
/// shares no code with what it judges.
const EXCEPTIONS: [(&str, &str); 10] = [
    ("crates/format/", "is the one place"),
    ("crates/testkit/", "damages images without our code"),
    ("crates/exerciser/", "has records of its own in files"),
    ("crates/lab/", "makes images without our code"),
    ("crates/sync/src/rng.rs", "random bytes"),
    ("crates/mkfs/src/entropy.rs", "random bytes"),
    ("crates/tools/src/numbers.rs", "the text of a UUID"),
    (
        "crates/fs/src/cache/dcache/schedules.rs",
        "names that are numbers",
    ),
    (
        "crates/device/src/partition/",
        "partition tables, which are below the file system",
    ),
    (
        "crates/image/",
        "containers, which are around the file system",
    ),
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
        |line| CONVERSIONS.iter().any(|name| line.contains(name)),
        "bytes of a disk become numbers in `uext4_format`: add an accessor there",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let problems = check(&Source::new(path, text));
        problems.into_iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn conversions_are_found_outside_format_and_tests() {
        let text = "let a = u32::from_le_bytes(b);\n// to_be_bytes\nlet c = d.to_be_bytes();\n\
                    #[cfg(test)]\nmod tests {\n    use to_le_bytes;\n}\n";
        assert_eq!(lines("crates/fs/src/a.rs", text), [1, 3]);
        for excepted in ["crates/format/src/a.rs", "crates/fs/src/a/tests.rs"] {
            assert!(lines(excepted, text).is_empty());
        }
    }
}
