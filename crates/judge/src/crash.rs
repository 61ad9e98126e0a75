//! Crash suite: a workload on a recording device, cut at every event, recovered and checked.
//!
//! - `config`: the kinds of file systems. `step`, `held` and `workload`: the operations on them.
//! - `beyond`: space held behind the end of a file, for both. `plot`: fixed workloads.
//! - `history`: the tree after each step, and the durability promised by then.
//! - `record`: runs a workload and records it. `plant`: plants bugs in a recording, as a canary.
//! - `disk`, `event_log`: the devices of a file system, their recorded events, the image after a
//!   crash.
//! - `recover`: three ways to recover an image. `verdict`: whether a found tree is allowed.
//!   `extents`: whether written blocks are behind the end of a file.
//! - `threads`, `threads_beyond`, `torn`: runs of several threads, with changes behind the end of
//!   files; torn superblocks.
//! - `case`: one crash with a text form that repeats it. `judge`: all crashes of a recording;
//!   `suite`: whole runs; `effort`: how many crashes are checked, and how.
//!
//! References: `docs/internals/crash-model.md`.

mod beyond;
mod case;
mod config;
mod disk;
mod effort;
mod event_log;
mod extents;
mod held;
mod history;
mod judge;
mod plant;
mod plot;
mod record;
mod records;
mod recover;
mod step;
mod suite;
mod threads;
mod threads_beyond;
mod torn;
mod verdict;
mod workload;

pub use case::{Case, Survivors};
pub use config::Config;
pub use effort::{Effort, Figures};
pub use judge::Judge;
pub use plant::Plant;
pub use plot::Plot;
pub use record::{Recording, Run, record};
pub use suite::{Unjournaled, run_case, run_suite, run_unjournaled};
pub use threads::{ThreadsFigures, run_threads};
pub use torn::{TornFigures, run_torn_superblock};
