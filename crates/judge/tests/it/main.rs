//! The engine before its judges.

mod crash;
