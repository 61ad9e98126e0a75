//! Tests of the engine against the oracles.

mod crash;
