//! The crash suite: a workload on a recorded device, cut at every event, recovered and judged.
//!
//! - `config`: the kinds of file systems. `step`, `held` and `workload`: what is done to them.
//! - `beyond`: space held behind the end of a file, for both. `plot`: workloads that are written,
//!   not drawn.
//! - `history`: what the tree was after each step, and what was promised by then.
//! - `play`: runs a workload and records it. `plant`: makes a recording worse, for the canary.
//! - `disk`, `tape`: the devices of a file system, what was recorded on them, what a crash leaves.
//! - `recover`: three ways to recover an image. `verdict`: whether the tree found is allowed.
//!   `extents`: whether written blocks stand behind the end of a file.
//! - `threads`, `threads_beyond`, `torn`: runs of several threads, what they do behind the end of
//!   files; superblocks written in half.
//! - `case`: one crash with a text form that repeats it. `judge`: many of them; `suite`: whole
//!   runs; `effort`: how much of it.
//!
//! References: `docs/crash-model.md`.

mod beyond;
mod case;
mod config;
mod disk;
mod effort;
mod extents;
mod held;
mod history;
mod judge;
mod plant;
mod play;
mod plot;
mod recover;
mod step;
mod suite;
mod tape;
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
pub use play::{Recording, Run, play};
pub use plot::Plot;
pub use suite::{Unjournaled, run_case, run_suite, run_unjournaled};
pub use threads::{ThreadsFigures, run_threads};
pub use torn::{TornFigures, run_torn_superblock};
