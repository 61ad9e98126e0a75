//! One row: a cold mount, two writes, a pause, a third write.
//!
//! A child process does the writes and prints each number at once, so that a row stopped at the
//! limit still has its first results.

use super::Plan;
use super::rows::Row;
use crate::base_lines;
use crate::cleanup::Cleanup;
use crate::client::{Client, LibraryClient, SystemClient};
use crate::collection::Sample;
use crate::experiments::Unit;
use crate::memory;
use crate::stage::Setup;
use crate::system::System;
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use uext4::Filesystem;
use uext4_testkit::oracle::KernelMount;

/// Files of a row: name of the phase, and MiB to write.
const WRITES: [(&str, u64); 3] = [("first", 10), ("second", 100), ("third", 100)];
const CALL_BYTES: usize = 1 << 20;

/// Runs the row in a child.
pub(super) fn run(
    row: &Row,
    image: &Path,
    plan: &Plan,
    cleanup: &mut Cleanup,
) -> Result<Vec<Sample>> {
    match row.system {
        System::KernelExt4 => run_kernel(row, image, plan, cleanup),
        _ => listen(
            child("library", image, row.options, plan.settle)?,
            plan.limit,
        ),
    }
}

fn run_kernel(row: &Row, image: &Path, plan: &Plan, cleanup: &mut Cleanup) -> Result<Vec<Sample>> {
    let buffers = memory::buffers_mib()?;
    let start = Instant::now();
    let mount = KernelMount::new(image, row.options)?;
    let elapsed = start.elapsed();
    cleanup.watch(mount.path())?;
    let read = blocks_read(mount.loop_device())?;
    let mut samples = vec![milliseconds("mount", elapsed)];
    let written = child("directory", mount.path(), row.options, plan.settle)
        .and_then(|child| listen(child, plan.limit));
    let blocks = blocks_read(mount.loop_device())? - read;
    let memory = (memory::buffers_mib()? - buffers).max(0.0);
    mount.unmount()?;
    samples.extend(written?);
    samples.push(Sample::new("bitmaps read", Unit::Count, blocks));
    samples.push(Sample::new("memory", Unit::Mebibytes, memory));
    Ok(samples)
}

fn child(kind: &str, place: &Path, options: &str, settle: Duration) -> Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["fragmented-row", kind])
        .arg(place)
        .arg(options)
        .arg(settle.as_millis().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a row")
}

/// Collects the output of the child; stops it at the limit.
fn listen(mut child: Child, limit: Duration) -> Result<Vec<Sample>> {
    let stdout = child.stdout.take().context("the output is piped")?;
    let (sender, lines) = channel();
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(stdout).lines().map_while(Result::ok);
        lines.map(|line| sender.send(line)).find(Result::is_err);
    });
    let start = Instant::now();
    let mut samples = Vec::new();
    let stopped = loop {
        match lines.recv_timeout(limit.saturating_sub(start.elapsed())) {
            Ok(line) => samples.push(parse(&line).context("a row speaks nonsense")?),
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => break true,
        }
    };
    if stopped {
        // A write inside the kernel continues until it is done.
        child.kill()?;
        samples.push(milliseconds("stopped at the limit after", start.elapsed()));
    }
    let status = child.wait()?;
    let _ = reader.join();
    anyhow::ensure!(
        stopped || status.success(),
        "the row failed (it says why above)"
    );
    Ok(samples)
}

fn parse(line: &str) -> Option<Sample> {
    let mut fields = line.split('\t');
    let metric = fields.next()?.to_owned();
    let unit = Unit::of_name(fields.next()?)?;
    let value = fields.next()?.parse().ok()?;
    Some(Sample::new(metric, unit, value))
}

fn milliseconds(metric: impl Into<String>, time: Duration) -> Sample {
    Sample::new(metric, Unit::Milliseconds, time.as_secs_f64() * 1e3)
}

fn say(sample: &Sample) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let Sample {
        metric,
        unit,
        value,
    } = sample;
    writeln!(out, "{metric}\t{}\t{value}", unit.name())?;
    Ok(out.flush()?)
}

/// Main function of a child on the library.
pub(crate) fn measure_library(image: &Path, options: &str, settle: Duration) -> Result<()> {
    let start = Instant::now();
    let filesystem = Arc::new(open(image, options)?);
    say(&milliseconds("mount", start.elapsed()))?;
    write_all(&LibraryClient::new(filesystem.clone())?, settle, &|| {
        library_numbers(&filesystem)?.iter().try_for_each(say)
    })?;
    filesystem.abandon();
    Ok(())
}

/// Main function of a child on a mount.
pub(crate) fn measure_directory(dir: &Path, settle: Duration) -> Result<()> {
    write_all(&SystemClient::new(dir)?, settle, &|| Ok(()))
}

/// Runs all writes; `after_second` prints other costs of the first two.
fn write_all(
    client: &dyn Client,
    settle: Duration,
    after_second: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let data = vec![0x5a; CALL_BYTES];
    for (index, (name, mib)) in WRITES.into_iter().enumerate() {
        if index == 2 {
            after_second()?;
            std::thread::sleep(settle);
        }
        let start = Instant::now();
        let file = client.open_new(name)?;
        for call in 0..mib {
            file.write(call * CALL_BYTES as u64, &data)?;
        }
        file.fsync()?;
        say(&milliseconds(format!("{name} {mib} MiB"), start.elapsed()))?;
        let extents = file.extent_count()? as f64;
        say(&Sample::new(
            format!("{name} extents"),
            Unit::Count,
            extents,
        ))?;
    }
    Ok(())
}

fn library_numbers(filesystem: &Filesystem) -> Result<Vec<Sample>> {
    let stats = filesystem.stats();
    let mut samples = vec![
        Sample::new(
            "bitmaps read",
            Unit::Count,
            stats.allocator.get("bitmaps_read").copied().unwrap_or(0) as f64,
        ),
        Sample::new("memory", Unit::Mebibytes, memory::own_mib()?),
    ];
    if let Some(trees) = stats.trees {
        samples.push(Sample::new("trees", Unit::Count, trees.cached as f64));
        let mib = trees.used_bytes as f64 / MIB;
        samples.push(Sample::new("tree memory", Unit::Mebibytes, mib));
    }
    Ok(samples)
}

const MIB: f64 = 1048576.0;

/// Blocks of 4 KiB read from a block device so far.
fn blocks_read(device: &str) -> Result<f64> {
    let name = device.rsplit('/').next().unwrap_or(device);
    let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat"))?;
    let sectors = stat.split_whitespace().nth(2).context("no third field")?;
    Ok(sectors.parse::<f64>()? / 8.0)
}

/// Removes the files of a row, and their blocks from the sparse file.
pub(super) fn restore(image: &Path) -> Result<()> {
    let options = "discard,allocator=freespace-tree,no_prefetch_block_bitmaps";
    let filesystem = Arc::new(open(image, options)?);
    let client = LibraryClient::new(filesystem.clone())?;
    for (name, _) in WRITES {
        if client.stat(name).is_ok() {
            client.remove(name)?;
        }
    }
    drop(client);
    Ok(filesystem.unmount()?)
}

fn open(image: &Path, options: &str) -> uext4::Result<Filesystem> {
    let (options, base_lines) = base_lines::cut_words(options);
    let setup = Setup {
        options,
        base_lines,
        ..Setup::default()
    };
    crate::stage::open(image, &setup)
}
