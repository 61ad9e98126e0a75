//! Checks for forbidden words and names.

use super::problem::Problem;
use super::source::Source;

/// Markers of unfinished work.
const UNFINISHED_CODE: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
const UNFINISHED_COMMENTS: [&str; 3] = ["FIXME", "TODO", "XXX"];
/// Paths of a developer's machine. Each is split in two, because this file is checked too.
const MACHINE_PATHS: [&str; 4] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
];
/// Module names without a meaning.
const EMPTY_NAMES: [&str; 7] = [
    "utils", "util", "common", "manager", "prelude", "helpers", "misc",
];
/// Directories that may contain `unsafe`: two crates, without their tests and examples.
const MAY_BE_UNSAFE: [&str; 2] = ["crates/device/src/", "crates/fuse/src/"];

pub(super) fn check(source: &Source) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |line: usize, what: String| {
        problems.push(Problem {
            file: source.path.clone(),
            line,
            what,
        });
    };
    for (index, line) in source.parts.code.lines().enumerate() {
        for word in UNFINISHED_CODE.iter().filter(|word| line.contains(**word)) {
            add(index + 1, format!("{word} is left"));
        }
        if has_unsafe(line) && !MAY_BE_UNSAFE.iter().any(|dir| source.path.starts_with(dir)) {
            add(
                index + 1,
                "unsafe belongs into crates/{device,fuse}/src only".into(),
            );
        }
    }
    for (index, line) in source.parts.comments.lines().enumerate() {
        for word in UNFINISHED_COMMENTS
            .iter()
            .filter(|word| has_word(line, word))
        {
            add(index + 1, format!("{word} is left"));
        }
    }
    for (index, line) in source.text.lines().enumerate() {
        for path in MACHINE_PATHS.iter().filter(|path| line.contains(**path)) {
            add(index + 1, format!("{path} is a path of one machine"));
        }
    }
    for name in EMPTY_NAMES.iter().filter(|name| is_named(source, name)) {
        add(
            0,
            format!("a module called {name} says nothing: name it after its job"),
        );
    }
    problems
}

/// Matches the whole word only: `unsafe_code` differs.
fn has_unsafe(line: &str) -> bool {
    line.split(|one: char| !one.is_alphanumeric() && one != '_')
        .any(|one| one == "unsafe")
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|one: char| !one.is_alphanumeric())
        .any(|one| one == word)
}

fn is_named(source: &Source, name: &str) -> bool {
    let path = source.path.trim_end_matches(".rs");
    path.split('/').any(|part| part == name)
        || source
            .parts
            .code
            .lines()
            .any(|line| line.trim() == format!("mod {name} {{"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        check(&Source::new(path, text)).len()
    }

    #[test]
    fn words_count_only_where_they_mean_something() {
        let file = "crates/a/src/lib.rs";
        assert_eq!(
            problems(
                file,
                "//! \"unsafe { todo!()\"\nconst A: &str = \"todo!\";\n"
            ),
            0
        );
        assert_eq!(problems(file, "fn a() { todo!() } // TODO\n"), 2);
        assert_eq!(problems(file, "fn a() { unsafe { b() } }\n"), 1);
        assert_eq!(
            problems("crates/device/src/lib.rs", "fn a() { unsafe { b() } }\n"),
            0
        );
        for file in ["crates/device/tests/it/a.rs", "crates/fuse/examples/a.rs"] {
            assert_eq!(problems(file, "//! x\nfn a() { unsafe{ b() } }\n"), 1);
        }
        let forbids = "//! x\n#![forbid(unsafe_code)]\n";
        assert_eq!(problems(file, forbids), 0);
        assert_eq!(
            problems(file, concat!("const A: &str = \"/ho", "me/x\";\n")),
            1
        );
        assert_eq!(problems("crates/a/src/utils.rs", "//! x\n"), 1);
        assert_eq!(problems("crates/a/src/util/x.rs", "//! x\n"), 1);
    }
}
