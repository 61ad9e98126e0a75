//! One worker process: all three parts, and the protocol with its parent.
//!
//! Protocol, in lines: the process says `ready`; each input line is a number of operations to run,
//! or `compare`; each answer is `done` with the increments of the counter so far. Between two
//! answers the process has no file open, so that the mount can be replaced. It ends at the end of
//! input.

use std::io::{BufRead, Write, stdin, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use uext4_testkit::rng::Rng;

use crate::files::Files;
use crate::shared::Shared;
use crate::tree::Tree;

/// Operations between two full comparisons.
const COMPARE_EVERY: u64 = 5000;

/// Parameters of one process of a run.
#[derive(Clone, Debug)]
pub struct Order {
    /// Root of the mount that is exercised.
    pub root: PathBuf,
    /// Number of the process, from 0.
    pub process: u64,
    /// Seed of all processes.
    pub seed: u64,
}

/// The shared directory of all processes.
pub fn shared_dir(root: &Path) -> PathBuf {
    root.join("shared")
}

/// Creates the files that processes expect at their start.
///
/// # Errors
/// They cannot be created.
pub fn prepare(root: &Path) -> Result<()> {
    let shared = shared_dir(root);
    crate::names::make_directory(&shared)?;
    crate::shared::prepare(&shared)
}

/// Runs this process as the worker of `order`, with commands from standard input.
///
/// # Errors
/// The first difference.
pub fn serve(order: &Order) -> Result<()> {
    let told = || format!("process {}, seed {}", order.process, order.seed);
    let mut worker = Worker::new(order).with_context(told)?;
    worker
        .serve(stdin().lock(), stdout().lock())
        .with_context(told)
}

/// State of a worker: its own files, and its part in the shared ones.
pub struct Worker {
    tree: Tree,
    files: Files,
    shared: Shared,
    rng: Rng,
    n_done: u64,
}

impl Worker {
    /// Creates its directory.
    ///
    /// # Errors
    /// The error of the mount.
    pub fn new(order: &Order) -> Result<Self> {
        let rng = Rng::new(order.seed).fork(order.process);
        let own = order.root.join(format!("process-{}", order.process));
        crate::names::make_directory(&own)?;
        let shared = shared_dir(&order.root);
        Ok(Self {
            tree: Tree::new(&own.join("tree"), rng.fork(1).next_u64())?,
            files: Files::new(&own.join("files"), rng.fork(2))?,
            shared: Shared::new(&shared, order.process, rng.fork(3))?,
            rng,
            n_done: 0,
        })
    }

    /// Answers commands until the end of input.
    ///
    /// # Errors
    /// The first difference.
    pub fn serve(&mut self, orders: impl BufRead, mut answers: impl Write) -> Result<()> {
        writeln!(answers, "ready")?;
        for order in orders.lines() {
            match order?.as_str() {
                "compare" => self.compare().context("all of it")?,
                count => self.work(count.parse().context("a number of operations")?)?,
            }
            self.files.close_all();
            self.shared.close_all();
            writeln!(answers, "done {}", self.shared.increments())?;
            answers.flush()?;
        }
        Ok(())
    }

    fn work(&mut self, n_operations: u64) -> Result<()> {
        for _ in 0..n_operations {
            let done = self.step();
            done.with_context(|| format!("operation {}", self.n_done))?;
            self.n_done += 1;
            if self.n_done.is_multiple_of(COMPARE_EVERY) {
                let compared = self.compare();
                compared.with_context(|| format!("after {} operations", self.n_done))?;
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        match self.rng.below(100) {
            0..=29 => self.tree.step().context("the tree"),
            30..=74 => self.files.step(),
            _ => self.shared.step().context("what is shared"),
        }
    }

    fn compare(&mut self) -> Result<()> {
        self.tree.compare()?;
        self.files.compare()?;
        self.shared.compare()
    }
}
