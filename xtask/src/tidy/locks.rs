//! Checks that `docs/internals/locking.md` explains every rank of the lock order.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::lexer::split;
use super::problem::Problem;

const RANKS: &str = "crates/sync/src/rank.rs";
const DOCUMENT: &str = "docs/internals/locking.md";

pub(super) fn check(root: &Path) -> Result<Vec<Problem>> {
    let code = fs::read_to_string(root.join(RANKS)).with_context(|| format!("read {RANKS}"))?;
    let ranks = ranks(&code);
    ensure!(!ranks.is_empty(), "{RANKS} has no enum Rank");
    let document = fs::read_to_string(root.join(DOCUMENT)).unwrap_or_default();
    Ok(missing(&ranks, &document))
}

fn missing(ranks: &[String], document: &str) -> Vec<Problem> {
    let words: Vec<&str> = document.split(|one: char| !one.is_alphanumeric()).collect();
    let absent = ranks.iter().filter(|rank| !words.contains(&rank.as_str()));
    absent
        .map(|rank| Problem {
            file: DOCUMENT.into(),
            line: 0,
            what: format!("does not explain the rank {rank}"),
        })
        .collect()
}

fn ranks(code: &str) -> Vec<String> {
    let code = split(code).code;
    let body = code
        .split("enum Rank {")
        .nth(1)
        .and_then(|rest| rest.split('}').next());
    body.unwrap_or_default()
        .split(',')
        .map(|variant| {
            variant
                .split('=')
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        })
        .filter(|variant| !variant.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_is_wanted() {
        let ranks = ranks("pub enum Rank {\n    /// a, b\n    Mount = 1,\n    Rename,\n}\n");
        assert_eq!(ranks, ["Mount", "Rename"]);
        assert_eq!(missing(&ranks, "`Rank::Mount`: why").len(), 1);
        assert_eq!(missing(&ranks, "| `Mount` | `Rename` |").len(), 0);
        assert_eq!(missing(&ranks, "Mounted Renamed").len(), 2);
    }
}
