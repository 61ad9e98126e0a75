//! Workers in lockstep: threads for the library, processes for system calls.
//!
//! Workers on system calls are processes, as in the original benchmarks: threads would share one
//! file table, which slows the peers. The parent sends one line per phase; the child answers one
//! line `AMOUNT BEGAN ENDED`, times in nanoseconds of the clock.

use crate::client::{Client, LibraryClient, SystemClient};
use crate::experiments::{Clock, Task, Work};
use crate::stage::WorkerAccess;
use anyhow::{Context, Result, anyhow, bail};
use rustix::time::ClockId;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use uext4::Filesystem;

/// Result of one worker in one phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) amount: u64,
    /// By the clock of the plan.
    began: Duration,
    ended: Duration,
}

impl Done {
    /// A worker that has not worked yet.
    const READY: Self = Self {
        amount: 0,
        began: Duration::ZERO,
        ended: Duration::ZERO,
    };
}

/// Time of a phase. Wall: from the first begin to the last end, since with more workers than cores
/// some begin late. CPU: the sum over all workers.
pub(crate) fn taken(clock: Clock, done: &[Done]) -> Duration {
    match clock {
        Clock::Wall => {
            let began = done.iter().map(|one| one.began).min();
            let ended = done.iter().map(|one| one.ended).max();
            ended.unwrap_or_default() - began.unwrap_or_default()
        }
        Clock::Cpu => done.iter().map(|one| one.ended - one.began).sum(),
    }
}

/// Runs all phases; returns the results of all workers by phase.
pub(crate) fn work(place: &WorkerAccess, tasks: &[Task]) -> Result<Vec<Vec<Done>>> {
    work_watched(place, tasks, &mut || Ok(()))
}

/// As [`work`]; `look` is called before the first phase and after each, while no worker works.
pub(crate) fn work_watched(
    place: &WorkerAccess,
    tasks: &[Task],
    look: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<Vec<Done>>> {
    let mut workers = tasks
        .iter()
        .map(|task| -> Result<Box<dyn Member>> {
            match place {
                WorkerAccess::Library(filesystem) => {
                    Ok(Box::new(Thread::start(filesystem.clone(), task)?))
                }
                WorkerAccess::Directory(dir) => Ok(Box::new(Process::start(dir, task)?)),
            }
        })
        .collect::<Result<Vec<_>>>()?;
    let phases = tasks.first().map_or(0, Task::phase_count);
    let rehearsals = tasks.first().map_or(0, Task::rehearsals);
    let mut phase = |index| -> Result<Vec<Done>> {
        workers.iter_mut().try_for_each(|member| member.go(index))?;
        workers.iter_mut().map(|member| member.answer()).collect()
    };
    for _ in 0..rehearsals {
        (0..=phases).try_for_each(|index| phase(index).map(drop))?;
    }
    look()?;
    (0..phases)
        .map(&mut |index| {
            let done = phase(index)?;
            look().map(|()| done)
        })
        .collect()
}

/// Control of one worker.
trait Member {
    fn go(&mut self, phase: usize) -> Result<()>;
    fn answer(&mut self) -> Result<Done>;
}

fn timed(work: &mut dyn Work, phase: usize, clock: Clock) -> Result<Done> {
    let began = now(clock);
    let amount = work.phase(phase)?;
    let ended = now(clock).max(began);
    Ok(Done {
        amount,
        began,
        ended,
    })
}

/// Time since a fixed moment; in a simulation, the virtual time.
pub(crate) fn now(clock: Clock) -> Duration {
    #[cfg(simulated)]
    if let Some(now) = uext4_sync::simulation::now() {
        return now;
    }
    let time = rustix::time::clock_gettime(match clock {
        Clock::Wall => ClockId::Monotonic,
        Clock::Cpu => ClockId::ThreadCPUTime,
    });
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

struct Thread {
    orders: Option<Sender<usize>>,
    answers: Receiver<Result<Done>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    fn start(filesystem: Arc<Filesystem>, task: &Task) -> Result<Self> {
        let (orders, inbox) = channel();
        let (outbox, answers) = channel();
        let task = task.clone();
        let thread = std::thread::spawn(move || run_thread(filesystem, task, &inbox, &outbox));
        let member = Self {
            orders: Some(orders),
            answers,
            thread: Some(thread),
        };
        member.receive().context("a worker could not start")?;
        Ok(member)
    }

    fn receive(&self) -> Result<Done> {
        self.answers.recv().map_err(|_| anyhow!("a worker died"))?
    }
}

fn run_thread(
    filesystem: Arc<Filesystem>,
    task: Task,
    inbox: &Receiver<usize>,
    outbox: &Sender<Result<Done>>,
) {
    let client = || -> Result<Box<dyn Client>> { Ok(Box::new(LibraryClient::new(filesystem)?)) };
    let clock = task.clock;
    let mut work = match client().and_then(|client| task.start(client)) {
        Ok(work) => work,
        Err(error) => return drop(outbox.send(Err(error))),
    };
    let mut answer = Ok(Done::READY);
    while outbox.send(answer).is_ok() {
        let Ok(phase) = inbox.recv() else { return };
        answer = timed(&mut *work, phase, clock);
    }
}

impl Member for Thread {
    fn go(&mut self, phase: usize) -> Result<()> {
        let orders = self.orders.as_ref().context("the worker is going home")?;
        orders.send(phase).map_err(|_| anyhow!("a worker died"))
    }

    fn answer(&mut self) -> Result<Done> {
        self.receive()
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    fn start(dir: &Path, task: &Task) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["worker", &serde_json::to_string(task)?])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a worker")?;
        let stdout = child
            .stdout
            .take()
            .context("the worker's output is piped")?;
        let mut member = Self {
            child,
            lines: BufReader::new(stdout),
        };
        member.answer()?;
        Ok(member)
    }
}

impl Member for Process {
    fn go(&mut self, phase: usize) -> Result<()> {
        let input = self
            .child
            .stdin
            .as_mut()
            .context("the worker's input is piped")?;
        Ok(writeln!(input, "{phase}")?)
    }

    fn answer(&mut self) -> Result<Done> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        let numbers: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
        let [amount, began, ended] = numbers[..] else {
            bail!("a worker died (it says why above)");
        };
        Ok(Done {
            amount,
            began: Duration::from_nanos(began),
            ended: Duration::from_nanos(ended),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Main function of a worker process.
pub(crate) fn work_as_process(task: &str, dir: &Path) -> Result<()> {
    let task: Task = serde_json::from_str(task)?;
    let clock = task.clock;
    let mut work = task.start(Box::new(SystemClient::new(dir)?))?;
    say(Done::READY)?;
    for line in std::io::stdin().lock().lines() {
        say(timed(&mut *work, line?.parse()?, clock)?)?;
    }
    Ok(())
}

fn say(done: Done) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let (began, ended) = (done.began.as_nanos(), done.ended.as_nanos());
    writeln!(out, "{} {began} {ended}", done.amount)?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(began: u64, ended: u64) -> Done {
        let [began, ended] = [began, ended].map(Duration::from_secs);
        Done {
            amount: 1,
            began,
            ended,
        }
    }

    #[test]
    fn workers_that_begin_late_are_waited_for() {
        let one_after_the_other = [done(5, 6), done(6, 7), done(7, 9)];
        let seconds = |clock| taken(clock, &one_after_the_other).as_secs();
        assert_eq!((seconds(Clock::Wall), seconds(Clock::Cpu)), (4, 4));
        let side_by_side = [done(5, 8), done(6, 9)];
        assert_eq!(taken(Clock::Wall, &side_by_side).as_secs(), 4);
        assert_eq!(taken(Clock::Cpu, &side_by_side).as_secs(), 6);
    }
}
