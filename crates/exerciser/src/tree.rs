//! Names of one process against the model, which the kernel's ext4 validated: the errno of each
//! operation, and the tree.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::model::Model;
use uext4_testkit::ops::{HostTarget, Palette, Stream, Target};

/// Names of one level: with three levels the tree stays below 600 names.
const NAMES_MAX: usize = 8;

/// A directory tree of one process, with a model of its expected content.
pub struct Tree {
    root: PathBuf,
    stream: Stream,
    model: Model,
    target: HostTarget,
}

impl Tree {
    /// A tree in the fresh directory `root`.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn new(root: &Path, seed: u64) -> Result<Self> {
        crate::names::make_directory(root)?;
        let usual = Palette::default();
        let names = usual.names.into_iter().rev().take(NAMES_MAX).collect();
        let palette = Palette {
            names,
            depth_max: 3,
            file_max_bytes: 40 << 10,
            ..Palette::default()
        };
        Ok(Self {
            root: root.to_path_buf(),
            stream: Stream::new(seed, palette),
            model: Model::new(),
            target: HostTarget::new(root),
        })
    }

    /// Runs one operation.
    ///
    /// # Errors
    /// The errno of the mount differs from that of the model.
    pub fn step(&mut self) -> Result<()> {
        let op = self.stream.next().expect("a stream does not end");
        let (expected, found) = (self.model.run(&op), self.target.run(&op));
        ensure!(
            expected == found,
            "{op:?}: {found:?}, expected {expected:?}"
        );
        Ok(())
    }

    /// Compares the whole tree with the model.
    ///
    /// # Errors
    /// The difference.
    pub fn compare(&self) -> Result<()> {
        let policy = Policy::default().ignore(Field::Mtime);
        let found = Manifest::of_dir(&self.root)?;
        let differences = self.model.manifest().diff(&found, &policy);
        let said: Vec<String> = differences.iter().map(ToString::to_string).collect();
        ensure!(said.is_empty(), "the tree differs: {}", said.join("; "));
        Ok(())
    }
}
