//! The crash suite: a workload on a recorded device, cut at every event, recovered and judged.
//!
//! - `config`: the kinds of file systems. `step` and `workload`: what is done to them.
//! - `history`: what the tree was after each step, and what was promised by then.
//! - `play`: runs a workload and records it. `plant`: makes a recording worse, for the canary.
//! - `recover`: three ways to recover an image. `verdict`: whether the tree found is allowed.
//! - `case`: one crash with a text form that repeats it. `suite`: many of them.
//!
//! References: `docs/crash-model.md`.

mod case;
mod config;
mod history;
mod plant;
mod play;
mod recover;
mod step;
mod suite;
mod threads;
mod verdict;
mod workload;

pub use case::{Case, Survivors};
pub use config::Config;
pub use plant::Plant;
pub use play::{Recording, Run, play};
pub use suite::{Effort, Figures, Judge, run_case, run_suite, run_unjournaled};
pub use threads::{ThreadsFigures, run_threads};
