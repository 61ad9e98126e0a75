//! What `uext4 fsck` tells of its work besides the problems: `-v`, `-t` and `-d`.

use crate::failure::Result;
use crate::show;
use std::time::Instant;
use uext4::check::{CheckReport, Pass, Watch};
use uext4::repair::RepairReport;
use uext4_num::clamp_u64;
use uext4_sync::Arc;
use uext4_sync::atomic::{AtomicU64, Ordering};

#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(super) struct ToldArgs {
    /// Print how many inodes and directories there are, if nothing is damaged
    #[arg(short = 'v', conflicts_with = "json")]
    verbose: bool,
    /// Print how long it took; twice: also when each pass was begun
    #[arg(short = 't', action = clap::ArgAction::Count, conflicts_with = "json")]
    time: u8,
    /// Print what helps to find an error of the program: -v -tt
    #[arg(short = 'd', conflicts_with = "json")]
    debug: bool,
}

/// What is told of one run.
pub(super) struct Told {
    args: ToldArgs,
    begin: Instant,
    passes: Arc<Passes>,
}

impl Told {
    pub(super) fn begin(args: ToldArgs) -> Self {
        Self {
            args,
            begin: Instant::now(),
            passes: Arc::default(),
        }
    }

    fn has_passes(&self) -> bool {
        self.args.time > 1 || self.args.debug
    }

    /// Notes the times of passes beside `other`.
    pub(super) fn watch(&self, other: Option<Arc<dyn Watch>>) -> Option<Arc<dyn Watch>> {
        if !self.has_passes() {
            return other;
        }
        Some(Arc::new(Noting {
            begin: self.begin,
            passes: self.passes.clone(),
            other,
        }))
    }

    /// Prints the times.
    pub(super) fn print(&self, name: &str) -> Result<()> {
        if self.has_passes() {
            for (number, micros) in (1u8..).zip(&self.passes.0) {
                let micros = micros.load(Ordering::Relaxed);
                if micros > 0 {
                    let time = seconds(micros);
                    show::line(format_args!("{name}: pass {number} began after {time}"))?;
                }
            }
        }
        if self.args.time > 0 || self.args.debug {
            let time = seconds(clamp_u64(self.begin.elapsed().as_micros()));
            show::line(format_args!("{name}: done after {time}"))?;
        }
        Ok(())
    }

    /// Prints what is in use of the file system, if all of it was counted.
    pub(super) fn print_use(&self, name: &str, counted: Option<Counted>) -> Result<()> {
        let asked = self.args.verbose || self.args.debug;
        let Some(Counted {
            inodes,
            directories,
        }) = counted.filter(|_| asked)
        else {
            return Ok(());
        };
        show::line(format_args!(
            "{name}: {inodes} inodes are in use, {directories} of them directories"
        ))
    }
}

/// What a check counted. The counts on the disk may be stale or wrong.
pub(super) struct Counted {
    inodes: u64,
    /// Directories among them.
    directories: u64,
}

impl Counted {
    /// `None` if not everything was checked, or damage may hide some.
    pub(super) fn of_check(report: &CheckReport) -> Option<Self> {
        report.is_clean().then_some(Self {
            inodes: report.n_inodes,
            directories: report.n_directories,
        })
    }

    /// The same of the last check of a repair.
    pub(super) fn of_repair(report: &RepairReport) -> Option<Self> {
        report.is_sound().then_some(Self {
            inodes: report.n_inodes,
            directories: report.n_directories,
        })
    }
}

fn seconds(micros: u64) -> String {
    format!("{}.{:03} s", micros / 1_000_000, micros / 1000 % 1000)
}

/// When each pass was begun, in microseconds of the run; 0: not yet.
#[derive(Default)]
struct Passes([AtomicU64; 5]);

struct Noting {
    begin: Instant,
    passes: Arc<Passes>,
    other: Option<Arc<dyn Watch>>,
}

impl Watch for Noting {
    fn advance(&self, pass: Pass, done: u64, total: u64) {
        let place = usize::from(pass.number()).saturating_sub(1);
        if let Some(begun) = self.passes.0.get(place) {
            let micros = clamp_u64(self.begin.elapsed().as_micros()).max(1);
            let _later = begun.compare_exchange(0, micros, Ordering::Relaxed, Ordering::Relaxed);
        }
        if let Some(other) = &self.other {
            other.advance(pass, done, total);
        }
    }
}
