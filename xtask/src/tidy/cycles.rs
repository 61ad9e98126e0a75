//! Checks the largest import cycle of each crate, with a list of exceptions that may only shrink.
//!
//! A cycle is a strongly connected component of the graph of [`super::imports`]: its files can be
//! read in no order that explains each before its use.
//!
//! Layout of the list (`xtask/allow/import-cycles.txt`): one `crate files` per line. An entry with
//! a higher limit than its crate needs is also a problem.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::imports::{self, Imports};
use super::problem::Problem;
use super::source::Source;

const CYCLE_MAX_FILES: usize = 6;
const LIST: &str = "xtask/allow/import-cycles.txt";

pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Problem>> {
    let list = fs::read_to_string(root.join(LIST)).with_context(|| format!("read {LIST}"))?;
    Ok(compare(&parse(&list)?, sources))
}

/// Directories of the crates, relative to the repository.
pub(super) fn crates(sources: &[Source]) -> BTreeSet<&str> {
    let dirs = sources.iter();
    dirs.filter_map(|source| source.path.split_once("/src/"))
        .map(|(dir, _)| dir)
        .collect()
}

/// Files of the largest cycle of the crate in `dir`; none if its imports have no cycle.
pub(super) fn largest(dir: &str, sources: &[Source]) -> Vec<String> {
    largest_component(&imports::find(&format!("{dir}/src/"), sources))
}

fn compare(allowed: &BTreeMap<String, usize>, sources: &[Source]) -> Vec<Problem> {
    let mut unused = allowed.clone();
    let mut problems = Vec::new();
    for dir in crates(sources) {
        let cycle = largest(dir, sources);
        if cycle.len() > CYCLE_MAX_FILES {
            let limit = unused.remove(dir).unwrap_or(CYCLE_MAX_FILES);
            problems.extend(complain(dir, &cycle, limit));
        }
    }
    problems.extend(unused.into_keys().map(|dir| {
        let what = format!("no cycle over {CYCLE_MAX_FILES} files: take it off {LIST}");
        whole_crate(&dir, what)
    }));
    problems
}

fn complain(dir: &str, cycle: &[String], limit: usize) -> Option<Problem> {
    let len = cycle.len();
    let what = match len.cmp(&limit) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Less => format!("the cycle shrank to {len} files: say so in {LIST}"),
        std::cmp::Ordering::Greater => {
            let files = cycle.join("\n    ");
            format!("{len} files import each other, the limit is {limit}: cut it\n    {files}")
        }
    };
    Some(whole_crate(dir, what))
}

fn whole_crate(dir: &str, what: String) -> Problem {
    Problem {
        file: dir.to_owned(),
        line: 0,
        what,
    }
}

fn parse(list: &str) -> Result<BTreeMap<String, usize>> {
    let lines = list.lines();
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let entry = line.split_once(' ');
            let (dir, files) = entry.with_context(|| format!("{LIST}: {line}"))?;
            Ok((dir.to_owned(), files.trim().parse()?))
        })
        .collect()
}

fn largest_component(imports: &Imports) -> Vec<String> {
    let files = 0..imports.files.len();
    let reached: Vec<Vec<bool>> = files.clone().map(|at| reach(imports, at)).collect();
    let largest = files
        .clone()
        .map(|at| -> Vec<usize> {
            files
                .clone()
                .filter(|other| reached[at][*other] && reached[*other][at])
                .collect()
        })
        .max_by_key(Vec::len);
    let members = largest.unwrap_or_default().into_iter();
    members.map(|at| imports.files[at].clone()).collect()
}

/// Whether each file is imported by `from`, directly or through others.
fn reach(imports: &Imports, from: usize) -> Vec<bool> {
    let mut reached = vec![false; imports.files.len()];
    let mut next: Vec<usize> = imports.edges[from].iter().copied().collect();
    while let Some(at) = next.pop() {
        if !std::mem::replace(&mut reached[at], true) {
            next.extend(&imports.edges[at]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate in which each of `files` files imports the next one, and the last the first.
    fn ring(files: usize) -> Vec<Source> {
        let file = |nr: usize| {
            let text = format!("use crate::m{}::X;\npub struct X;\n", (nr + 1) % files);
            Source::new(&format!("crates/a/src/m{nr}.rs"), &text)
        };
        let root = Source::new("crates/a/src/lib.rs", "use crate::m0::X;\n");
        (0..files).map(file).chain([root]).collect()
    }

    fn problems(allowed: &str, files: usize) -> Vec<Problem> {
        compare(&parse(allowed).unwrap(), &ring(files))
    }

    #[test]
    fn six_files_are_allowed() {
        assert!(problems("", 6).is_empty());
        let found = problems("", 7);
        assert_eq!(found.len(), 1);
        assert!((0..7).all(|nr| found[0].what.contains(&format!("crates/a/src/m{nr}.rs"))));
        assert!(!found[0].what.contains("lib.rs"));
    }

    #[test]
    fn the_list_only_shrinks() {
        assert!(problems("# why\ncrates/a 8\n", 8).is_empty());
        assert_eq!(problems("crates/a 8\n", 9).len(), 1);
        assert_eq!(problems("crates/a 8\n", 7).len(), 1);
        assert_eq!(problems("crates/a 8\n", 6).len(), 1);
        assert_eq!(problems("crates/b 8\n", 6).len(), 1);
    }

    #[test]
    fn imports_in_one_direction_are_no_cycle() {
        let high = Source::new("crates/a/src/lib.rs", "mod low;\nuse low::X;\n");
        let low = Source::new("crates/a/src/low.rs", "pub struct X;\n");
        assert!(largest("crates/a", &[high, low]).is_empty());
    }
}
