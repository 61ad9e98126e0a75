//! The system's tar, with all attributes of a file system. An archive cannot hold sockets.

use std::path::Path;

use anyhow::Result;

use crate::oracle::Program;

const EVERYTHING: [&str; 5] = [
    "--format=posix",
    "--xattrs",
    "--xattrs-include=*",
    "--acls",
    "--numeric-owner",
];

/// Packs the content of `dir` into `archive`.
///
/// # Errors
/// tar is missing or fails.
pub fn pack(dir: &Path, archive: &Path) -> Result<()> {
    let program = Program::new("tar")?
        .arg("-c")
        .args(EVERYTHING)
        .arg("--sparse");
    let program = program.args(["--warning=no-file-ignored", "--exclude=./lost+found"]);
    program
        .arg("-f")
        .arg(archive)
        .arg("-C")
        .arg(dir)
        .arg(".")
        .run_ok()?;
    Ok(())
}

/// Unpacks `archive` into `dir`.
///
/// # Errors
/// As [`pack`].
pub fn unpack(archive: &Path, dir: &Path) -> Result<()> {
    let program = Program::new("tar")?
        .arg("-x")
        .args(EVERYTHING)
        .arg("--same-permissions");
    program.arg("-f").arg(archive).arg("-C").arg(dir).run_ok()?;
    Ok(())
}
