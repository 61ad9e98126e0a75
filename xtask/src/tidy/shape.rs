//! Checks line width, file length and module headers.

use super::problem::Problem;
use super::source::Source;

const WIDTH_MAX_CHARS: usize = 100;
const FILE_MAX_LINES: usize = 800;

pub(super) fn check(source: &Source) -> Vec<Problem> {
    let mut problems = too_wide(source);
    problems.extend(too_long(source));
    problems.extend(headless(source));
    problems
}

fn problem(source: &Source, line: usize, what: String) -> Problem {
    Problem {
        file: source.path.clone(),
        line,
        what,
    }
}

fn too_wide(source: &Source) -> Vec<Problem> {
    let lines = source.text.lines().enumerate();
    let wide = lines.filter(|(_, line)| line.chars().count() > WIDTH_MAX_CHARS);
    wide.map(|(index, _)| problem(source, index + 1, format!("wider than {WIDTH_MAX_CHARS}")))
        .collect()
}

fn too_long(source: &Source) -> Option<Problem> {
    if source.is_test() {
        return None;
    }
    let test_lines: usize = source.test_lines().into_iter().map(Iterator::count).sum();
    let lines = source.text.lines().count() - test_lines;
    let what = format!("{lines} lines without tests, the limit is {FILE_MAX_LINES}: cut it");
    (lines > FILE_MAX_LINES).then(|| problem(source, 0, what))
}

fn headless(source: &Source) -> Option<Problem> {
    let first = source
        .text
        .lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with("#!"));
    let what = "a module opens with //! and its purpose".to_owned();
    let is_inner_test = source.path.ends_with("tests.rs");
    (!is_inner_test && !first?.starts_with("//!")).then(|| problem(source, 1, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_counts_characters() {
        let fits = format!("//! {}\n", "ü".repeat(96));
        assert!(check(&Source::new("crates/a/src/lib.rs", &fits)).is_empty());
        let wide = format!("//! {}\n", "ü".repeat(97));
        assert_eq!(check(&Source::new("crates/a/src/lib.rs", &wide)).len(), 1);
    }

    #[test]
    fn tests_do_not_count() {
        let code = "//! x\n".to_owned() + &"fn a() {}\n".repeat(790);
        let tests = "#[cfg(test)]\nmod tests {\n".to_owned() + &"    a();\n".repeat(50) + "}\n";
        let all = code.clone() + &tests;
        assert!(check(&Source::new("crates/a/src/lib.rs", &all)).is_empty());
        let long = code + &"fn b() {}\n".repeat(20) + &tests;
        assert_eq!(check(&Source::new("crates/a/src/lib.rs", &long)).len(), 1);
        assert!(check(&Source::new("crates/a/tests/x.rs", &long)).is_empty());
    }

    #[test]
    fn a_module_needs_its_purpose() {
        let source = Source::new("crates/a/src/lib.rs", "#![forbid(unsafe_code)]\nmod a;\n");
        assert_eq!(check(&source).len(), 1);
    }
}
