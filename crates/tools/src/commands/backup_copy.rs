//! Copies all bytes of a snapshot to an image or a device.

use super::backup_parts::Parts;
use super::backup_source::Source;
use crate::transfer::Progress;
use uext4::device::{BlockDevice, write_sparse};
use uext4_fuse::is_interrupted;
use uext4_image::Container;
use uext4_num::{clamp_usize, u64_of};

/// Bytes per copy step.
const STEP_BYTES: u64 = 1 << 20;
/// Unit of holes.
const GRAIN_BYTES: usize = 4096;

/// Copies all bytes; returns how many are data, and not runs of zeroes. The first ones come last:
/// until then a device has no file system, whether the copy ends early or not.
pub(super) fn copy(source: &Source, container: &Container) -> uext4::Result<u64> {
    let (target, size_bytes) = (container.device(), source.device.size_bytes());
    let bar = Progress::new(|| size_bytes);
    let mut bytes = vec![0; clamp_usize(STEP_BYTES)];
    let mut data_bytes = 0;
    if !container.is_blank() {
        target.write_zeroes(0, STEP_BYTES.min(size_bytes))?;
        target.flush()?;
    }
    for at in steps_of(size_bytes) {
        if is_interrupted() {
            break;
        }
        if at == 0 && !container.is_blank() {
            target.flush()?;
        }
        let step = &mut bytes[..clamp_usize(STEP_BYTES.min(size_bytes - at))];
        source.read(at, step)?;
        let here = data_bytes_of(step);
        if !container.is_blank() {
            write_sparse(&*target, at, step, GRAIN_BYTES)?;
        } else if here > 0 {
            write_data(&*target, at, step)?;
        }
        data_bytes += here;
        bar.add(u64_of(step.len()));
    }
    Ok(data_bytes)
}

/// Unit of writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Byte,
    /// A cluster of qcow2.
    Cluster,
}

/// Bytes of a cluster of qcow2.
const CLUSTER_BYTES: u64 = 1 << 16;

/// Copies parts over what is there; returns their size.
pub(super) fn copy_parts(
    source: &Source,
    container: &Container,
    parts: &Parts,
    unit: Unit,
) -> uext4::Result<u64> {
    let target = container.device();
    let bar = Progress::new(|| parts.ranges().map(|range| range.end - range.start).sum());
    let mut bytes = vec![0; clamp_usize(STEP_BYTES)];
    let mut copied_bytes = 0;
    for range in parts.ranges() {
        let starts = (range.start..range.end).step_by(clamp_usize(STEP_BYTES));
        for at in starts {
            if is_interrupted() {
                return Ok(copied_bytes);
            }
            let len = STEP_BYTES.min(range.end - at);
            source.read(at, &mut bytes[..clamp_usize(len)])?;
            match unit {
                Unit::Byte => write_sparse(&*target, at, &bytes[..clamp_usize(len)], GRAIN_BYTES)?,
                Unit::Cluster => {
                    // The last one ends behind the disk.
                    let whole = clamp_usize(len.next_multiple_of(CLUSTER_BYTES));
                    bytes[clamp_usize(len)..whole].fill(0);
                    target.write_at(at, &bytes[..whole])?;
                }
            }
            copied_bytes += len;
            bar.add(len);
        }
    }
    Ok(copied_bytes)
}

/// Where the steps begin.
fn steps_of(size_bytes: u64) -> impl Iterator<Item = u64> {
    let steps = (0..size_bytes).step_by(clamp_usize(STEP_BYTES));
    steps.skip(1).chain([0])
}

/// Whether it is not all zeroes; compared as a whole, since most grains are.
fn is_data(grain: &&[u8]) -> bool {
    const ZEROES: &[u8] = &[0; GRAIN_BYTES];
    ZEROES.get(..grain.len()) != Some(*grain)
}

fn data_bytes_of(step: &[u8]) -> u64 {
    let data = step.chunks(GRAIN_BYTES).filter(is_data);
    data.map(|grain| u64_of(grain.len())).sum()
}

/// Writes all but zeroes to a device that has zeroes.
fn write_data(target: &dyn BlockDevice, offset: u64, step: &[u8]) -> uext4::Result<()> {
    let grains: Vec<&[u8]> = step.chunks(GRAIN_BYTES).collect();
    let mut at = 0;
    for run in grains.chunk_by(|a, b| is_data(a) == is_data(b)) {
        let end = at + run.iter().map(|grain| grain.len()).sum::<usize>();
        if run.first().is_some_and(is_data) {
            target.write_at(offset + u64_of(at), &step[at..end])?;
        }
        at = end;
    }
    Ok(())
}
