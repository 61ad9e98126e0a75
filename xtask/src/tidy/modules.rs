//! Checks the uses between modules of `crates/fs` against their table in ARCHITECTURE.md.
//!
//! A module may use the modules that its row lists, which are in rows above it: so there are no
//! cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::problem::Problem;
use super::source::Source;
use super::uses::{self, LAYERS, Use};

const TABLE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Modules of the engine";
const CRATE: &str = "crates/fs/src/";
/// A module of test code.
const TEST_MODULE: &str = "test_rig";

/// What each module may use.
type Allowed = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Problem>> {
    let text = fs::read_to_string(root.join(TABLE)).with_context(|| format!("read {TABLE}"))?;
    let (allowed, mut problems) = parse(&text);
    ensure!(!allowed.is_empty(), "{TABLE} has no table of modules");
    problems.extend(compare(&allowed, &uses::find(CRATE, sources)));
    problems.extend(unlisted(&allowed, sources));
    Ok(problems)
}

fn table_problem(what: String) -> Problem {
    Problem {
        file: TABLE.into(),
        line: 0,
        what,
    }
}

/// The table below the heading; a row that allows a module of a later row is a problem.
fn parse(text: &str) -> (Allowed, Vec<Problem>) {
    let section = text.split(HEADING).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let (mut allowed, mut problems) = (Allowed::new(), Vec::new());
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(modules), Some(may)) = (cells.first(), cells.last()) else {
            continue;
        };
        let may: BTreeSet<String> = match *may {
            "nothing" => BTreeSet::new(),
            "all above" => allowed.keys().cloned().collect(),
            list => list.split_whitespace().map(str::to_owned).collect(),
        };
        for late in may.iter().filter(|name| !allowed.contains_key(*name)) {
            problems.push(table_problem(format!("{modules}: {late} is not above it")));
        }
        let names = modules.split('`').filter(|name| !name.trim().is_empty());
        let rows = names.map(|name| (name.to_owned(), may.clone()));
        allowed.extend(rows.collect::<Vec<_>>());
    }
    (allowed, problems)
}

fn compare(allowed: &Allowed, uses: &[Use]) -> Vec<Problem> {
    let forbidden = uses.iter().filter(|found| {
        let may = allowed.get(&found.from);
        may.is_some_and(|may| !may.contains(&found.to))
    });
    forbidden
        .map(|found| Problem {
            file: found.file.clone(),
            line: found.line,
            what: format!(
                "{} uses {} ({}), which the table of modules in {TABLE} does not allow",
                found.from, found.to, found.name
            ),
        })
        .collect()
}

/// Modules without a row, and rows without a module.
fn unlisted(allowed: &Allowed, sources: &[Source]) -> Vec<Problem> {
    let there: BTreeSet<String> = sources
        .iter()
        .filter_map(|source| {
            let inside = source.path.strip_prefix(CRATE)?;
            let mut parts = inside.split('/');
            let first = parts.next().filter(|first| !LAYERS.contains(first));
            let module = first.or_else(|| parts.next())?;
            Some(module.trim_end_matches(".rs").to_owned())
        })
        .collect();
    let listed: BTreeSet<String> = allowed.keys().cloned().collect();
    let other = ["lib", "mod", TEST_MODULE];
    let differing = there.symmetric_difference(&listed);
    differing
        .filter(|name| !other.contains(&name.as_str()))
        .map(|name| {
            table_problem(format!(
                "module {name} of {CRATE}: no row, or no such module"
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "## Crates\n| `x` | | nothing |\n## Modules of the engine\n\
        | `low` `lower` | data | nothing |\n| `middle` | data | low |\n\
        | `top` | operations | all above |\n## Next\n| `y` | | nothing |\n";

    fn problems(from: &str, to: &str) -> usize {
        let found = Use {
            from: from.into(),
            to: to.into(),
            file: "crates/fs/src/a.rs".into(),
            line: 3,
            name: "Name".into(),
        };
        compare(&parse(TEXT).0, &[found]).len()
    }

    #[test]
    fn a_forbidden_use_is_found() {
        assert_eq!(problems("middle", "lower"), 1);
        assert_eq!(problems("low", "lower"), 1);
        assert_eq!(problems("middle", "top"), 1);
        assert_eq!(problems("middle", "low"), 0);
        assert_eq!(problems("top", "lower"), 0);
    }

    #[test]
    fn rows_use_rows_above_them() {
        assert!(parse(TEXT).1.is_empty());
        let cycle = TEXT.replace("| data | nothing |", "| data | middle |");
        assert_eq!(parse(&cycle).1.len(), 1);
    }

    #[test]
    fn rows_and_modules_are_the_same() {
        let paths = ["low.rs", "low/a.rs", "middle/mod.rs", "new.rs", "lib.rs"];
        let sources = paths.map(|path| Source::new(&format!("{CRATE}{path}"), "//! x\n"));
        let found = unlisted(&parse(TEXT).0, &sources);
        // `new` has no row; `lower` and `top` are no modules.
        assert_eq!(found.len(), 3);
    }
}
