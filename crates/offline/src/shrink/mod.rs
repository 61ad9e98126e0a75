//! Shrinking: moves what is behind the new end, then cuts the file system.
//!
//! Inodes of groups that go get other numbers; blocks move to free ones before the new end, with
//! bitmaps and inode tables of groups that stay; all in transactions that keep the size. Then one
//! transaction cuts. Metadata of groups that go may be before the new end, and are free then: the
//! next size may be smaller. All sizes are planned before the first write.
//!
//! Layout: `layout` reads the owner of each block, `maps` the maps of files, `plan` a pass to a
//! size, `numbers` those of inodes, `tables` the places of bitmaps and inode tables, `apply` what
//! a pass makes of a layout; `renumber` beside this module, `moves`, `quota`, `tables`, `journal`
//! and `cut` do it.

mod apply;
mod cut;
mod journal;
mod layout;
mod maps;
mod moves;
mod numbers;
mod plan;
mod quota;
mod tables;

use super::{Plan, renumber};
use layout::Layout;
use plan::{Planned, Step};
use std::borrow::Cow;
use uext4_device::BlockDevice;
use uext4_format::Geometry;
use uext4_sync::Arc;
use uext4_volume::Volume;
use uext4_volume::{InTheWay, OpenOptions, ResizeError, Result};

/// Most sizes on the way of one shrinking: each frees less than the one before.
const SIZES_MAX: usize = 8;
/// Most passes to one size: inodes, blocks, maps that were in the way.
const PASSES_MAX: usize = 4;

/// How small a file system shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Least {
    /// At most so many bytes.
    Bytes(u64),
    /// As small as possible.
    Possible,
}

/// Shrinks the file system on `device`, which no other program may use meanwhile, and returns what
/// was done. One that was not unmounted is refused. The device keeps its size.
///
/// # Errors
/// [`ResizeError::TooSmall`] with the minimum, and other [`uext4_volume::Error::Resize`]; as
/// [`Volume::claim`]. After a failed access it has the old size, the new one, or with several steps
/// one between them, and all files.
pub fn shrink(device: Arc<dyn BlockDevice>, options: &OpenOptions, least: Least) -> Result<Plan> {
    let mut volume = Volume::claim(device, options)?;
    let made = run(&mut volume, least);
    let released = volume.release();
    made.and_then(|plan| released.map(|()| plan))
}

/// Plans what [`shrink`] does. It only reads.
///
/// # Errors
/// As [`shrink`].
pub fn plan_shrink(volume: &Volume, least: Least) -> Result<Plan> {
    let layout = Layout::read(volume)?;
    Ok(Road::find(&layout, least)?.plan())
}

fn run(volume: &mut Volume, least: Least) -> Result<Plan> {
    let mut layout = Layout::read(volume)?;
    let road = Road::find(&layout, least)?;
    for (at, geometry) in road.sizes.iter().enumerate() {
        if at > 0 {
            layout = Layout::read(volume)?;
        }
        while !pass(volume, &layout, geometry)? {
            layout = Layout::read(volume)?;
        }
    }
    Ok(road.plan())
}

/// Makes a pass to a size; returns whether it has this size then.
fn pass(volume: &mut Volume, layout: &Layout, to: &Geometry) -> Result<bool> {
    let step = Step::plan(layout, to.blocks_count)?;
    let step = step.map_err(|why| too_small(&layout.geometry, why))?;
    if !step.inodes.is_empty() {
        renumber::run(volume, &step.inodes)?;
        return Ok(false);
    }
    moves::run(volume, layout, &step)?;
    if step.is_last {
        cut::run(volume, layout, &step)?;
    }
    Ok(step.is_last)
}

/// The sizes on the way to a size.
struct Road {
    before: Geometry,
    sizes: Vec<Geometry>,
    reserved_blocks: u64,
}

impl Road {
    fn find(layout: &Layout, least: Least) -> Result<Self> {
        let mut road = Self {
            before: layout.geometry,
            sizes: Vec::new(),
            reserved_blocks: layout.superblock.r_blocks_count,
        };
        let goal = match least {
            Least::Bytes(bytes) => bytes >> layout.geometry.block_bits,
            Least::Possible => 0,
        };
        let mut layout = Cow::Borrowed(layout);
        for _ in 0..SIZES_MAX {
            if goal >= layout.geometry.blocks_count {
                break;
            }
            let reached = match next(&layout, goal)? {
                Ok(reached) => reached,
                Err(_) if least == Least::Possible => break,
                Err(why) => return Err(too_small(&layout.geometry, why).into()),
            };
            let after = reached.apply();
            road.reserved_blocks = after.superblock.r_blocks_count;
            road.sizes.push(after.geometry);
            layout = Cow::Owned(after);
        }
        Ok(road)
    }

    fn plan(self) -> Plan {
        Plan {
            before: self.before,
            after: self.sizes.last().copied().unwrap_or(self.before),
            reserved_blocks: self.reserved_blocks,
        }
    }
}

/// The last pass to a size, and what is there before it.
struct Reached<'a> {
    layout: Cow<'a, Layout>,
    step: Step,
}

impl Reached<'_> {
    fn apply(self) -> Layout {
        self.step.apply(self.layout.into_owned())
    }
}

/// Plans all passes to `blocks` blocks.
fn reach(layout: &Layout, blocks: u64) -> Result<Planned<Reached<'_>>> {
    let mut layout = Cow::Borrowed(layout);
    for _ in 0..PASSES_MAX {
        match Step::plan(&layout, blocks)? {
            Ok(step) if step.is_last => return Ok(Ok(Reached { layout, step })),
            Ok(step) => layout = Cow::Owned(step.apply(layout.into_owned())),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Err(InTheWay::Space))
}

/// The way to `goal` blocks, or to the smallest possible size above; or what is in the way.
fn next(layout: &Layout, goal: u64) -> Result<Planned<Reached<'_>>> {
    let now = layout.geometry.blocks_count;
    let mut why = match reach(layout, goal)? {
        Ok(reached) => return Ok(Ok(reached)),
        Err(why) => why,
    };
    // Less than `from` is not possible, and `to` is.
    let (mut from, mut to, mut nearest) = (1, now, None);
    while from < to {
        let middle = from.midpoint(to);
        match reach(layout, middle)? {
            Ok(reached) => (to, nearest) = (middle, Some(reached)),
            Err(found) => (from, why) = (middle + 1, found),
        }
    }
    let nearer = nearest.filter(|reached| reached.step.geometry.blocks_count < now);
    Ok(nearer.ok_or(why))
}

fn too_small(minimum: &Geometry, why: InTheWay) -> ResizeError {
    ResizeError::TooSmall {
        min_blocks: minimum.blocks_count,
        min_bytes: minimum.size_bytes(),
        why,
    }
}
