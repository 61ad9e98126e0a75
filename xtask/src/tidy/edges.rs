//! Checks crate dependencies, as cargo reports them, against the table of ARCHITECTURE.md.
//!
//! In the table `all above` means every crate of the rows above, and `...` any crate.
//! Dev-dependencies are not checked, because they do not ship.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::problem::Problem;

const TABLE: &str = "ARCHITECTURE.md";

/// Directory names of crates that a crate may use; `None` for any.
type Allowed = BTreeMap<String, Option<BTreeSet<String>>>;

pub(super) fn check(root: &Path) -> Result<Vec<Problem>> {
    let text = fs::read_to_string(root.join(TABLE)).with_context(|| format!("read {TABLE}"))?;
    let allowed = parse_table(&text);
    ensure!(!allowed.is_empty(), "{TABLE} has no table of crates");
    Ok(compare(&allowed, &edges(&metadata(root)?)?))
}

fn compare(allowed: &Allowed, edges: &[(String, String)]) -> Vec<Problem> {
    let bad = edges.iter().filter_map(|(from, to)| {
        let what = match allowed.get(from) {
            None => format!("crate {from} is not in the table of {TABLE}"),
            Some(Some(may)) if !may.contains(to) => {
                format!("{from} uses {to}, which the table of {TABLE} does not allow")
            }
            Some(_) => return None,
        };
        Some(Problem {
            file: TABLE.into(),
            line: 0,
            what,
        })
    });
    bad.collect()
}

fn parse_table(text: &str) -> Allowed {
    let mut allowed = Allowed::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(first), Some(last)) = (cells.first(), cells.last()) else {
            continue;
        };
        let Some(name) = first.split('`').nth(1) else {
            continue;
        };
        let may = match *last {
            "all above" => Some(allowed.keys().cloned().collect()),
            any if any.contains("...") => None,
            list => Some(list.split_whitespace().map(directory).collect()),
        };
        allowed.insert(name.to_owned(), may);
    }
    allowed
}

/// Directory of a package; only the package `uext4` differs from its directory.
fn directory(name: &str) -> String {
    if name == "uext4" {
        "fs".into()
    } else {
        name.trim_matches(['`', ',']).into()
    }
}

fn metadata(root: &Path) -> Result<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("run cargo metadata")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Dependencies between workspace crates, as directory names, without dev-dependencies.
fn edges(metadata: &Value) -> Result<Vec<(String, String)>> {
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata has packages")?;
    let mut edges = Vec::new();
    for package in packages {
        let from = package["manifest_path"].as_str().and_then(parent_name);
        let from = from.context("a package has a manifest")?;
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let is_dev = dependency["kind"].as_str() == Some("dev");
            let to = dependency["path"]
                .as_str()
                .and_then(|path| path.rsplit('/').next());
            if let Some(to) = to.filter(|_| !is_dev) {
                edges.push((from.clone(), to.to_owned()));
            }
        }
    }
    Ok(edges)
}

fn parent_name(manifest: &str) -> Option<String> {
    Some(
        Path::new(manifest)
            .parent()?
            .file_name()?
            .to_string_lossy()
            .into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "| crate | may |\n| --- | --- |\n| `sync` | x | nothing |\n\
        | `format` | x | nothing |\n| `journal` | x | format sync |\n\
        | `fs` (package `uext4`) | x | all above |\n| `fuse` | x | uext4 |\n\
        | `lab` | x | uext4 ... |\n";

    fn wrong(from: &str, to: &str) -> bool {
        !compare(&parse_table(TEXT), &[(from.into(), to.into())]).is_empty()
    }

    #[test]
    fn the_table_decides() {
        assert!(!wrong("journal", "sync") && !wrong("fs", "journal") && !wrong("fuse", "fs"));
        assert!(!wrong("lab", "anything"));
        assert!(wrong("sync", "format") && wrong("journal", "fs") && wrong("fuse", "sync"));
        assert!(wrong("unknown", "sync"));
    }

    #[test]
    fn edges_of_tests_are_free() {
        let metadata = serde_json::json!({"packages": [{
            "manifest_path": "/x/crates/journal/Cargo.toml",
            "dependencies": [
                {"kind": null, "path": "/x/crates/sync"},
                {"kind": "dev", "path": "/x/crates/testkit"},
                {"kind": null},
            ],
        }]});
        assert_eq!(
            edges(&metadata).unwrap(),
            [("journal".to_owned(), "sync".to_owned())]
        );
    }
}
