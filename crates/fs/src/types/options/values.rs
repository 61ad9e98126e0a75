//! Parsers of the values behind `=` in `mount -o`.

use super::fields::{Allocator, DataMode, OnError};
use crate::types::error::{Error, Result};
use std::time::Duration;

/// Longest `commit=` in seconds: the kernel's limit with 1000 clock ticks per second.
const COMMIT_SECONDS_MAX: u64 = ((1 << 31) - 1) / 1000;
/// Longest `max_batch_time=` in microseconds, as in the kernel.
pub(super) const BATCH_US_MAX: u64 = (1 << 31) - 1;
/// The interval for `commit=0`, and the default.
const COMMIT_SECONDS: u64 = 5;

pub(super) fn allocator(value: &str) -> Result<Allocator> {
    match value {
        "linear" => Ok(Allocator::Linear),
        "optimized" => Ok(Allocator::Optimized),
        "freespace-tree" => Ok(Allocator::FreespaceTree),
        other => Err(Error::Option(format!(
            "allocator={other}: no allocator; give linear, optimized or freespace-tree"
        ))),
    }
}

/// Largest user or group id; the one after it means "none".
pub(super) const ID_MAX: u64 = (1 << 32) - 2;

/// The number as an upper bound; 0 means none.
pub(super) fn bound(number: u64) -> Option<u64> {
    (number != 0).then_some(number)
}

/// A number up to `max`.
pub(super) fn limited(name: &str, value: &str, max: u64) -> Result<u64> {
    let bad = |what: &str| Error::Option(format!("{name}={value}: {what}"));
    let number: u64 = value.parse().map_err(|_| bad("not a number"))?;
    if number > max {
        Err(bad("too large"))
    } else {
        Ok(number)
    }
}

/// A number of seconds; `None` for 0.
pub(super) fn seconds(name: &str, value: &str) -> Result<Option<Duration>> {
    let seconds = bound(limited(name, value, COMMIT_SECONDS_MAX)?);
    Ok(seconds.map(Duration::from_secs))
}

/// As [`size`], for memory.
pub(super) fn size_of_memory(name: &str, value: &str) -> Result<u64> {
    size(name, value, i64::MAX.unsigned_abs())
}

/// Bytes, as a plain number or with the suffix K, M, G or T (powers of 1024).
pub(super) fn size(name: &str, value: &str, max: u64) -> Result<u64> {
    let units = ["K", "M", "G", "T"].into_iter().zip([10, 20, 30, 40]);
    match units
        .filter_map(|(unit, shift)| Some((value.strip_suffix(unit)?, shift)))
        .next()
    {
        Some((digits, shift)) => Ok(limited(name, digits, max >> shift)? << shift),
        None => limited(name, value, max),
    }
}

pub(super) fn commit(value: &str) -> Result<Duration> {
    let seconds = limited("commit", value, COMMIT_SECONDS_MAX)?;
    Ok(Duration::from_secs(if seconds == 0 {
        COMMIT_SECONDS
    } else {
        seconds
    }))
}

pub(super) fn errors(value: &str) -> Result<OnError> {
    match value {
        "continue" => Ok(OnError::Continue),
        "remount-ro" => Ok(OnError::RemountReadOnly),
        "panic" => Err(Error::Option(
            "errors=panic: a server does not bring its machine down; remount-ro stops writing"
                .into(),
        )),
        other => Err(Error::Option(format!(
            "errors={other}: not continue or remount-ro"
        ))),
    }
}

pub(super) fn data(value: &str) -> Result<DataMode> {
    match value {
        "ordered" => Ok(DataMode::Ordered),
        "writeback" => Ok(DataMode::Writeback),
        "journal" => Ok(DataMode::Journal),
        other => Err(Error::Option(format!(
            "data={other}: not ordered, writeback or journal"
        ))),
    }
}
