//! Shrinking: moves what is behind the new end, then cuts the file system.
//!
//! A step moves blocks to free ones before the new end, in transactions that keep the size, and
//! cuts. Metadata of groups that go may be before the new end, and are free then: the next step may
//! go further. All steps are planned before the first one.
//!
//! Layout: `layout` reads the owner of each block, `maps` the maps of files, `plan` a step; `moves`
//! and `cut` do it, and `journal` moves the log. `space` has sets of clusters.
//!
//! Not here: inodes do not move.

mod cut;
mod journal;
mod layout;
mod maps;
mod moves;
mod plan;
mod space;

use super::Plan;
use crate::mount::AtRest;
use crate::{InTheWay, MountOptions, ResizeError, Result};
use layout::Layout;
pub(crate) use maps::{Map, has_map};
use plan::Step;
use uext4_device::{BlockDevice, Overlay};
use uext4_format::Geometry;
use uext4_sync::Arc;

/// Most steps of one shrinking: each frees less than the one before.
const STEPS_MAX: usize = 8;

/// How small a file system shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Least {
    /// At most so many bytes.
    Bytes(u64),
    /// As small as possible.
    Possible,
}

/// Shrinks the file system on `device`, which no other program may use meanwhile, and answers what
/// was done. One that was not unmounted is recovered first. The device keeps its size.
///
/// # Errors
/// [`ResizeError::TooSmall`] with the minimum, and other [`crate::Error::Resize`]; as
/// [`crate::Filesystem::mount`]. After a failed access it has the old size, the new one, or with
/// several steps one between them, and all files.
pub fn shrink(device: Arc<dyn BlockDevice>, options: MountOptions, least: Least) -> Result<Plan> {
    let mut rest = AtRest::claim(device, options)?;
    let made = run(&mut rest, least);
    let released = rest.release();
    made.and_then(|plan| released.map(|()| plan))
}

/// Plans what [`shrink`] does, without a write.
///
/// # Errors
/// As [`shrink`].
pub fn plan_shrink(
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    least: Least,
) -> Result<Plan> {
    let device = Arc::new(Overlay::new(device));
    let mut rest = AtRest::claim(device, options)?;
    let layout = journal::trim(&mut rest).and_then(|()| Layout::read(&rest));
    let planned = layout.and_then(|layout| Road::find(layout, least));
    rest.release()?;
    Ok(planned?.plan())
}

fn run(rest: &mut AtRest, least: Least) -> Result<Plan> {
    journal::trim(rest)?;
    let mut layout = Layout::read(rest)?;
    let road = Road::find(layout.clone(), least)?;
    for (at, geometry) in road.sizes.iter().enumerate() {
        if at > 0 {
            layout = Layout::read(rest)?;
        }
        let step = Step::plan(&layout, geometry.blocks_count)?;
        let step = step.map_err(|why| too_small(&layout.geometry, why))?;
        moves::run(rest, &layout, &step)?;
        cut::run(rest, &layout, &step)?;
    }
    Ok(road.plan())
}

/// The steps to a size.
struct Road {
    before: Geometry,
    sizes: Vec<Geometry>,
    reserved_blocks: u64,
}

impl Road {
    fn find(mut layout: Layout, least: Least) -> Result<Self> {
        let mut road = Self {
            before: layout.geometry,
            sizes: Vec::new(),
            reserved_blocks: layout.superblock.r_blocks_count,
        };
        let goal = match least {
            Least::Bytes(bytes) => bytes >> layout.geometry.block_bits,
            Least::Possible => 0,
        };
        if goal >= layout.geometry.blocks_count {
            return Ok(road);
        }
        for _ in 0..STEPS_MAX {
            match next(&layout, goal)? {
                Next::Goal(step) => {
                    road.add(&step);
                    return Ok(road);
                }
                Next::Nearer(step) => {
                    road.add(&step);
                    layout = step.apply(layout);
                }
                Next::Stuck(why) if least != Least::Possible => {
                    return Err(too_small(&layout.geometry, why).into());
                }
                Next::Stuck(_) => break,
            }
        }
        Ok(road)
    }

    fn add(&mut self, step: &Step) {
        self.reserved_blocks = step.wanted.r_blocks_count;
        self.sizes.push(step.geometry);
    }

    fn plan(self) -> Plan {
        Plan {
            before: self.before,
            after: self.sizes.last().copied().unwrap_or(self.before),
            reserved_blocks: self.reserved_blocks,
        }
    }
}

/// What comes next on the way to a size.
enum Next {
    Goal(Step),
    Nearer(Step),
    Stuck(InTheWay),
}

/// The step to `goal` blocks, or the largest one towards it.
fn next(layout: &Layout, goal: u64) -> Result<Next> {
    let now = layout.geometry.blocks_count;
    let mut why = match Step::plan(layout, goal)? {
        Ok(step) => return Ok(Next::Goal(step)),
        Err(why) => why,
    };
    // Less than `from` is not possible, and `to` is.
    let (mut from, mut to, mut nearest) = (goal + 1, now, None);
    while from < to {
        let middle = from.midpoint(to);
        match Step::plan(layout, middle)? {
            Ok(step) => (to, nearest) = (middle, Some(step)),
            Err(found) => (from, why) = (middle + 1, found),
        }
    }
    let nearer = nearest.filter(|step| step.geometry.blocks_count < now);
    Ok(nearer.map_or(Next::Stuck(why), Next::Nearer))
}

fn too_small(minimum: &Geometry, why: InTheWay) -> ResizeError {
    ResizeError::TooSmall {
        min_blocks: minimum.blocks_count,
        min_bytes: minimum.size_bytes(),
        why,
    }
}
