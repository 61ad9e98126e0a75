//! Checks the documents: width of lines, length of paragraphs, paths that exist. The headers of
//! sources are checked for paths.
//!
//! Code blocks, tables and headings are neither too wide nor too long; a line with a link may be
//! wide. Each item of a list is a paragraph of its own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::problem::Problem;
use super::source::Source;

const WIDTH_MAX_CHARS: usize = 100;
const PARAGRAPH_MAX_LINES: usize = 5;
/// Directories whose files documents name by their path in the repository.
const NAMED: [&str; 5] = ["crates/", "xtask/", "docs/", "scripts/", "packaging/"];

pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Problem>> {
    let mut paths = Vec::new();
    collect(root, &mut paths, Subdirectories::No)?;
    collect(&root.join("docs"), &mut paths, Subdirectories::Yes)?;
    let exists = |path: &Path| {
        let mut sources = sources.iter();
        root.join(path).exists() || sources.any(|one| Path::new(&one.path).ends_with(path))
    };
    let mut problems = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
        problems.extend(shape(&name, &text));
        problems.extend(missing(&name, &text, exists));
    }
    for source in sources {
        problems.extend(missing_in_header(&source.path, &source.text, exists));
    }
    Ok(problems)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Subdirectories {
    Yes,
    No,
}

fn collect(dir: &Path, found: &mut Vec<PathBuf>, subdirectories: Subdirectories) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        } else if subdirectories == Subdirectories::Yes && path.is_dir() {
            collect(&path, found, subdirectories)?;
        }
    }
    Ok(())
}

fn problem(file: &str, line: usize, what: String) -> Problem {
    Problem {
        file: file.to_owned(),
        line,
        what,
    }
}

/// Lines that are too wide, and paragraphs that are too long.
fn shape(file: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut paragraph_lines = 0;
    prose(text, |number, line| {
        let Some(line) = line else {
            paragraph_lines = 0;
            return;
        };
        if line.chars().count() > WIDTH_MAX_CHARS && !line.contains("](") {
            problems.push(problem(
                file,
                number,
                format!("wider than {WIDTH_MAX_CHARS}"),
            ));
        }
        paragraph_lines = if is_item(line) {
            1
        } else {
            paragraph_lines + 1
        };
        if paragraph_lines == PARAGRAPH_MAX_LINES + 1 {
            let what = format!("a paragraph has at most {PARAGRAPH_MAX_LINES} lines: divide it");
            problems.push(problem(file, number, what));
        }
    });
    problems
}

/// Calls `visit` with the number (from 1) of each line; the line is `None` between paragraphs.
fn prose<'a>(text: &'a str, mut visit: impl FnMut(usize, Option<&'a str>)) {
    let (mut in_code, mut in_paragraph) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let is_fence = start.starts_with("```");
        in_code ^= is_fence;
        let is_other = is_fence || in_code || start.is_empty() || start.starts_with(['|', '#']);
        let is_indented_code = !in_paragraph && line.starts_with("    ");
        in_paragraph = !is_other && !is_indented_code;
        visit(index + 1, in_paragraph.then_some(line));
    }
}

/// Whether the line begins an item of a list.
fn is_item(line: &str) -> bool {
    let start = line.trim_start();
    let number = start.trim_start_matches(|one: char| one.is_ascii_digit());
    start.starts_with("- ") || number.len() < start.len() && number.starts_with(". ")
}

/// Links and paths in code font that lead nowhere.
fn missing(file: &str, text: &str, exists: impl Fn(&Path) -> bool) -> Vec<Problem> {
    let dir = Path::new(file).parent().unwrap_or(Path::new(""));
    let paths = text.lines().zip(1..).flat_map(|(line, number)| {
        let links = line.split("](").skip(1).filter_map(|rest| {
            let target = rest.split([')', '#']).next()?;
            let is_path = !target.is_empty() && !target.contains("://");
            is_path.then(|| plain(&dir.join(target)))
        });
        let paths = links.chain(named(line));
        paths.map(move |path| (number, path))
    });
    without(file, paths, exists)
}

/// As [`missing`], for paths in code font in the header of a source; its links are of rustdoc.
fn missing_in_header(file: &str, text: &str, exists: impl Fn(&Path) -> bool) -> Vec<Problem> {
    let header = text.lines().zip(1..);
    let header = header.filter(|(line, _)| line.starts_with("//!"));
    let paths = header.flat_map(|(line, number)| named(line).map(move |path| (number, path)));
    without(file, paths, exists)
}

/// Paths in code font.
fn named(line: &str) -> impl Iterator<Item = PathBuf> {
    let code = line.split('`').skip(1).step_by(2);
    code.filter(|code| is_path(code)).map(PathBuf::from)
}

/// A problem for each path that does not exist.
fn without(
    file: &str,
    paths: impl Iterator<Item = (usize, PathBuf)>,
    exists: impl Fn(&Path) -> bool,
) -> Vec<Problem> {
    let missing = paths.filter(|(_, path)| !exists(path));
    let problems = missing
        .map(|(number, path)| problem(file, number, format!("{} does not exist", path.display())));
    problems.collect()
}

/// Whether text in code font is the path of a file or directory of the repository, or the end of
/// the path of a source.
fn is_path(code: &str) -> bool {
    let is_named = NAMED.iter().any(|start| code.starts_with(start)) || code.ends_with(".rs");
    is_named && !code.contains([' ', '{', '*'])
}

/// The path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path {
        if part == ".." {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(text: &str) -> Vec<usize> {
        shape("a.md", text).iter().map(|one| one.line).collect()
    }

    #[test]
    fn prose_has_a_width_and_paragraphs_a_length() {
        let wide = "ü".repeat(101);
        assert_eq!(lines(&format!("{}\n\n{wide}\n", "ü".repeat(100))), [3]);
        let code = format!("```\n{wide}\n```\n| {wide} |\n    {wide}\n");
        assert_eq!(lines(&code), NONE);
        assert_eq!(lines(&format!("[a](b) {wide}\n")), NONE);
        assert_eq!(lines("a\na\na\na\na\n\na\n"), NONE);
        assert_eq!(lines("a\na\na\na\na\na\na\n"), [6]);
        assert_eq!(lines("- a\n  a\n  a\n  a\n  a\n- a\n  a\n10. a\n"), NONE);
        assert_eq!(lines("```\na\na\na\na\na\na\n```\n"), NONE);
    }

    #[test]
    fn what_a_document_names_exists() {
        let wrong = |text: &str| {
            let exists = |path: &Path| ["docs/b.md", "a.rs"].contains(&path.to_str().unwrap());
            missing("docs/internals/a.md", text, exists).len()
        };
        assert_eq!(
            wrong("[b](../b.md#part), [x](https://x.y), `docs/b.md`, `a.rs`"),
            0
        );
        assert_eq!(
            wrong("[b](b.md), `crates/x.rs` and `x.rs`\nand `crates/{a,b}.rs`"),
            3
        );
    }

    #[test]
    fn what_a_header_names_exists() {
        let text = "//! `a.rs`, [a](a.rs)\n//! | `x.rs` |\nfn f() {} // `x.rs`\n";
        let found = missing_in_header("crates/a/src/lib.rs", text, |path| path.ends_with("a.rs"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 2);
    }
}
