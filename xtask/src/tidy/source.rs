//! Loads the source files of the workspace.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::lexer::{Parts, split};
use super::problem::Problem;

/// One `.rs` file.
pub(super) struct Source {
    /// Path relative to the repository, with `/`.
    pub(super) path: String,
    /// All of it.
    pub(super) text: String,
    /// Code, comments and strings, separated.
    pub(super) parts: Parts,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            parts: split(text),
        }
    }

    /// True if the whole file is test code.
    pub(super) fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.path.contains("/benches/")
            || self.path.ends_with("/tests.rs")
            || self.path.ends_with("_tests.rs")
    }

    /// Lines of code with their numbers, from 1, without those of test modules in this file.
    pub(super) fn lines_outside_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.test_lines();
        let lines = (1..).zip(self.parts.code.lines());
        lines.filter(move |(nr, _)| !tests.iter().any(|range| range.contains(nr)))
    }

    /// A problem for each of `lines` that is bad.
    pub(super) fn problems<'a>(
        &self,
        lines: impl Iterator<Item = (usize, &'a str)>,
        is_bad: impl Fn(&str) -> bool,
        what: &str,
    ) -> Vec<Problem> {
        lines
            .filter(|(_, line)| is_bad(line))
            .map(|(line, _)| Problem {
                file: self.path.clone(),
                line,
                what: what.into(),
            })
            .collect()
    }

    /// Line ranges (from 1) of the `#[cfg(test)]` modules in this file.
    pub(super) fn test_lines(&self) -> Vec<std::ops::RangeInclusive<usize>> {
        let lines: Vec<&str> = self.parts.code.lines().collect();
        let mut ranges = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            let is_gate =
                line.trim() == "#[cfg(test)]" || line.trim().starts_with("#[cfg(all(test");
            let opens_block = is_gate
                && lines
                    .get(index + 1)
                    .is_some_and(|next| next.trim_end().ends_with('{'));
            if opens_block {
                let indent = line.len() - line.trim_start().len();
                let end = format!("{}}}", " ".repeat(indent));
                let close = lines[index..]
                    .iter()
                    .position(|line| line.trim_end() == end);
                ranges.push(index + 1..=close.map_or(lines.len(), |at| index + at + 1));
            }
        }
        ranges
    }
}

/// All `.rs` files of the workspace's members.
pub(super) fn load(root: &Path) -> Result<Vec<Source>> {
    let mut paths = Vec::new();
    for dir in ["crates", "xtask"] {
        collect(&root.join(dir), &["rs"], &mut paths)?;
    }
    paths.sort();
    paths
        .iter()
        .map(|path| read(root, path).map(|(path, text)| Source::new(&path, &text)))
        .collect()
}

/// Paths and texts of all documents and scripts.
pub(super) fn texts(root: &Path) -> Result<Vec<(String, String)>> {
    let mut paths = Vec::new();
    collect(root, &["md", "py", "sh"], &mut paths)?;
    paths.iter().map(|path| read(root, path)).collect()
}

fn collect(dir: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        if path.is_dir() && !path.ends_with("target") && !is_hidden {
            collect(&path, extensions, found)?;
        } else if extensions
            .iter()
            .any(|one| path.extension().is_some_and(|it| it == *one))
        {
            found.push(path);
        }
    }
    Ok(())
}

/// The path relative to the repository, and the text.
fn read(root: &Path, path: &Path) -> Result<(String, String)> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let relative = path.strip_prefix(root).unwrap_or(path);
    Ok((relative.to_string_lossy().into_owned(), text))
}
