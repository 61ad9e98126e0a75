//! Worker processes: started together, controlled by commands and answers.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Worker processes that wait for commands; dropping them ends them.
pub struct Workers {
    members: Vec<Member>,
}

impl Workers {
    /// Starts `n_processes`, each by its command; they run [`crate::worker::serve`].
    ///
    /// # Errors
    /// A process cannot start, or ended early.
    pub fn start(n_processes: u64, command: impl Fn(u64) -> Command) -> Result<Self> {
        let members = (0..n_processes).map(|process| Member::start(command(process), process));
        let mut workers = Self {
            members: members.collect::<Result<_>>()?,
        };
        workers
            .members
            .iter_mut()
            .try_for_each(|one| one.expect("ready").map(drop))?;
        Ok(workers)
    }

    /// Runs `n_operations` on all workers together; returns the number run.
    ///
    /// # Errors
    /// A process found a difference.
    pub fn work(&mut self, n_operations: u64) -> Result<u64> {
        let each = n_operations.div_ceil(self.members.len() as u64);
        self.all(&each.to_string())?;
        Ok(each * self.members.len() as u64)
    }

    /// Lets each worker compare all its expectations.
    ///
    /// # Errors
    /// A process found a difference.
    pub fn compare(&mut self) -> Result<()> {
        self.all("compare")
    }

    /// Increments of the counter by all workers.
    pub fn increments(&self) -> u64 {
        self.members.iter().map(|member| member.increments).sum()
    }

    /// Ends the workers.
    ///
    /// # Errors
    /// One ends with a failure.
    pub fn dismiss(&mut self) -> Result<()> {
        self.members.iter_mut().try_for_each(Member::dismiss)
    }

    fn all(&mut self, order: &str) -> Result<()> {
        for member in &mut self.members {
            member.send(order)?;
        }
        for member in &mut self.members {
            let increments = member.expect("done")?;
            member.increments = increments
                .trim()
                .parse()
                .context("a number of increments")?;
        }
        Ok(())
    }
}

struct Member {
    process: u64,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    increments: u64,
}

impl Member {
    fn start(mut command: Command, process: u64) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {command:?}"))?;
        let orders = child.stdin.take();
        let answers = child.stdout.take().context("the output is piped")?;
        Ok(Self {
            process,
            child,
            orders,
            answers: BufReader::new(answers),
            increments: 0,
        })
    }

    fn send(&mut self, order: &str) -> Result<()> {
        let orders = self.orders.as_mut().context("it was sent home")?;
        writeln!(orders, "{order}").with_context(|| format!("process {} is gone", self.process))
    }

    /// The rest of the next line, which must begin with `word`.
    fn expect(&mut self, word: &str) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let process = self.process;
        let rest = line.strip_prefix(word);
        Ok(rest
            .with_context(|| format!("process {process} gave up: {line:?}"))?
            .to_owned())
    }

    fn dismiss(&mut self) -> Result<()> {
        self.orders = None;
        let status = self.child.wait()?;
        ensure!(
            status.success(),
            "process {} ended with {status}",
            self.process
        );
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
