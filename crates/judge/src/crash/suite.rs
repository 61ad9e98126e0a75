//! Many crashes of one run, each recovered and judged.

use std::fmt;

use anyhow::{Context, Result, ensure};
use uext4::device::{CrashLog, Event, MemDevice};
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::rng::Rng;

use super::case::{Case, Survivors};
use super::play::{Recording, SUPERBLOCK_BYTES, play};
use super::recover::{Scratch, by_us, no_panic, recorded};
use super::verdict::{self, Window};
use crate::EngineTarget;

/// How much is done. Our own recovery judges every image; of the rest one image in so many.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// One cut in so many is taken.
    pub cut: u64,
    /// `e2fsck -fn` after our recovery.
    pub check: u64,
    /// `e2fsck -p` in place of our recovery.
    pub e2fsck: u64,
    /// The kernel in place of our recovery.
    pub kernel: u64,
    /// A second crash during our recovery.
    pub twice: u64,
}

impl Effort {
    /// Every judge on every image.
    pub const FULL: Effort = Effort {
        cut: 1,
        check: 1,
        e2fsck: 1,
        kernel: 1,
        twice: 40,
    };
    /// A few images for the slow judges, as in `make test`.
    pub const SAMPLE: Effort = Effort {
        cut: 1,
        check: 6,
        e2fsck: 30,
        kernel: 120,
        twice: 150,
    };
    /// Our own recovery only.
    pub const OURS: Effort = Effort {
        cut: 1,
        check: u64::MAX,
        e2fsck: u64::MAX,
        kernel: u64::MAX,
        twice: u64::MAX,
    };
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Cuts.
    pub cuts: u64,
    /// Images that we recovered.
    pub images: u64,
    /// Images that `e2fsck -fn` called clean after that.
    pub checked: u64,
    /// Images that `e2fsck -p` recovered to the same tree.
    pub by_e2fsck: u64,
    /// Images that the kernel recovered to the same tree.
    pub by_kernel: u64,
    /// Images of a second crash.
    pub twice: u64,
    /// Images that held an older state than the last step begun.
    pub older: u64,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.images += other.images;
        self.checked += other.checked;
        self.by_e2fsck += other.by_e2fsck;
        self.by_kernel += other.by_kernel;
        self.twice += other.twice;
        self.older += other.older;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cuts,
            images,
            checked,
            by_e2fsck,
            by_kernel,
            twice,
            older,
        } = self;
        write!(
            f,
            "{cuts} cuts, {images} images recovered ({older} to an older state), {checked} \
             checked, {by_e2fsck} also by e2fsck -p, {by_kernel} also by the kernel, {twice} \
             crashed again"
        )
    }
}

/// Judges the crashes of one recording.
pub struct Judge {
    recording: Recording,
    scratch: Scratch,
    kernel: bool,
    /// What was done so far.
    pub figures: Figures,
}

impl Judge {
    /// For `recording`.
    ///
    /// # Errors
    /// There is no room for a scratch file.
    pub fn new(recording: Recording) -> Result<Self> {
        Ok(Self {
            recording,
            scratch: Scratch::new()?,
            kernel: KernelMount::is_available(),
            figures: Figures::default(),
        })
    }

    /// Crashes at every cut.
    ///
    /// # Errors
    /// A crash that broke a promise, with the text of its case.
    pub fn all(&mut self, effort: &Effort) -> Result<()> {
        let mut rng = Rng::new(self.recording.run.seed).fork(3);
        for cut in cuts(&self.recording.log) {
            if rng.below(effort.cut) != 0 {
                continue;
            }
            self.figures.cuts += 1;
            let seed = rng.below(1 << 32);
            let pending = self.recording.log.pending(cut).len();
            // With nothing or one change pending there is less to choose from.
            let all = [
                Survivors::All,
                Survivors::None,
                Survivors::Whole(seed),
                Survivors::Torn(seed),
            ];
            let survivors = match pending {
                0 => &all[..1],
                1 => &all[..2],
                _ => &all[..],
            };
            for survivors in survivors {
                let chosen = Effort {
                    cut: 1,
                    check: rng.below(effort.check),
                    e2fsck: rng.below(effort.e2fsck),
                    kernel: rng.below(effort.kernel),
                    twice: rng.below(effort.twice),
                };
                self.one(cut, *survivors, &chosen)?;
            }
        }
        Ok(())
    }

    /// One crash; a judge whose number is 0 has a say.
    fn one(&mut self, cut: usize, survivors: Survivors, chosen: &Effort) -> Result<()> {
        let case = Case {
            run: self.recording.run,
            cut,
            survivors,
        };
        self.judge(cut, survivors, chosen).with_context(|| {
            format!(
                "crash {case}\nrepeat it with: UEXT4_CRASH_CASE='{case}' \
                 cargo test -p uext4-judge --test it the_case -- --nocapture"
            )
        })
    }

    fn window(&self, cut: usize) -> Window {
        let last = self.recording.log.last_mark(cut).unwrap_or(0);
        let begun = (last / 2) as usize;
        let returned = if last % 2 == 1 {
            begun
        } else {
            begun.saturating_sub(1)
        };
        Window {
            floor: self.recording.history.floor(returned),
            begun,
        }
    }

    fn judge(&mut self, cut: usize, survivors: Survivors, chosen: &Effort) -> Result<()> {
        let image = self.recording.log.image(cut, survivors.for_device());
        let window = self.window(cut);
        let tree = self.recover(image.snapshot(), window, chosen.check == 0)?;
        let policy = Policy::default().check(Field::DirectoryMtime);
        if chosen.e2fsck == 0 {
            let other = self.scratch.by_e2fsck(&image)?;
            same(&tree, &other, &policy).context("e2fsck -p recovers another tree")?;
            self.figures.by_e2fsck += 1;
        }
        if chosen.kernel == 0 && self.kernel {
            let other = self.scratch.by_kernel(&image)?;
            same(&tree, &other, &policy).context("the kernel recovers another tree")?;
            self.figures.by_kernel += 1;
        }
        if chosen.twice == 0 {
            self.twice(image, window)?;
        }
        Ok(())
    }

    /// Recovers `image` ourselves and judges the tree.
    fn recover(&mut self, image: MemDevice, window: Window, check: bool) -> Result<Manifest> {
        let recovered = by_us(image)?;
        let source = EngineTarget::new(&recovered.fs);
        let state = verdict::judge(&self.recording.history, window, &recovered.tree, &source)?;
        self.figures.older += u64::from(state < window.begun);
        self.figures.images += 1;
        no_panic("our unmount", || {
            recovered.fs.unmount().context("our unmount")
        })?;
        if check {
            self.scratch.check(&recovered.device, "our recovery")?;
            self.figures.checked += 1;
        }
        Ok(recovered.tree)
    }

    /// Crashes at every write of our recovery, and recovers from that.
    fn twice(&mut self, image: MemDevice, window: Window) -> Result<()> {
        let recorder = no_panic("our recovery", || recorded(image))?;
        let mut log = recorder.log();
        log.keep_whole(SUPERBLOCK_BYTES);
        for cut in cuts(&log) {
            for survivors in [Survivors::All, Survivors::None, Survivors::Torn(cut as u64)] {
                let image = log.image(cut, survivors.for_device());
                let check = survivors == Survivors::None;
                self.recover(image, window, check)
                    .with_context(|| format!("second crash at {cut}, {survivors}"))?;
                self.figures.twice += 1;
            }
        }
        Ok(())
    }
}

/// Cuts that differ: before a change, before a flush returns, and at the end. Marks before such an
/// event are taken along, so that promises hold as early as they can.
fn cuts(log: &CrashLog) -> Vec<usize> {
    let counts = |cut: &usize| match log.events().get(*cut) {
        None => true,
        Some(event) => matches!(event, Event::Change { .. } | Event::FlushDone { .. }),
    };
    (0..=log.len()).filter(counts).collect()
}

fn same(ours: &Manifest, other: &Manifest, policy: &Policy) -> Result<()> {
    let differences = ours.diff(other, policy);
    let shown: Vec<_> = differences
        .iter()
        .take(8)
        .map(ToString::to_string)
        .collect();
    ensure!(differences.is_empty(), "{}", shown.join("; "));
    Ok(())
}

/// Plays a run and judges its crashes.
///
/// # Errors
/// As [`play`] and [`Judge::all`].
pub fn run_suite(run: super::Run, effort: &Effort) -> Result<Figures> {
    let text = || {
        format!(
            "run {},{},{},{}",
            run.config.name, run.seed, run.warm_up, run.steps
        )
    };
    let mut judge = Judge::new(no_panic("the run", || play(run)).with_context(text)?)?;
    judge.all(effort)?;
    Ok(judge.figures)
}

/// Crashes a run without a log. Nothing is promised, but our mount and a walk of the tree must end
/// with an answer or an error, and `e2fsck -y` must be able to repair what it is given. Answers the
/// number of images and of those that could be mounted.
///
/// # Errors
/// A panic, or an image beyond repair.
pub fn run_unjournaled(run: super::Run) -> Result<(u64, u64)> {
    let mut recording = play(run)?;
    let scratch = Scratch::new()?;
    let (mut images, mut mounted) = (0, 0);
    for cut in cuts(&recording.log) {
        for survivors in [Survivors::All, Survivors::None, Survivors::Torn(cut as u64)] {
            let case = Case {
                run,
                cut,
                survivors,
            };
            let image = recording.log.image(cut, survivors.for_device());
            images += 1;
            let tree = no_panic("a mount without a log", || {
                Ok(by_us(image.snapshot()).is_ok())
            });
            mounted += u64::from(tree.with_context(|| format!("crash {case}"))?);
            if images % 20 == 0 {
                let repaired = scratch.repair(&image);
                repaired.with_context(|| format!("crash {case}"))?;
            }
        }
    }
    Ok((images, mounted))
}

/// Runs exactly one crash, with every judge.
///
/// # Errors
/// As [`run_suite`].
pub fn run_case(case: Case) -> Result<Figures> {
    let mut judge = Judge::new(play(case.run)?)?;
    let all = Effort {
        cut: 0,
        check: 0,
        e2fsck: 0,
        kernel: 0,
        twice: 0,
    };
    judge.one(case.cut, case.survivors, &all)?;
    Ok(judge.figures)
}
