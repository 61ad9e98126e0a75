//! Canary: plants a bug in a recording, by removing some of its flushes, or the durability of
//! durable writes.
//!
//! A crash suite that misses these bugs misses all.

use std::sync::Arc;

use anyhow::Result;
use uext4::device::{
    BlockDevice, Change, CrashLog, Durability, Event, MemDevice, Recorder, Survivors,
};
use uext4::format::fast_commit::without_removed_ranges;

use super::event_log::EventLog;
use super::record::Recording;

/// Flushes to remove from a recording, so that the judge has to find errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// All, and the durability of all writes.
    AllFlushes,
    /// Those before a commit block: data and log body may reach the disk after it.
    BeforeCommitBlock,
    /// None, but the device ignores that a write is to be durable: an fsync returns too early.
    Durability,
    /// Those that a step ends with: what `fdatasync` flushes without a commit is lost.
    BeforeReturn,
    /// Those before a fast commit: data may reach the disk after it.
    BeforeFastCommit,
    /// Those after a fast commit, and its durability.
    AfterFastCommit,
    /// None; fast commits lose their records of removed ranges.
    NoRemovedRanges,
}

/// First bytes of a commit block of a jbd2 log: the magic number and the type.
const COMMIT_BLOCK: [u8; 8] = [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 2];

impl Plant {
    /// The recording of a hypothetical faulty engine.
    ///
    /// # Errors
    /// Never in practice: the writes fit the device.
    pub fn into_recording(self, mut recording: Recording) -> Result<Recording> {
        let log = &mut recording.event_log.main;
        let base = log.image(0, Survivors::All);
        recording.event_log = EventLog::new(self.rewrite(log, base)?, None);
        Ok(recording)
    }

    fn rewrite(self, log: &CrashLog, base: MemDevice) -> Result<CrashLog> {
        let recorder = Recorder::new(Arc::new(base));
        let mut after_fast = false;
        for (index, event) in log.events().iter().enumerate() {
            match event {
                Event::Change {
                    change, durability, ..
                } => {
                    after_fast = fast_commit(change).is_some();
                    let worse = fast_commit(change).filter(|_| self == Self::NoRemovedRanges);
                    let change = worse.as_ref().unwrap_or(change);
                    let is_durable = match self {
                        Self::AllFlushes | Self::Durability => false,
                        Self::AfterFastCommit => !after_fast,
                        Self::BeforeCommitBlock
                        | Self::BeforeReturn
                        | Self::BeforeFastCommit
                        | Self::NoRemovedRanges => true,
                    };
                    match durability {
                        Durability::Durable if is_durable => apply_durably(&recorder, change)?,
                        _ => apply(&recorder, change)?,
                    }
                }
                Event::FlushDone { .. } => {
                    let next = log.events()[index..].iter().find_map(as_change);
                    let left_out = match self {
                        Self::AllFlushes => true,
                        Self::BeforeCommitBlock => next.is_some_and(is_commit_block),
                        Self::Durability => false,
                        Self::BeforeReturn => ends_step(&log.events()[index..]),
                        Self::BeforeFastCommit => {
                            next.is_some_and(|next| fast_commit(next).is_some())
                        }
                        Self::AfterFastCommit => after_fast,
                        Self::NoRemovedRanges => false,
                    };
                    if !left_out {
                        recorder.flush()?;
                    }
                }
                Event::Mark(label) => recorder.mark(*label),
                Event::FlushStarted | Event::DurableDone { .. } | Event::Failed => {}
            }
        }
        Ok(recorder.log())
    }
}

fn as_change(event: &Event) -> Option<&Change> {
    match event {
        Event::Change { change, .. } => Some(change),
        _ => None,
    }
}

/// Whether nothing is written before the next mark.
fn ends_step(events: &[Event]) -> bool {
    let next = events
        .iter()
        .find(|event| matches!(event, Event::Mark(_) | Event::Change { .. }));
    matches!(next, Some(Event::Mark(_)))
}

fn is_commit_block(change: &Change) -> bool {
    matches!(change, Change::Write { bytes, .. } if bytes.starts_with(&COMMIT_BLOCK))
}

fn apply_durably(device: &Recorder, change: &Change) -> Result<()> {
    match change {
        Change::Write { offset, bytes } => Ok(device.write_durable_at(*offset, bytes)?),
        Change::Zero { .. } | Change::Discard { .. } => apply(device, change),
    }
}

/// A write of a fast commit, without its records of removed ranges; `None` for other changes.
fn fast_commit(change: &Change) -> Option<Change> {
    let Change::Write { offset, bytes } = change else {
        return None;
    };
    let bytes = without_removed_ranges(bytes)?.into();
    let offset = *offset;
    Some(Change::Write { offset, bytes })
}

fn apply(device: &Recorder, change: &Change) -> Result<()> {
    match change {
        Change::Write { offset, bytes } => device.write_at(*offset, bytes)?,
        Change::Zero { offset, len } => device.write_zeroes(*offset, *len)?,
        Change::Discard { offset, len } => device.discard(*offset, *len)?,
    }
    Ok(())
}
