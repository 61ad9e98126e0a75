//! Repair of a file system that is not mounted, in rounds.
//!
//! A round checks the file system up to the first pass with problems to repair, repairs those of
//! one [`Area`], and writes the repairs together. Then the next round begins. So each repair relies
//! on structures that were checked after the repairs before it, and states only what it is about:
//! counts, bitmaps and links that follow from it are problems of later rounds.
//!
//! Invariants: a round without a change is the last. A problem that comes back after two repairs
//! has none. Where a problem without a repair is left, nothing behind it is changed, because the
//! later passes would take what they cannot read for free.

mod accepted;
mod additions;
mod areas;
mod ascent;
mod attribute_sets;
mod attributes;
mod backups;
mod belief;
mod bitmaps;
mod commit;
mod connect;
mod copies;
mod damaged_directory;
mod decisions;
mod descriptors;
mod directories;
mod dots;
mod entries;
mod flags;
mod inline;
mod inline_directories;
mod inodes;
mod journal_inode;
mod known_places;
mod links;
mod log;
mod lost_found;
mod map_reader;
mod map_tables;
mod maps;
mod new_metadata;
mod new_places;
mod optimise;
mod orphan_file;
mod outcome;
mod own_inodes;
mod patch;
mod places;
mod quota_files;
mod quota_salvage;
mod rebuild;
mod reserved;
mod resize_inode;
mod rounds;
mod salvage;
mod shared;
mod sizes;
mod space;
mod superblock;
mod table_evidence;
mod targets;
#[cfg(test)]
mod tests;
mod twins;
mod unwritten;

pub use decisions::{Decision, Decisions, RepairAll, RepairSafe};
pub use optimise::Optimised;
pub use outcome::RepairReport;

pub(crate) use areas::Outcome;
pub(crate) use backups::Restoration;
pub(crate) use optimise::optimise;

use crate::report::Limits;
use crate::state::{Check, Stop};
use crate::subject::Subject;
use rounds::Rounds;
use uext4_volume::Result;

/// Most rounds of one repair.
const ROUNDS_MAX: u32 = 1000;

/// Checks a file system and repairs it as `decisions` say. At the end it is marked as checked, and
/// as clean if nothing is left.
///
/// Source: `e2fsck/e2fsck.8` for what preen repairs.
///
/// # Errors
/// An error of the device; what was written before is consistent in itself.
pub(crate) fn repair(
    mut subject: Subject,
    decisions: &mut dyn Decisions,
    limits: &Limits,
) -> Result<RepairReport> {
    let limits = &limits.in_memory();
    let mut rounds = Rounds::new(decisions);
    let started = subject.clock.monotonic();
    for _ in 0..ROUNDS_MAX {
        let mut check = Check::new(&subject, limits);
        check.started = started;
        check.gate = Some(&mut rounds);
        let ended = check.run();
        let report = std::mem::take(&mut check.report);
        let free = check.free_counts();
        drop(check);
        match ended {
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Changed) => {
                if let Some(changes) = rounds.changes.take() {
                    commit::commit(&mut subject, changes)?;
                }
                continue;
            }
            Err(Stop::Incomplete) => rounds.report.incomplete = report.incomplete,
            Ok(()) => {
                let is_whole = report.n_more == 0;
                rounds.report.incomplete = (!is_whole).then_some("it keeps too few findings");
                rounds.report.n_inodes = report.n_inodes;
                rounds.report.n_directories = report.n_directories;
            }
        }
        commit::finish(&subject, &rounds.report, free)?;
        if rounds.report.is_sound() {
            rounds.report.n_unwritten_backups = copies::refresh(&subject, rounds.descriptors)?;
        }
        return Ok(rounds.report);
    }
    rounds.report.incomplete = Some("it does not end");
    commit::finish(&subject, &rounds.report, None)?;
    Ok(rounds.report)
}
