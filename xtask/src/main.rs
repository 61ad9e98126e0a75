//! Repository tasks: `cargo xtask tidy` checks the rules of STYLE.md and `structure` prints figures
//! of the code; `crash`, `trees`, `kill`, `threads`, `exercise`, `database`, `race`, `fuzz`,
//! `commands` and `damage` are the full-size test runs of this package's library.
//!
//! `mount` is the command of the tool; it serves the runs that mount, see [`xtask::server`].
#![forbid(unsafe_code)]

mod crash;
mod race;
mod tidy;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use uext4_exerciser::worker::{self, Order};
use xtask::commands::Tool;
use xtask::exercise::FileSystemKind;
use xtask::server::{Server, Transport};
use xtask::trees::Config;
use xtask::{database, exercise};

/// Work on the repository itself.
#[derive(Parser)]
#[command(name = "xtask")]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Checks the house rules of STYLE.md that a program can check.
    Tidy,
    /// Prints figures of the structure of each crate.
    Structure {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Crashes the engine at every write, over many seeds.
    Crash(crash::Options),
    /// Whole trees through our mount and the kernel's, in every kind of file system.
    Trees {
        /// Names in the tree.
        #[arg(long, default_value_t = 20_000)]
        entries: usize,
        /// One kind of file system only.
        #[arg(long)]
        config: Option<Config>,
        #[command(flatten)]
        common: Common,
    },
    /// The server of a mount killed at random moments.
    Kill {
        /// Kills of each kind of file system.
        #[arg(long, default_value_t = 50)]
        rounds: u32,
        /// One kind of file system only, with a journal.
        #[arg(long)]
        config: Option<Config>,
        #[command(flatten)]
        common: Common,
    },
    /// 1, 2 and 16 threads in one file system, with models (use --release for figures).
    Threads {
        /// Time of the 16 threads; the others take a quarter of it.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Repeats a run.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Threads under a race detector (needs the nightly toolchain with rust-src).
    Race(race::Options),
    /// 16 processes that do all that the kernel lets them on one mount, with models.
    Exercise(ExerciseOptions),
    /// SQLite in WAL mode on a recorded mount, and power cuts.
    Database(DatabaseOptions),
    /// Wounded images mounted through FUSE, as strangers' are and plainly.
    Fuzz {
        /// Time.
        #[arg(long, default_value_t = 600)]
        seconds: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Damaged images, read and repaired by the commands of the tool.
    Commands(CommandsOptions),
    /// Damaged images, mounted and used.
    Damage {
        /// Images.
        #[arg(long, default_value_t = 10_000)]
        images: u64,
        /// First seed.
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// Processes at once; by default one for each core.
        #[arg(long)]
        jobs: Option<u64>,
    },
    /// The speed of an older revision and of the working tree, in turns: a table of ratios.
    Regress {
        /// The older revision, as git names it.
        #[arg(long)]
        old: String,
        /// Runs of each build.
        #[arg(long, default_value_t = 5)]
        pairs: u32,
        /// Experiments: fallocate2, mdtest, fsync, mount-names, build; default: all.
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
    },
    /// One process of `exercise`.
    #[command(hide = true)]
    ExerciseProcess {
        root: PathBuf,
        process: u64,
        seed: u64,
    },
    /// `uext4`: the tool of `commands`.
    #[command(hide = true, disable_help_flag = true)]
    Tool {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// `uext4 mount`: the server of the other jobs.
    #[command(hide = true, disable_help_flag = true)]
    Mount {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

#[derive(Args)]
struct ExerciseOptions {
    /// Operations of all processes together on each mount.
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
    /// Processes.
    #[arg(long, default_value_t = 16)]
    processes: u64,
    /// One kind of file system only.
    #[arg(long)]
    kind: Option<FileSystemKind>,
    /// One transport only.
    #[arg(long)]
    transport: Option<Transport>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct DatabaseOptions {
    /// Transactions on each mount.
    #[arg(long, default_value_t = 1000)]
    transactions: u64,
    /// Power cuts on each mount.
    #[arg(long, default_value_t = 1000)]
    cuts: u64,
    /// One transport only.
    #[arg(long)]
    transport: Option<Transport>,
    /// Repeats what is written and where the power is cut.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
struct CommandsOptions {
    /// Time.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// First seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// The tool, for example target/release/uext4; by default the one inside this program.
    #[arg(long)]
    tool: Option<PathBuf>,
}

/// What the runs that mount have in common.
#[derive(Args)]
struct Common {
    /// Repeats a run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Program that serves the mounts, for example target/release/uext4; by default the tool
    /// inside this program.
    #[arg(long)]
    server: Option<PathBuf>,
}

impl Common {
    fn server(&self) -> Result<Server> {
        self.server
            .as_ref()
            .map_or_else(Server::this, |program| Ok(Server::new(program)))
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let root = repository_root()?;
    match &arguments.job {
        Job::Tidy => return tidy::run(&root),
        Job::Structure { json } => tidy::print_structure(&root, *json)?,
        Job::Crash(options) => return crash::run(options),
        Job::Race(options) => return race::run(&root, options),
        Job::Trees {
            entries,
            config,
            common,
        } => {
            xtask::trees::run(&common.server()?, *entries, common.seed, *config)?;
        }
        Job::Kill {
            rounds,
            config,
            common,
        } => {
            xtask::kill::run(&common.server()?, *rounds, common.seed, *config)?;
        }
        Job::Exercise(options) => on_one_mount(options)?,
        Job::Threads { seconds, seed } => {
            xtask::threads::run(Duration::from_secs(*seconds), *seed)?;
        }
        Job::Database(options) => under_power_cuts(options)?,
        Job::Fuzz { seconds, common } => {
            let time = Duration::from_secs(*seconds);
            println!(
                "{}",
                xtask::fuzz::run(&common.server()?, time, common.seed)?
            );
        }
        Job::Commands(options) => on_damaged_images(options)?,
        Job::Damage {
            images,
            first,
            jobs,
        } => {
            let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
            xtask::damage::run(&root, *images, *first, jobs.unwrap_or(cores))?;
        }
        Job::Regress { old, pairs, only } => {
            let chosen = (*pairs, &only[..]);
            let table = xtask::regress::of_revision(&root, old, chosen, &mut |step| {
                eprintln!("regress: {step}");
            })?;
            print!("{table}");
        }
        Job::ExerciseProcess {
            root,
            process,
            seed,
        } => worker::serve(&Order {
            root: root.clone(),
            process: *process,
            seed: *seed,
        })?,
        Job::Tool { arguments } => {
            let command = std::iter::once(OsString::from("uext4"));
            return Ok(uext4_tools::run(command.chain(arguments.clone()).collect()));
        }
        Job::Mount { arguments } => {
            let command = ["uext4", "mount"].map(OsString::from).into_iter();
            return Ok(uext4_tools::run(command.chain(arguments.clone()).collect()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn on_damaged_images(options: &CommandsOptions) -> Result<()> {
    let program = options.tool.as_ref();
    let tool = program.map_or_else(Tool::this, |program| Ok(Tool::new(program)))?;
    let time = Duration::from_secs(options.seconds);
    println!("{}", xtask::commands::run(&tool, time, options.first)?);
    Ok(())
}

fn on_one_mount(options: &ExerciseOptions) -> Result<()> {
    let plan = exercise::Plan {
        server: options.common.server()?,
        worker: std::env::current_exe().context("the path of this program")?,
        operations: options.operations,
        processes: options.processes,
        seed: options.common.seed,
    };
    exercise::run(&plan, options.kind, options.transport)
}

fn under_power_cuts(options: &DatabaseOptions) -> Result<()> {
    let one = options.transport.as_ref().map(std::slice::from_ref);
    for transport in one.unwrap_or(&Transport::ALL) {
        let plan = database::Plan {
            transactions: options.transactions,
            cuts: options.cuts,
            seed: options.seed,
            transport: *transport,
            device: database::Device::Honest,
        };
        if database::available_or_skip(*transport) {
            println!("{transport:?}: {}", database::run(&plan)?);
        }
    }
    Ok(())
}

fn repository_root() -> Result<PathBuf> {
    let parent = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    Ok(parent
        .context("xtask lies in the repository")?
        .to_path_buf())
}
