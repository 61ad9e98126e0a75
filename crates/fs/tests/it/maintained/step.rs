//! Steps: what an administrator does to a file system.

use crate::resize::kind::Image;
use std::ops::ControlFlow;
use std::sync::Arc;
use uext4::device::BlockDevice;
use uext4::format::Feature;
use uext4::format::hash::HashVersion;
use uext4::format::quota::QuotaKind;
use uext4::mkfs::DeviceContents;
use uext4::resize::{DescriptorSize, Least, NewSize, set_descriptor_size, set_inode_size, shrink};
use uext4::{
    CompactOptions, DefragOptions, Destination, Error, Filesystem, InternalJournal, Journal,
    OnError, Presence, Reseal, ResizeError, Result, Tuning, convert, reseal, set_journal,
    set_quota, use_extents,
};
use uext4_judge::EngineTarget;
use uext4_testkit::rng::Rng;

/// Features that a step turns on or off.
const FEATURES: [Feature; 11] = [
    Feature::FAST_COMMIT,
    Feature::ORPHAN_FILE,
    Feature::CSUM_SEED,
    Feature::LARGE_DIR,
    Feature::LARGE_FILE,
    Feature::HUGE_FILE,
    Feature::DIR_NLINK,
    Feature::DIR_INDEX,
    Feature::EXTENTS,
    Feature::EA_INODE,
    Feature::PROJECT,
];
const PRESENCES: [Presence; 2] = [Presence::Present, Presence::Absent];
/// Shortest log, in blocks.
const LOG_BLOCKS: u32 = 1024;

/// One step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Operations on files.
    Use,
    /// Growth to this many blocks.
    Grow(u64),
    /// The same, while mounted.
    GrowMounted(u64),
    /// Shrinking to this many blocks, or as far as possible.
    Shrink(Option<u64>),
    /// Parts of files to other places: path, share of the file in percent, byte of the device.
    Scatter(Vec<(Vec<u8>, u64, u64)>),
    /// All files, whole again.
    Defragment(Vec<Vec<u8>>),
    Compact,
    Tune(Box<Tuning>),
    /// A journal of this many blocks, or none.
    Journal(Option<u32>),
    /// Other checksums.
    Reseal(Reseal),
    /// Usage counted for these kinds of owners.
    Quota(Vec<QuotaKind>),
    /// An ext2 or ext3 becomes ext4.
    Convert,
    /// Inodes of this many bytes.
    InodeSize(u16),
    /// Descriptors of this size.
    DescriptorSize(DescriptorSize),
    /// Files with block maps get extents.
    UseExtents,
    /// Another step, with multiple mount protection on meanwhile.
    Shared(Box<Step>),
}

impl Step {
    /// How many kinds there are.
    pub(super) const KINDS: usize = 16;

    /// The number of its kind.
    pub(super) fn number(&self) -> usize {
        match self {
            Self::Use => 0,
            Self::Grow(_) => 1,
            Self::Scatter(_) => 2,
            Self::Defragment(_) => 3,
            Self::Compact => 4,
            Self::Tune(_) => 5,
            Self::Journal(_) => 6,
            Self::Reseal(_) => 7,
            Self::Quota(_) => 8,
            Self::Shrink(_) => 9,
            Self::GrowMounted(_) => 10,
            Self::Convert => 11,
            Self::Shared(_) => 12,
            Self::InodeSize(_) => 13,
            Self::UseExtents => 14,
            Self::DescriptorSize(_) => 15,
        }
    }

    /// Takes the step on `device`, which holds the image; returns whether it was allowed.
    pub(super) fn take(&self, device: Arc<dyn BlockDevice>, image: &Image) -> Result<bool> {
        let options = image.options();
        match self {
            Self::Use => unreachable!("a life uses its files itself"),
            Self::Grow(blocks) => {
                let bytes = blocks * u64::from(image.kind.block_size);
                // A shrinking leaves what was behind the new end.
                let contents = DeviceContents::Unknown;
                uext4::resize::grow(device, options, bytes, contents).map(|_| true)
            }
            Self::Shrink(blocks) => {
                let bytes = |blocks| Least::Bytes(blocks * u64::from(image.kind.block_size));
                let least = blocks.map_or(Least::Possible, bytes);
                allowed(shrink(device, options, least).map(drop))
            }
            Self::Journal(blocks) => {
                let internal = |blocks| Journal::Internal(InternalJournal::of(blocks));
                let wanted = blocks.map_or(Journal::None, internal);
                allowed(set_journal(&device, &options, wanted))
            }
            Self::Quota(kinds) => allowed(set_quota(&device, &options, kinds)),
            Self::Reseal(wanted) => allowed(reseal(device, options, *wanted)),
            Self::Convert => allowed(convert(&device, &options, Some(LOG_BLOCKS)).map(drop)),
            Self::InodeSize(bytes) => allowed(set_inode_size(device, options, *bytes)),
            Self::DescriptorSize(size) => allowed(set_descriptor_size(device, options, *size)),
            Self::UseExtents => {
                let go_on = &mut |_| ControlFlow::Continue(());
                allowed(use_extents(&device, &options, go_on).map(drop))
            }
            Self::Shared(step) => shared(step, &device, image),
            _ => {
                let fs = Filesystem::mount(device, options)?;
                let done = self.on_mount(&fs, image);
                fs.unmount()?;
                allowed(done)
            }
        }
    }

    fn on_mount(&self, fs: &Filesystem, image: &Image) -> Result<()> {
        match self {
            Self::GrowMounted(blocks) => {
                let bytes = blocks * u64::from(image.kind.block_size);
                fs.grow(NewSize::Bytes(bytes)).map(drop)
            }
            Self::Scatter(parts) => parts.iter().try_for_each(|(path, percent, byte)| {
                let file = find(fs, path);
                let end = fs.attr(&file).size_bytes * percent / 100;
                fs.relocate(&file, 0..end, Destination::Near(*byte))
                    .map(drop)
            }),
            Self::Defragment(paths) => paths.iter().try_for_each(|path| {
                let terms = DefragOptions::default();
                let go_on = &mut |_| ControlFlow::Continue(());
                fs.defragment(&find(fs, path), &terms, go_on).map(drop)
            }),
            Self::Compact => {
                let go_on = &mut |_| ControlFlow::Continue(());
                fs.compact(&CompactOptions::default(), go_on).map(drop)
            }
            Self::Tune(tuning) => fs.tune(tuning),
            _ => unreachable!("not on a mount"),
        }
    }
}

fn tune(
    device: &Arc<dyn BlockDevice>,
    image: &Image,
    features: Vec<(Feature, Presence)>,
) -> Result<()> {
    let fs = Filesystem::mount(device.clone(), image.options())?;
    let tuning = Tuning {
        features,
        ..Tuning::default()
    };
    let done = fs.tune(&tuning);
    fs.unmount()?;
    done
}

/// Each claim of a shared device waits for seconds, so only one step has it.
fn shared(step: &Step, device: &Arc<dyn BlockDevice>, image: &Image) -> Result<bool> {
    if !allowed(tune(device, image, vec![(Feature::MMP, Presence::Present)]))? {
        return Ok(false);
    }
    let done = step.take(device.clone(), image);
    tune(device, image, vec![(Feature::MMP, Presence::Absent)])?;
    done
}

fn find(fs: &Filesystem, path: &[u8]) -> uext4::InodeRef {
    EngineTarget::new(fs).find(path).expect("a file")
}

/// Whether it was done. What a kind of file system cannot do, or a full one, is no failure.
fn allowed(result: Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(Error::NotSupported(_) | Error::NoSpace) => Ok(false),
        Err(Error::Resize(
            ResizeError::Journal { .. }
            | ResizeError::TooSmall { .. }
            | ResizeError::GrowthLimit { .. }
            | ResizeError::Tables { .. }
            | ResizeError::OwnTables { .. }
            | ResizeError::TableSpace { .. }
            | ResizeError::ReservedDescriptors { .. },
        )) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A step for the image, which has these files.
pub(super) fn draw(rng: &mut Rng, image: &Image, files: &[Vec<u8>]) -> Step {
    let bytes = image.main.size_bytes();
    let disk = uext4::read_superblock(&*image.main, None).expect("a superblock");
    if !disk.features().has(Feature::EXTENTS) && rng.chance(40) {
        return Step::Convert;
    }
    if matches!(image.kind.name, "ext2" | "ext3") && rng.chance(30) {
        return Step::UseExtents;
    }
    if rng.chance(5) {
        let sizes = [DescriptorSize::Narrow, DescriptorSize::Wide];
        return Step::DescriptorSize(*rng.pick(&sizes));
    }
    match rng.below(33) / 2 {
        0 | 1 => Step::Use,
        2 | 3 => grow(rng, image),
        4 => {
            let count = rng.below(12).min(files.len() as u64);
            let part = |rng: &mut Rng| (rng.pick(files).clone(), rng.below(101), rng.below(bytes));
            Step::Scatter((0..count).map(|_| part(rng)).collect())
        }
        5 => Step::Defragment(files.to_vec()),
        6 => Step::Compact,
        7 | 8 => Step::Tune(Box::new(tuning(rng))),
        12 | 13 => shrink_some(rng, image),
        15 => Step::InodeSize(image.inode_size() * 2),
        16 => Step::Shared(Box::new(match rng.below(3) {
            0 => grow(rng, image),
            1 => Step::InodeSize(image.inode_size() * 2),
            _ => shrink_some(rng, image),
        })),
        11 => {
            let mut kinds = QuotaKind::ALL.to_vec();
            kinds.retain(|_| rng.chance(40));
            Step::Quota(kinds)
        }
        9 | 10 => Step::Reseal(Reseal {
            uuid: rng
                .chance(50)
                .then(|| rng.bytes(16).try_into().expect("16 bytes")),
            // Beside metadata_csum it is refused.
            uninit_bg: rng.chance(20).then(|| *rng.pick(&PRESENCES)),
            metadata_csum: rng.chance(70).then(|| *rng.pick(&PRESENCES)),
        }),
        _ => {
            let has_other = image.journal.is_some();
            match rng.chance(40) || has_other {
                true => Step::Tune(Box::new(tuning(rng))),
                false => Step::Journal(rng.chance(70).then(|| LOG_BLOCKS + rng.below(400) as u32)),
            }
        }
    }
}

fn grow(rng: &mut Rng, image: &Image) -> Step {
    let block_size = u64::from(image.kind.block_size);
    let (now, most) = (image.blocks(), image.main.size_bytes() / block_size);
    let blocks = rng.between(now, most);
    match rng.chance(50) {
        true => Step::Grow(blocks),
        false => Step::GrowMounted(blocks),
    }
}

fn shrink_some(rng: &mut Rng, image: &Image) -> Step {
    let now = image.blocks();
    Step::Shrink(rng.chance(60).then(|| rng.between(now / 4, now)))
}

fn tuning(rng: &mut Rng) -> Tuning {
    let mut tuning = Tuning::default();
    for _ in 0..rng.between(1, 3) {
        match rng.below(8) {
            0 => tuning.label = Some(b"a label"[..rng.below(8) as usize].to_vec()),
            1 => tuning.uuid = rng.bytes(16).try_into().ok(),
            2 => tuning.reserved_percent = Some(rng.below(51) as u8),
            3 => tuning.on_error = Some(*rng.pick(&[OnError::Continue, OnError::RemountReadOnly])),
            4 => tuning.raid.stride = Some(rng.below(64) as u16),
            5 => tuning.hash = Some(*rng.pick(&[HashVersion::HalfMd4, HashVersion::Tea])),
            _ => {
                let wanted = *rng.pick(&PRESENCES);
                tuning.features.push((*rng.pick(&FEATURES), wanted));
            }
        }
    }
    tuning
}
