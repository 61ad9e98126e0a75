//! Canary: plants a bug in a recording, by removing some of its flushes, or the durability of
//! durable writes.
//!
//! A crash suite that misses these bugs misses all.

use std::sync::Arc;

use anyhow::Result;
use uext4::device::{
    BlockDevice, Change, CrashLog, Durability, Event, MemDevice, Recorder, Survivors,
};

use super::play::Recording;
use super::tape::Tape;

/// What to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// All, and the durability of all writes.
    AllFlushes,
    /// Those before a commit block: data and log body may reach the disk after it.
    BeforeCommitBlock,
    /// None, but the device ignores that a write is to be durable: an fsync returns too early.
    Durability,
}

/// First bytes of a commit block of a jbd2 log: the magic number and the type.
const COMMIT_BLOCK: [u8; 8] = [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 2];

impl Plant {
    /// The recording of a hypothetical faulty engine.
    ///
    /// # Errors
    /// Never in practice: the writes fit the device.
    pub fn into_recording(self, mut recording: Recording) -> Result<Recording> {
        let log = &mut recording.tape.main;
        let base = log.image(0, Survivors::All);
        recording.tape = Tape::new(self.rewrite(log, base)?, None);
        Ok(recording)
    }

    fn rewrite(self, log: &CrashLog, base: MemDevice) -> Result<CrashLog> {
        let recorder = Recorder::new(Arc::new(base));
        for (index, event) in log.events().iter().enumerate() {
            match event {
                Event::Change {
                    change, durability, ..
                } => match (self, durability) {
                    (Self::BeforeCommitBlock, Durability::Durable) => {
                        apply_durably(&recorder, change)?;
                    }
                    _ => apply(&recorder, change)?,
                },
                Event::FlushDone { .. } => {
                    let next = log.events()[index..].iter().find_map(as_change);
                    let left_out = match self {
                        Self::AllFlushes => true,
                        Self::BeforeCommitBlock => next.is_some_and(is_commit_block),
                        Self::Durability => false,
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

fn is_commit_block(change: &Change) -> bool {
    matches!(change, Change::Write { bytes, .. } if bytes.starts_with(&COMMIT_BLOCK))
}

fn apply_durably(device: &Recorder, change: &Change) -> Result<()> {
    match change {
        Change::Write { offset, bytes } => Ok(device.write_durable_at(*offset, bytes)?),
        Change::Zero { .. } | Change::Discard { .. } => apply(device, change),
    }
}

fn apply(device: &Recorder, change: &Change) -> Result<()> {
    match change {
        Change::Write { offset, bytes } => device.write_at(*offset, bytes)?,
        Change::Zero { offset, len } => device.write_zeroes(*offset, *len)?,
        Change::Discard { offset, len } => device.discard(*offset, *len)?,
    }
    Ok(())
}
