//! What `uext4 fsck` tells of its work besides the problems: `-v`, `-t` and `-d`.

use crate::failure::{At, Result};
use crate::show;
use std::time::Instant;
use uext4::check::{Pass, Watch};
use uext4::device::BlockDevice;
use uext4_num::clamp_u64;
use uext4_sync::Arc;
use uext4_sync::atomic::{AtomicU64, Ordering};

#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(super) struct ToldArgs {
    /// Print how many inodes and blocks are in use
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

    /// Prints what is in use of the file system.
    pub(super) fn print_use(&self, name: &str, device: &dyn BlockDevice) -> Result<()> {
        if !self.args.verbose && !self.args.debug {
            return Ok(());
        }
        let disk = uext4::read_superblock(device, None).at(name)?;
        let (inodes, blocks) = (disk.inodes_count, disk.blocks_count);
        show::line(format_args!(
            "{name}: {} of {inodes} inodes and {} of {blocks} blocks are in use",
            inodes.saturating_sub(disk.free_inodes_count),
            blocks.saturating_sub(disk.free_blocks_count),
        ))
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
