//! Decides whether a recovered tree is allowed.
//!
//! It must be the model after some step between the oldest promised and the last begun. Names
//! and attributes except mtime are compared exactly, sizes except for gradual changes and delayed
//! data.
//!
//! Data are written in place, so a sector may be newer than the tree: it must hold its content in
//! that state or in a later one, with or without a name. With delayed allocation it may also be
//! older, back to the last writeback of the file. After `fdatasync` the data are not older than the
//! call, while the tree may be: data that are overwritten in place need no commit. Every write has
//! unique bytes, so data of another file are detected.
//!
//! A collapse or insert range moves mappings, which become durable with their commit. Data that are
//! written in place between the two lie at their place from before the shift after a crash, as in
//! Linux.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use anyhow::{Context, Result, bail, ensure};
use uext4_testkit::manifest::{Field, FileKind, Manifest, Policy, Source};

use super::history::{History, State};

/// Bytes that a device writes atomically.
const SECTOR_BYTES: usize = 512;
/// Differences shown in a failure.
const SHOWN: usize = 8;
/// Steps before the crash shown in a failure.
const STEPS_SHOWN: usize = 15;

/// The allowed states: from the promised one to the last begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) floor: usize,
    pub(super) begun: usize,
    /// The last step that returned.
    pub(super) returned: usize,
    /// Data may be delayed.
    pub(super) data_may_wait: bool,
}

fn structure() -> Policy {
    let policy = Policy::default()
        .ignore(Field::Mtime)
        .ignore(Field::DirectoryMtime);
    policy.ignore(Field::Content).ignore(Field::Size)
}

/// Answers the number of the found state.
///
/// # Errors
/// No allowed state has this tree; the text describes the nearest one.
pub(super) fn judge(
    history: &History,
    window: Window,
    found: &Manifest,
    source: &dyn Source,
) -> Result<usize> {
    let mut nearest: Option<(usize, usize, String)> = None;
    let policy = structure();
    for step in (window.floor..=window.begun).rev() {
        let state = &history.states[step];
        let differences = state.manifest.diff(found, &policy);
        let (count, text) = if differences.is_empty() {
            match contents(history, step, window, found, source) {
                Ok(()) => return Ok(step),
                Err(error) => (0, format!("{error:#}")),
            }
        } else {
            let shown = differences.iter().take(SHOWN).map(ToString::to_string);
            (differences.len(), shown.collect::<Vec<_>>().join("; "))
        };
        if nearest.as_ref().is_none_or(|(_, least, _)| count < *least) {
            nearest = Some((step, count, text));
        }
    }
    let (step, count, text) = nearest.context("a window holds a state")?;
    let texts = (0..=window.begun).map(|step| history.states[step].text.as_str());
    let mut told: Vec<&str> = texts.filter(|text| !text.contains(": errno ")).collect();
    told.drain(..told.len().saturating_sub(STEPS_SHOWN));
    bail!(
        "no state of {}..={} is the tree; nearest is {step}, {count} differences: {text}\n\
         last steps:\n{}",
        window.floor,
        window.begun,
        told.join("\n")
    );
}

fn contents(
    history: &History,
    step: usize,
    window: Window,
    found: &Manifest,
    source: &dyn Source,
) -> Result<()> {
    let state = &history.states[step];
    for (path, entry) in &found.entries {
        if entry.kind != FileKind::File {
            continue;
        }
        let number = state.files[path];
        let synced = history.synced_data(number, window.returned);
        let same = state.manifest.entries[path].hash == entry.hash;
        if same && synced <= step {
            continue;
        }
        let oldest = if window.data_may_wait {
            history.data_floor(number, step, window.returned).min(step)
        } else {
            step
        };
        let oldest = oldest.max(synced);
        let states = &history.states[oldest..=window.begun];
        one_file(states, window, path, number, source)
            .with_context(|| format!("\"{}\" in state {step}", path.escape_ascii()))?;
    }
    Ok(())
}

/// Checks the data of one file. `states` begins with that of the found tree, or with the oldest
/// whose data are allowed.
fn one_file(
    states: &[State],
    window: Window,
    path: &[u8],
    number: u64,
    source: &dyn Source,
) -> Result<()> {
    let mut data = Vec::new();
    source.read(path, 1 << 20, &mut |bytes| data.extend_from_slice(bytes))?;
    let sizes = if window.data_may_wait {
        sizes_while_data_wait(states, number)
    } else {
        sizes(states, number)
    };
    ensure!(
        sizes.contains(&data.len()),
        "{} bytes, expected {sizes:?}",
        data.len()
    );
    let mut versions: Vec<&[u8]> = Vec::new();
    for content in states
        .iter()
        .filter_map(|state| state.contents.get(&number))
    {
        if versions
            .last()
            .is_none_or(|last| !std::ptr::eq(*last, &**content))
        {
            versions.push(content);
        }
    }
    let near = if window.data_may_wait {
        states
    } else {
        &states[..states.len().min(2)]
    };
    let shifts = shifts(states, number);
    let holes = near.iter().any(|state| state.moved == Some(number));
    for (index, sector) in data.chunks(SECTOR_BYTES).enumerate() {
        let start = index * SECTOR_BYTES;
        let is_hole = holes && sector.iter().all(|byte| *byte == 0);
        let fits = is_hole
            || versions.iter().any(|version| {
                shifts.iter().any(|by| {
                    start
                        .checked_add_signed(*by)
                        .is_some_and(|at| is_part(version, at, sector))
                })
            });
        ensure!(
            fits,
            "sector at byte {start} is of no version from here on ({} of them){}; begins {:02x?}",
            versions.len(),
            if sector.iter().all(|byte| *byte == 0) {
                ", is zero"
            } else {
                ""
            },
            &sector[..sector.len().min(16)]
        );
    }
    Ok(())
}

/// How far data of a file may lie from their place, in bytes: sums of successive shifts.
fn shifts(states: &[State], number: u64) -> BTreeSet<isize> {
    let mut all = BTreeSet::from([0]);
    let mut sums = vec![];
    for state in states {
        let Some((_, by)) = state.shift.filter(|(shifted, _)| *shifted == number) else {
            continue;
        };
        sums.push(0);
        sums.iter_mut().for_each(|sum| *sum += by as isize);
        all.extend(sums.iter().flat_map(|sum| [*sum, -sum]));
    }
    all
}

/// Allowed sizes of a file with data written at once.
fn sizes(states: &[State], number: u64) -> RangeInclusive<usize> {
    let size = states[0].contents[&number].len();
    let next = states.get(1).filter(|next| next.gradual == Some(number));
    let next = next
        .and_then(|next| next.contents.get(&number))
        .map_or(size, |next| next.len());
    size.min(next)..=size.max(next)
}

/// Allowed sizes of a file of which only a prefix may have been written back.
fn sizes_while_data_wait(states: &[State], number: u64) -> RangeInclusive<usize> {
    let contents = states
        .iter()
        .filter_map(|state| state.contents.get(&number));
    let sizes = || contents.clone().map(|content| content.len());
    sizes().min().unwrap_or(0)..=sizes().max().unwrap_or(0)
}

/// Whether `sector` equals `version` at `start`, with zeros behind its end.
fn is_part(version: &[u8], start: usize, sector: &[u8]) -> bool {
    sector
        .iter()
        .enumerate()
        .all(|(index, byte)| *byte == version.get(start + index).copied().unwrap_or(0))
}
