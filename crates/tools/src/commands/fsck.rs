//! `uext4 fsck`: checks a file system and repairs it, with the interface of e2fsck.

use crate::commands::check::check_threads;
use crate::commands::fsck_decisions::{Choice, Session};
use crate::commands::fsck_end::{end_check, end_repair};
use crate::commands::fsck_explain::explain;
use crate::commands::fsck_extended::Extended;
use crate::commands::fsck_optimise::optimise;
use crate::commands::fsck_progress::{bar, on_descriptor};
use crate::commands::fsck_superblock::{block_size, is_clean, superblock_kib};
use crate::commands::fsck_told::{Counted, Told};
use crate::failure::{At, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;
use uext4::MountOptions;
use uext4::check::Limits;
use uext4::device::BlockDevice;
use uext4::repair::undo::UndoRecorder;
use uext4_sync::Arc;

/// Check a file system and repair it, as e2fsck does
#[derive(clap::Args)]
#[command(
    version,
    disable_version_flag = true,
    after_help = "\
Examples:
  uext4 fsck -p disk.img                   at boot: repair what loses nothing
  uext4 fsck -fn disk.img                  check it, change nothing
  uext4 fsck /mnt                          check a running mount, change nothing
  uext4 fsck /mnt --every 1d               the same each day
  uext4 fsck -fy disk.img                  check it and repair everything
  uext4 fsck --explain inode.links-wrong   what a problem is, and what its repair does

Without -f an image that was unmounted cleanly is not checked. Without -n, -p and -y each problem is
asked about on the terminal. The journal is replayed first; with -n that happens in memory.

Of a running mount a snapshot is checked, in full and at the lowest priority; its writers go on. The
server keeps what they overwrite meanwhile. `uext4 stats` shows the check, and the last verdict.

Exit status, as for every fsck(8): 0 no errors, 1 errors were corrected, 4 errors are left,
8 operational error, 16 wrong arguments."
)]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Repair without questions what loses nothing; stop at the first other problem
    #[arg(short = 'p', visible_short_alias = 'a', group = "choice")]
    preen: bool,
    /// Repair everything without questions
    #[arg(short = 'y', group = "choice")]
    yes: bool,
    /// Change nothing
    #[arg(short = 'n', group = "choice")]
    no: bool,
    /// Check also an image that was unmounted cleanly
    #[arg(short = 'f')]
    force: bool,
    /// Use the superblock in this block; a repair writes it over the primary one
    #[arg(short = 'b', value_name = "BLOCK")]
    superblock: Option<u64>,
    /// Bytes of a block, for -b. Default: all sizes are tried
    #[arg(short = 'B', value_name = "BYTES", requires = "superblock", value_parser = block_size)]
    block_size: Option<u32>,
    /// Build directories anew that become smaller by that, or get an index; not with -n, and with
    /// -p only if the image is checked
    #[arg(short = 'D', conflicts_with = "no")]
    optimise: bool,
    /// Image of the external journal
    #[arg(short = 'j', value_name = "FILE", conflicts_with = "journal_path")]
    journal: Option<PathBuf>,
    /// Write the progress as lines `PASS DONE TOTAL NAME` to this descriptor; 0 shows a bar
    #[arg(short = 'C', value_name = "FD", allow_hyphen_values = true)]
    progress: Option<i32>,
    /// Comma-separated: journal_only, discard, nodiscard, fixes_only, bmap2extent, unshare_blocks
    #[arg(short = 'E', value_name = "LIST")]
    extended: Vec<Extended>,
    /// Keep in FILE what is overwritten; `uext4 undo` and e2undo bring it back
    #[arg(short = 'z', value_name = "FILE")]
    undo_file: Option<PathBuf>,
    #[command(flatten)]
    told: super::fsck_told::ToldArgs,
    /// Drop what the host has cached of the image before
    #[arg(short = 'F')]
    flush: bool,
    /// No effect, as in e2fsck
    #[arg(short = 'r')]
    _compatible: bool,
    /// Print the version to standard error
    #[arg(short = 'V', action = clap::ArgAction::Version)]
    _version: Option<bool>,
    /// Print one JSON object per problem, then a summary
    #[arg(long)]
    json: bool,
    /// Explain the problem with the code in place of IMAGE; `all` lists the codes
    #[arg(long)]
    explain: bool,
    /// Memory limit; from half of it on, a check has large arrays in a temporary file (--spill)
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = crate::numbers::size)]
    memory: u64,
    /// Number of threads; no effect on what is found. Default: one per processor, at most 8
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    mount: super::fsck_mount::MountArgs,
}

/// Findings that one round of a repair keeps.
const FINDINGS_MAX: usize = 100_000;

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        if self.explain {
            return explain(&self.image.name());
        }
        let told = Told::begin(self.told);
        let checked = match super::control::is_running(&self.image) {
            Ok(true) => super::fsck_mount::run(&self, &told, &self.mount),
            Ok(false) => {
                let refused = self.mount.refuse_for_image(&self.image.name());
                let image = match &self.journal {
                    Some(path) => self.image.clone().with_journal(path.clone()),
                    None => self.image.clone(),
                };
                refused.and_then(|()| self.check(&image, &told))
            }
            Err(failure) => Err(failure),
        };
        told.print(&self.image.name())
            .and(checked)
            .map_err(Failure::of_fsck)
    }

    pub(super) fn image(&self) -> &ImageArgs {
        &self.image
    }

    pub(super) fn json(&self) -> bool {
        self.json
    }

    /// The first given option that changes an image.
    pub(super) fn first_change(&self) -> Option<&'static str> {
        let given = [
            ("-p", self.preen),
            ("-y", self.yes),
            ("-D", self.optimise),
            ("-z", self.undo_file.is_some()),
            ("-b", self.superblock.is_some()),
            ("-j", self.journal.is_some()),
            ("-E", !self.extended.is_empty()),
            ("-F", self.flush),
        ];
        let first = given.into_iter().find(|(_, is_given)| *is_given);
        first.map(|(name, _)| name)
    }

    fn choice(&self) -> Result<Choice> {
        match (self.preen, self.yes, self.no) {
            (true, ..) => Ok(Choice::Preen),
            (_, true, _) => Ok(Choice::Yes),
            (.., true) => Ok(Choice::No),
            _ => Choice::of_terminal(),
        }
    }

    pub(super) fn limits(&self, choice: Choice) -> Result<Limits> {
        let watch = match self.progress {
            Some(fd) => Some(on_descriptor(fd, &self.image.name())?),
            // Questions are asked on the same terminal.
            None if choice == Choice::Ask => None,
            None => Some(bar()),
        };
        Ok(Limits {
            watch,
            memory_bytes: self.memory,
            spill: self.mount.checked_spill_dir()?,
            time: Duration::MAX,
            threads: check_threads(self.threads),
            findings: FINDINGS_MAX,
        })
    }

    fn check(&self, image: &ImageArgs, told: &Told) -> Result<()> {
        let choice = self.choice()?;
        let mut session = Session::new(image.name(), choice, self.json);
        let mut limits = self.limits(choice)?;
        limits.watch = told.watch(limits.watch.take());
        if self.flush {
            image.device(Purpose::Read)?.forget_cache();
        }
        let superblock_kib = superblock_kib((self.superblock, self.block_size), image)?;
        if choice == Choice::No {
            Extended::check_read_only(&self.extended)?;
            let options = MountOptions {
                superblock_kib,
                ..MountOptions::default()
            };
            let report = image.check(options, &limits);
            let report = report.at(image.name())?;
            let ended = end_check(&mut session, &report);
            return ended.and(told.print_use(&image.name(), Counted::of_check(&report)));
        }
        let options = MountOptions {
            superblock_kib,
            ..image.journal_options(Purpose::Change).at(image.name())?
        };
        let device = image.device(Purpose::Change)?;
        Extended::check_mountable(&self.extended, &*device)?;
        let recorder = self.recorder(&device, image)?;
        let device = match &recorder {
            Some(recorder) => {
                let recorder: Arc<dyn BlockDevice> = recorder.clone();
                recorder
            }
            None => device,
        };
        let done = self.change(&mut session, device, (options, &limits), told);
        if let Some(recorder) = recorder {
            recorder.finish().at(image.name())?;
        }
        done
    }

    /// The device that keeps what is overwritten.
    fn recorder(
        &self,
        device: &Arc<dyn BlockDevice>,
        image: &ImageArgs,
    ) -> Result<Option<Arc<UndoRecorder>>> {
        let Some(path) = &self.undo_file else {
            return Ok(None);
        };
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            // It has old contents of the file system.
            .mode(0o600)
            .open(path)
            .at(path.display())?;
        let offset = image.place.offset.unwrap_or(0);
        let recorder = UndoRecorder::new(Arc::clone(device), offset, file);
        Ok(Some(Arc::new(recorder)))
    }

    /// Repairs, and does what `-E` asks for if nothing is left.
    fn change(
        &self,
        session: &mut Session,
        device: Arc<dyn BlockDevice>,
        (options, limits): (MountOptions, &Limits),
        told: &Told,
    ) -> Result<()> {
        if Extended::is_journal_only(&self.extended) {
            if options.superblock_kib.is_some() {
                return Err(Failure::usage("fsck: -E journal_only replays without -b"));
            }
            uext4::repair::recover(&device, &options).at(session.name())?;
            return session.end(true, 0, None);
        }
        let unshares = Extended::is_unsharing(&self.extended);
        let is_asked = self.force
            || unshares
            || options.superblock_kib.is_some()
            || (self.optimise && !self.preen);
        if !is_asked && is_clean(session, &device, &options)? {
            session.say_clean()?;
            return Extended::finish(&self.extended, &device, &options, session.name());
        }
        let wanted = options.clone();
        let repair = if unshares {
            uext4::repair::unshare_blocks
        } else {
            uext4::repair::repair
        };
        let repaired = repair(Arc::clone(&device), wanted, session, limits);
        let repaired = repaired.at(session.name())?;
        let ended = end_repair(session, &repaired);
        // Also what was repaired ends with a status of its own.
        let used = told.print_use(session.name(), Counted::of_repair(&repaired));
        if repaired.is_sound() {
            let options = MountOptions {
                superblock_kib: None,
                ..options
            };
            if self.optimise {
                optimise(session.name(), &device, &options, limits, self.json)?;
            }
            Extended::finish(&self.extended, &device, &options, session.name())?;
        }
        ended.and(used)
    }
}
