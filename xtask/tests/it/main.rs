//! The small sizes of the full-size runs.

mod regress;
mod runs;
