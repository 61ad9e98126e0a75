//! Undo files: what blocks held before a repair changed them, in the format of `e2undo`.
//!
//! Invariant: what a write to the device replaces is in the file, durably, before that write. So a
//! file of a repair that did not end brings back every byte as well.
//! Not here: the layout (`uext4_format::undo_file`).

mod apply;
mod recorder;

pub use apply::{UndoError, UndoOptions, Undone, undo};
pub use recorder::UndoRecorder;
