//! Release builds of a revision: the lab and the tool.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// The programs of one build.
#[derive(Debug)]
pub struct Build {
    /// What messages call it.
    pub name: String,
    /// `uext4-lab`.
    pub lab: PathBuf,
    /// `uext4`.
    pub tool: PathBuf,
}

impl Build {
    /// Builds the working tree below `root`.
    pub(super) fn of_tree(root: &Path) -> Result<Self> {
        Self::built(root, root, "new")
    }

    /// Builds `revision` in a work tree of its own, which is removed afterwards.
    pub(super) fn of_revision(root: &Path, revision: &str) -> Result<Self> {
        let tree = WorkTree::of(root, revision)?;
        Self::built(root, &tree.path(), "old")
    }

    /// Cargo's files stay below `target/regress`, so the next comparison builds less.
    fn built(root: &Path, sources: &Path, name: &str) -> Result<Self> {
        let target = root.join("target/regress").join(name);
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--release", "--quiet"]);
        cargo.args(["--package", "uext4-lab", "--package", "uext4-tools"]);
        cargo.current_dir(sources).env("CARGO_TARGET_DIR", &target);
        succeed(&mut cargo)?;
        let release = target.join("release");
        Ok(Self {
            name: name.to_owned(),
            lab: release.join("uext4-lab"),
            tool: release.join("uext4"),
        })
    }
}

/// A detached work tree of git; dropping it removes it.
struct WorkTree<'r> {
    root: &'r Path,
    dir: TempDir,
}

impl<'r> WorkTree<'r> {
    fn of(root: &'r Path, revision: &str) -> Result<Self> {
        let dir = tempfile::tempdir().context("a directory for the older revision")?;
        let tree = Self { root, dir };
        let mut git = tree.git();
        git.args(["worktree", "add", "--quiet", "--detach"]);
        succeed(git.arg(tree.path()).arg(revision))?;
        Ok(tree)
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    fn git(&self) -> Command {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.root);
        git
    }
}

impl Drop for WorkTree<'_> {
    fn drop(&mut self) {
        let mut git = self.git();
        git.args(["worktree", "remove", "--force"]);
        let _ = git.arg(self.path()).output();
    }
}

/// Runs a command that must end with status 0.
fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("{command:?} cannot start"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
