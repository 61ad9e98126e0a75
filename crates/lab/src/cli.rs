//! The command line.

use crate::experiments::{Clock, Experiment, Plan};
use crate::measure::{self, Results};
use crate::report_options::{ReportOptions, ValidateOptions};
use crate::simulate_options::SimulateOptions;
use crate::system::System;
use crate::{
    age, allocator, calibrate, calibrate_operations, checkpoint, cleanup, durable, fragmented,
    mounts, page, report, scale, shrinker, workers,
};
use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

/// Experiments with uext4 and its peers, each on a fresh file system in memory.
#[derive(Parser)]
#[command(version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create, stat and remove empty files (variants: own, shared directory; spread: each worker's
    /// names alternate over as many directories as there are workers; own-racing, shared-racing:
    /// workers race for free inodes, as before; own-before, shared-before: all earlier designs;
    /// apart is the ceiling: each worker has a file system of its own).
    Mdtest(Options),
    /// 8 KiB fallocate calls at the end of an unlinked file, truncated every 128 calls (variants:
    /// default, linear, optimized, freespace-tree; baselines: blocking: workers wait for locks of
    /// groups, and there is one goal; goal-mutex: each reads and stores one goal; apart is the
    /// ceiling: each worker has a file system of its own).
    Fallocate2(Options),
    /// Durable changes: rate, and KiB, writes and flushes of the block device for each fsync
    /// (variants: create: a new file of 4 KiB; append: 512 bytes).
    Fsync(DurableOptions),
    /// A mail server as filebench's varmail: files removed, created, appended to with fsync, and
    /// read; the columns of fsync, and the number of commits.
    Varmail(DurableOptions),
    /// Writers that append 4 KiB at a time to their own files: extents per file (variants: default,
    /// nodelalloc).
    Append(Options),
    /// Files unlinked while open, and truncates of such files, in process and through the mount
    /// (variants: orphan file, list; list-mutex is the baseline: the list is locked also when it
    /// does not change; none is the floor: orphans are not tracked).
    StressOrphan(Options),
    /// Writers on a new file system, each with a file of its own (variants: default, linear,
    /// optimized, freespace-tree).
    ParallelWrite(Options),
    /// All kinds of requests to a mount: the measurements of mount-names, mount-io and mount-tree
    /// in one run, with the ratios to fuse2fs and the kernel (variants: dev_fuse, io_uring, peers).
    Mount(Options),
    /// Creates through mounts while one directory grows, per chunk of names (variants: dev_fuse,
    /// io_uring, peers).
    MountCreate(Options),
    /// Writes and reads through mounts, 1 MiB and 4 KiB at a time, sequential and random, through
    /// the page cache and with direct I/O (variants: dev_fuse, io_uring, peers).
    MountIo(Options),
    /// Create, attributes, positive and negative lookups, remove, one request each (variants:
    /// dev_fuse, io_uring, peers).
    MountNames(Options),
    /// A tree of files copied in, walked and removed (variants: dev_fuse, io_uring, peers).
    MountTree(Options),
    /// First and second write to a large, fragmented file system after a cold mount.
    Fragmented(FragmentedOptions),
    /// Small durable files, and the cost of tracking blocks until their checkpoint: share of time,
    /// and time per block while 1,000 to 1,000,000 blocks are queued. The variants with `scan` are
    /// the baseline: every commit checks all queued blocks.
    Checkpoint(CheckpointOptions),
    /// The longest call of the extent status shrinker with 16 writers: many files, and two sparse
    /// files of 1 GB; full-scan is the baseline: all files are sorted by their last use.
    Shrinker(ShrinkerOptions),
    /// Very many files in one directory and in a tree: created, looked up, listed, removed, each on
    /// a fresh mount, with the memory use, and e2fsck after each change.
    Scale(ScaleOptions),
    /// Layout of a volume after years of use, by allocator: files of a published profile are
    /// created and removed at a given utilisation until the volume was overwritten many times.
    /// Measured are extents of files, free extents, locality and the speed of writing (variants:
    /// linear, optimized, freespace-tree).
    Age(AgeOptions),
    /// Experiments on simulated machines with up to 1,024 cores, in virtual time: rate of each
    /// worker, transfers of cache lines, and the lines that cost most. Needs `make simulate`.
    Simulate(SimulateOptions),
    /// The parameters of this machine for `simulate`, by micro-benchmarks (JSON, in nanoseconds).
    Calibrate {
        /// The operations instead: time alone, and while the other CPU does the same in a process
        /// and for a file system of its own, as a multiple.
        #[arg(long)]
        operations: bool,
        /// Runs of each operation, in turn.
        #[arg(long, default_value_t = 7)]
        runs: usize,
    },
    /// The tables of the source documents, published and our own, before and after, on one page:
    /// report.html, report.md and their numbers, record.json. `make report` builds the simulator
    /// for it.
    Report(ReportOptions),
    /// Two workers against one: the simulator of this machine beside the machine itself.
    Validate(ValidateOptions),
    /// The writes of one row of `fragmented`.
    #[command(hide = true)]
    FragmentedRow {
        kind: String,
        place: PathBuf,
        options: String,
        settle_ms: u64,
    },
    /// One worker of an experiment in a process of its own.
    #[command(hide = true)]
    Worker { task: String, dir: PathBuf },
    /// Serves an image as a mount until it is unmounted.
    #[command(hide = true)]
    Serve {
        image: PathBuf,
        dir: PathBuf,
        options: String,
    },
    /// Cleans up after this program when it dies.
    #[command(hide = true)]
    Cleanup,
}

#[derive(Args)]
struct Options {
    /// Numbers of concurrent workers, one measurement each.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    workers: Vec<u32>,
    /// Length of a timed phase in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Fresh file systems per system; the table shows the median.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Systems that take turns; default: those that suit the experiment.
    #[arg(long, value_enum, value_delimiter = ',')]
    systems: Vec<System>,
    /// Variants of the experiment; default: all.
    #[arg(long, value_delimiter = ',')]
    variants: Vec<String>,
    /// Files per worker (mdtest, mount, mount-names), total names (mount-create), MiB per worker
    /// (mount-io, parallel-write), appends per worker (append).
    #[arg(long)]
    count: Option<u64>,
    /// Size of the file system in MiB; default: 2048, or more where the files need more inodes.
    #[arg(long)]
    image_mib: Option<u64>,
    /// Size of the journal in MiB; default: 128, and for mdtest a quarter of the file system, at
    /// most 1024, the default of mke2fs for a disk of 128 GiB: with less, 48 workers wait for the
    /// log.
    #[arg(long)]
    journal_mib: Option<u64>,
    /// Clock of the phases: wall time, or CPU time of the workers.
    #[arg(long, value_enum, default_value = "wall")]
    clock: Clock,
    /// Additional mount options for uext4; io_uring and no_io_uring choose the transport of our
    /// mount.
    #[arg(long, default_value = "")]
    mount_options: String,
    /// Additional features for mke2fs, as for its -O.
    #[arg(long, default_value = "")]
    features: String,
    #[command(flatten)]
    output: Output,
}

impl Cli {
    pub(crate) fn run(self) -> Result<()> {
        if !matches!(self.command, Command::Scale(_)) {
            // Scale measures the memory in use, so it must not keep freed memory.
            allocator::keep_what_is_freed()?;
        }
        match self.command {
            Command::Mdtest(options) => options.run(Experiment::Mdtest),
            Command::Fallocate2(options) => options.run(Experiment::Fallocate2),
            Command::Fsync(options) => options.run(Experiment::Fsync, &[1, 16, 64]),
            Command::Varmail(options) => options.run(Experiment::Varmail, &[16]),
            Command::ParallelWrite(options) => options.run(Experiment::ParallelWrite),
            Command::Mount(options) => options.run(Experiment::Mount),
            Command::MountCreate(options) => options.run(Experiment::MountCreate),
            Command::MountIo(options) => options.run(Experiment::MountIo),
            Command::Append(options) => options.run(Experiment::Append),
            Command::StressOrphan(options) => options.run(Experiment::StressOrphan),
            Command::MountNames(options) => options.run(Experiment::MountNames),
            Command::MountTree(options) => options.run(Experiment::MountTree),
            Command::Fragmented(options) => options.run(),
            Command::Checkpoint(options) => options.run(),
            Command::Shrinker(options) => options.run(),
            Command::Scale(options) => options.run(),
            Command::Age(options) => options.run(),
            Command::Simulate(options) => options.run(),
            Command::Calibrate { operations, runs } => {
                if operations {
                    calibrate_operations::run(runs)
                } else {
                    calibrate::run()
                }
            }
            Command::Report(options) => options.run(),
            Command::Validate(options) => page::validate(&options.simulator, options.runs.max(1)),
            Command::FragmentedRow {
                kind,
                place,
                options,
                settle_ms,
            } => {
                let settle = Duration::from_millis(settle_ms);
                match kind.as_str() {
                    "library" => fragmented::measure_library(&place, &options, settle),
                    _ => fragmented::measure_directory(&place, settle),
                }
            }
            Command::Worker { task, dir } => workers::work_as_process(&task, &dir),
            Command::Serve {
                image,
                dir,
                options,
            } => mounts::serve(&image, &dir, &options),
            Command::Cleanup => cleanup::run(),
        }
    }
}

impl Options {
    fn run(self, experiment: Experiment) -> Result<()> {
        let chosen = if self.systems.is_empty() {
            experiment.default_systems().to_vec()
        } else {
            self.systems
        };
        let variants = experiment.pick_variants(&self.variants)?;
        let count = self.count.unwrap_or(experiment.default_count());
        let image_mib = self
            .image_mib
            .unwrap_or_else(|| experiment.default_image_mib(&self.workers, count));
        let plan = Plan {
            experiment,
            variants,
            workers: self.workers,
            systems: chosen,
            seconds: self.seconds,
            runs: self.runs.max(1),
            count,
            image_mib,
            journal_mib: self
                .journal_mib
                .unwrap_or_else(|| experiment.default_journal_mib(image_mib)),
            mount_options: self.mount_options,
            features: self.features,
            clock: self.clock,
        };
        self.output.show(&measure::run(&plan)?)
    }
}

/// Options of the experiments with fsync.
#[derive(Args)]
struct DurableOptions {
    /// Numbers of concurrent workers, one measurement each; default: 1, 16 and 64, for varmail 16.
    #[arg(long, value_delimiter = ',')]
    workers: Vec<u32>,
    /// Length of a measurement in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Fresh file systems per system; the table shows the median.
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Systems that take turns; the mount uses both transports.
    #[arg(long, value_enum, value_delimiter = ',')]
    systems: Vec<System>,
    /// Variants of the experiment; default: all.
    #[arg(long, value_delimiter = ',')]
    variants: Vec<String>,
    /// Commits: without the feature fast_commit, and with it.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "full,fast")]
    commits: Vec<durable::Feature>,
    /// Below the loop device: a file on tmpfs; the same behind nbdkit and nbdfuse, with slow
    /// flushes.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "loop")]
    devices: Vec<durable::DeviceKind>,
    /// Delay of a flush of the slow device, in microseconds.
    #[arg(long, default_value_t = 100)]
    flush_us: u64,
    /// Files of varmail, for all workers together; fsyncs per worker, 0 for as many as the time
    /// allows.
    #[arg(long)]
    count: Option<u64>,
    /// Size of the file system in MiB.
    #[arg(long, default_value_t = 1024)]
    image_mib: u64,
    /// Size of the journal in MiB.
    #[arg(long, default_value_t = 64)]
    journal_mib: u64,
    /// Additional mount options for uext4.
    #[arg(long, default_value = "")]
    mount_options: String,
    #[command(flatten)]
    output: Output,
}

impl DurableOptions {
    fn run(self, experiment: Experiment, workers: &[u32]) -> Result<()> {
        let systems = if self.systems.is_empty() {
            experiment.default_systems().to_vec()
        } else {
            self.systems
        };
        let workers = if self.workers.is_empty() {
            workers.to_vec()
        } else {
            self.workers
        };
        let plan = durable::Plan {
            experiment,
            variants: experiment.pick_variants(&self.variants)?,
            features: self.commits,
            devices: self.devices,
            workers,
            systems,
            seconds: self.seconds,
            runs: self.runs.max(1),
            count: self.count.unwrap_or(experiment.default_count()),
            image_mib: self.image_mib,
            journal_mib: self.journal_mib,
            flush_us: self.flush_us,
            mount_options: self.mount_options,
        };
        self.output.show_as(&durable::run(&plan)?, report::wide)
    }
}

/// Form of the results.
#[derive(Args)]
struct Output {
    /// One JSON object per line instead of a table.
    #[arg(long)]
    json: bool,
    /// Also draw an SVG chart into this file.
    #[arg(long)]
    svg: Option<PathBuf>,
}

impl Output {
    fn show(&self, results: &Results) -> Result<()> {
        self.show_as(results, |results| {
            report::table(results, std::io::stdout().is_terminal())
        })
    }

    /// As [`Self::show`], with this text table.
    fn show_as(&self, results: &Results, table: impl Fn(&Results) -> String) -> Result<()> {
        if self.json {
            print!("{}", report::json_lines(results)?)
        } else {
            print!("{}", table(results))
        }
        if let Some(path) = &self.svg {
            let drawing = report::svg(results);
            std::fs::write(path, drawing).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }
}

#[derive(Args)]
struct Peers {
    /// Systems that take turns.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "uext4,kernel-ext4"
    )]
    systems: Vec<System>,
}

/// Choice of systems, and number of runs.
#[derive(Args)]
struct Turns {
    #[command(flatten)]
    peers: Peers,
    /// Fresh file systems (cold mounts) per system; the table shows the median.
    #[arg(long, default_value_t = 3)]
    runs: u32,
}

#[derive(Args)]
struct FragmentedOptions {
    /// Size of the file system; 60T is the size in the patch that proposed free-space trees, and
    /// takes 2.1 GiB of memory.
    #[arg(long, default_value = "60T", value_parser = fragmented::parse_size)]
    size: u64,
    /// Rows (names in the column `variant`); default: all. The kernel's rows named `linear` take
    /// minutes.
    #[arg(long, value_delimiter = ',', value_parser = fragmented::names())]
    rows: Vec<String>,
    #[command(flatten)]
    turns: Turns,
    /// Time limit of a row in seconds; a stopped row shows its results so far, and that it was
    /// stopped. A write inside the kernel ends first.
    #[arg(long, default_value_t = 60)]
    limit_s: u64,
    /// Seconds between the second and the third write.
    #[arg(long, default_value_t = 3.0)]
    settle_s: f64,
    /// Only generate the file system, in this new file.
    #[arg(long)]
    write_image: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl FragmentedOptions {
    fn run(self) -> Result<()> {
        if let Some(path) = &self.write_image {
            return fragmented::write_image(path, self.size);
        }
        let plan = fragmented::Plan {
            size_bytes: self.size,
            rows: self.rows,
            systems: self.turns.peers.systems,
            runs: self.turns.runs.max(1),
            limit: Duration::from_secs(self.limit_s),
            settle: Duration::from_secs_f64(self.settle_s),
        };
        self.output.show(&fragmented::run(&plan)?)
    }
}

#[derive(Args)]
struct CheckpointOptions {
    /// Total number of files.
    #[arg(long, default_value_t = 100_000)]
    files: u64,
    /// Numbers of concurrent workers, one measurement each.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    workers: Vec<u32>,
    #[command(flatten)]
    turns: Turns,
    /// Size of the file system in MiB.
    #[arg(long, default_value_t = 1536)]
    image_mib: u64,
    /// Size of the journal in MiB.
    #[arg(long, default_value_t = 128)]
    journal_mib: u64,
    /// Longest queue measured, in blocks.
    #[arg(long, default_value_t = 1_000_000)]
    queue_max: u32,
    /// Additional mount options for uext4; io_uring and no_io_uring choose the transport of our
    /// mount.
    #[arg(long, default_value = "")]
    mount_options: String,
    #[command(flatten)]
    output: Output,
}

impl CheckpointOptions {
    fn run(self) -> Result<()> {
        let plan = checkpoint::Plan {
            files: self.files,
            workers: self.workers,
            systems: self.turns.peers.systems,
            runs: self.turns.runs.max(1),
            image_mib: self.image_mib,
            journal_mib: self.journal_mib,
            queue_max: self.queue_max,
            mount_options: self.mount_options,
        };
        self.output.show(&checkpoint::run(&plan)?)
    }
}

#[derive(Args)]
struct ShrinkerOptions {
    /// Systems that take turns; the kernel's own has no budget: memory pressure makes it drop its
    /// extents of all files of the machine.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "uext4,uext4-mount,kernel-ext4"
    )]
    systems: Vec<System>,
    /// Number of writers.
    #[arg(long, default_value_t = 16)]
    workers: u32,
    /// Blocks per writer, every second one of its part of a file.
    #[arg(long, default_value_t = 16_384)]
    blocks: u32,
    /// Memory for extents (`extent_cache=`) in KiB; default: for most of the extents of many files,
    /// 1024 for two files.
    #[arg(long)]
    memory_kib: Option<u64>,
    /// Fresh file systems; the table shows the median.
    #[arg(long, default_value_t = 3)]
    runs: u32,
    #[command(flatten)]
    output: Output,
}

impl ShrinkerOptions {
    fn run(self) -> Result<()> {
        let plan = shrinker::Plan {
            systems: self.systems,
            workers: self.workers.max(1),
            blocks: self.blocks.max(1),
            memory_bytes: self.memory_kib.map(|kib| kib << 10),
            runs: self.runs.max(1),
        };
        self.output.show(&shrinker::run(&plan)?)
    }
}

#[derive(Args)]
struct ScaleOptions {
    /// Number of files.
    #[arg(long, default_value_t = 1_000_000)]
    files: u64,
    /// Placement of the files.
    #[arg(long, value_delimiter = ',', value_parser = scale::VARIANTS)]
    variants: Vec<String>,
    #[command(flatten)]
    peers: Peers,
    /// Additional mount options for uext4.
    #[arg(long, default_value = "")]
    mount_options: String,
    #[command(flatten)]
    output: Output,
}

impl ScaleOptions {
    fn run(self) -> Result<()> {
        let all = scale::VARIANTS.into_iter();
        let plan = scale::Plan {
            files: self.files,
            variants: all
                .filter(|name| {
                    self.variants.is_empty() || self.variants.iter().any(|chosen| chosen == name)
                })
                .collect(),
            systems: self.peers.systems,
            mount_options: self.mount_options,
        };
        self.output.show(&scale::run(&plan)?)
    }
}

#[derive(Args)]
struct AgeOptions {
    /// Distributions of sizes, ages and depths of files.
    #[arg(long, default_value = "agrawal", value_parser = age::profiles())]
    profile: String,
    /// Percentages of the space for data that files use.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "50,80,95",
        value_parser = clap::value_parser!(u64).range(1..=95)
    )]
    utilisations: Vec<u64>,
    /// Data written while aging, as a multiple of the space for data.
    #[arg(long, default_value_t = 10)]
    overwrites: u64,
    /// Allocators; default: all. The kernel has linear and optimized.
    #[arg(long, value_delimiter = ',', value_parser = age::VARIANTS)]
    variants: Vec<String>,
    #[command(flatten)]
    turns: Turns,
    /// Seed of the first run; each further run has the next one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Size of the file system in MiB.
    #[arg(long, default_value_t = 1024)]
    image_mib: u64,
    /// Size of the journal in MiB.
    #[arg(long, default_value_t = 32)]
    journal_mib: u64,
    #[command(flatten)]
    output: Output,
}

impl AgeOptions {
    fn run(self) -> Result<()> {
        let plan = age::Plan {
            profile: age::profile(&self.profile).context("an unknown profile")?,
            systems: self.turns.peers.systems,
            variants: age::VARIANTS
                .into_iter()
                .filter(|name| {
                    self.variants.is_empty() || self.variants.iter().any(|chosen| chosen == name)
                })
                .collect(),
            utilisations: self.utilisations,
            overwrites: self.overwrites,
            runs: self.turns.runs.max(1),
            seed: self.seed,
            image_mib: self.image_mib,
            journal_mib: self.journal_mib,
        };
        self.output.show(&age::run(&plan)?)
    }
}
