//! Whole runs: played, then crashed and checked.

use anyhow::{Context, Result};
use uext4::device::Event;

use super::case::{Case, Survivors};
use super::effort::{Effort, Figures};
use super::judge::{Judge, same};
use super::record::{Recording, Run, record};
use super::recover::{Scratch, by_us, no_panic};
use super::verdict::{self, Window};
use crate::EngineTarget;

/// Plays a run and checks its crashes.
///
/// # Errors
/// As [`record`] and [`Judge::all`].
pub fn run_suite(run: Run, effort: &Effort) -> Result<Figures> {
    let mut judge =
        Judge::new(no_panic("the run", || record(run)).with_context(|| format!("run {run}"))?);
    judge.all(effort)?;
    Ok(judge.figures)
}

/// Results of a run without a log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unjournaled {
    /// Number of crash images.
    pub images: u64,
    /// Images that could be mounted unrepaired.
    pub mounted: u64,
    /// Images given to `e2fsck -y` (one in 20) and clean after that.
    pub repaired: u64,
    /// Crashes right after a sync: our engine, `e2fsck -p` and the kernel find the synced tree.
    pub synced: u64,
}

/// Crashes a run without a log. A synced state holds until the next change. After that nothing is
/// promised, but our mount and a walk of the tree end with an answer or an error, and `e2fsck -y`
/// can repair the image.
///
/// # Errors
/// A panic, an image beyond repair, or a sync that was not durable.
pub fn run_unjournaled(run: Run) -> Result<Unjournaled> {
    let mut recording = record(run)?;
    let mut scratch = Scratch::new(run.config);
    let mut figures = Unjournaled::default();
    for cut in recording.event_log.cuts() {
        for survivors in [Survivors::All, Survivors::None, Survivors::Torn(cut as u64)] {
            let case = Case {
                run,
                cut,
                survivors,
            };
            let image = recording.event_log.image(cut, survivors.for_device());
            figures.images += 1;
            let tree = no_panic("a mount without a log", || {
                Ok(by_us(&run.config, image.snapshot()).is_ok())
            });
            figures.mounted += u64::from(tree.with_context(|| format!("crash {case}"))?);
            if figures.images % 20 == 0 {
                let repaired = scratch.repair(&image);
                repaired.with_context(|| format!("crash {case}"))?;
                figures.repaired += 1;
            }
        }
    }
    figures.synced = after_syncs(&mut recording, &mut scratch)?;
    Ok(figures)
}

/// Crashes right after a sync has returned.
fn after_syncs(recording: &mut Recording, scratch: &mut Scratch) -> Result<u64> {
    let mut synced = 0;
    for cut in 0..recording.event_log.len() {
        let Some(Event::Mark(label)) = recording.event_log.event(cut) else {
            continue;
        };
        let step = (label / 2) as usize;
        if label % 2 == 0 || !recording.history.is_sync(step) {
            continue;
        }
        let image = recording.event_log.image(cut, Survivors::None.for_device());
        let text = || format!("run {}, after step {step}, a sync", recording.run);
        let window = Window {
            floor: step,
            begun: step,
            returned: step,
            data_may_wait: false,
        };
        let recovered = by_us(&recording.run.config, image.snapshot()).with_context(text)?;
        let source = EngineTarget::new(&recovered.fs);
        verdict::judge(&recording.history, window, &recovered.tree, &source).with_context(text)?;
        let other = scratch
            .by_e2fsck(&image)?
            .context("e2fsck refuses the log")?;
        same(&recording.run.config, &recovered.tree, &other).with_context(text)?;
        if scratch.has_kernel() {
            same(
                &recording.run.config,
                &recovered.tree,
                &scratch.by_kernel(&image)?,
            )
            .with_context(text)?;
        }
        synced += 1;
    }
    Ok(synced)
}

/// Runs exactly one crash, with every check.
///
/// # Errors
/// As [`run_suite`].
pub fn run_case(case: Case) -> Result<Figures> {
    let mut judge = Judge::new(record(case.run)?);
    judge.one(case.cut, case.survivors)?;
    Ok(judge.figures)
}
