//! The small sizes of the full-size runs.

mod runs;
