//! Two builds that are scripts with known rates.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use xtask::regress::{Build, Experiment, Plan, run};

const LAB: Experiment = Experiment::Lab(&["mdtest"]);

fn program(dir: &Path, name: &str, script: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

fn row(metric: &str, rate: u32) -> String {
    format!(
        "echo '{{\"experiment\":\"mdtest\",\"variant\":\"own\",\"workers\":1,\"metric\":\
         \"{metric}\",\"unit\":\"1/s\",\"median\":{rate}}}'"
    )
}

fn build(dir: &Path, name: &str, script: &str) -> Build {
    Build {
        name: name.to_owned(),
        lab: program(dir, name, script),
        tool: program(dir, &format!("{name}-tool"), "true"),
    }
}

fn table(old: &str, new: &str, experiments: &[Experiment]) -> anyhow::Result<String> {
    let dir = tempfile::tempdir()?;
    let (old, new) = (build(dir.path(), "old", old), build(dir.path(), "new", new));
    let plan = Plan { old, new, pairs: 3 };
    Ok(run(&plan, experiments, &mut |_| ())?.to_string())
}

#[test]
fn ratios_are_those_of_the_builds() {
    let experiments = [LAB, Experiment::Tool(1)];
    let table = table(&row("create", 100), &row("create", 43), &experiments).unwrap();
    let expected = "| mdtest own x1 create | 1/s | 100.0000 | 43.0000 | 0.43 | 0.43 | 0.43 |";
    assert!(table.contains(expected), "{table}");
    assert!(table.contains("| uext4 check, 100 files |"), "{table}");
}

#[test]
fn what_the_old_build_lacks_is_named_below_the_table() {
    let both = format!("{}; {}", row("create", 100), row("stat", 1));
    let table_of_more = table(&row("create", 100), &both, &[LAB]).unwrap();
    let expected = "Not compared:\n\n- mdtest own x1 stat: the old build does not measure it.\n";
    assert!(table_of_more.ends_with(expected), "{table_of_more}");
    let other = Experiment::Lab(&["fsync"]);
    let old = format!("[ $1 = fsync ] || {{ echo unknown >&2; exit 2; }}; {both}");
    let table = table(&old, &both, &[LAB, other]).unwrap();
    assert!(table.contains("| mdtest own x1 stat |"), "{table}");
    let expected = "- mdtest with old: old mdtest ended with exit status: 2: unknown.\n";
    assert!(table.ends_with(expected), "{table}");
}

#[test]
fn what_the_new_build_lacks_is_an_error() {
    for (old, new, expected) in [
        (
            row("create", 1),
            row("stat", 1),
            "the new build lacks mdtest own x1 create",
        ),
        (row("create", 1), "exit 3".to_owned(), "exit status: 3"),
        (row("create", 1), "true".to_owned(), "measured nothing"),
    ] {
        let error = format!("{:#}", table(&old, &new, &[LAB]).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
}
