//! Locates the journal's log: the blocks of the journal inode, or an external device.
//!
//! It reads the device directly: the log is found before anything else is known.

use crate::zones::{inode_byte, metadata_zones};
use crate::{Error, FileMap, MapFormat, MapSource, Result};
use uext4_device::BlockDevice;
use uext4_format::extent::ExtentState;
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use uext4_format::{
    BlockNr, Checksums, Corrupt, CorruptKind, DamageLocation, DeviceNumber, Feature, Geometry,
    Inode, InodeNr, Superblock, Uuid, jbd2,
};
use uext4_journal::recovery::{self, RecoveryMode};
use uext4_journal::{Log, LogRun};
use uext4_num::{clamp_u32, usize_of};
use uext4_sync::Arc;

/// What is damaged, for the reader of a message.
const STRUCTURE: &str = "journal inode";
/// Smallest log that jbd2 accepts, in blocks.
const LOG_BLOCKS_MIN: u32 = 1024 / 4;

/// Finds the log of a file system with a journal: in its inode, or on `external`.
///
/// # Errors
/// [`Error::Mount`] if the journal is on a device that `external` is not; damage of the inode and
/// of its map.
pub fn find(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    geometry: &Geometry,
    external: Option<&Arc<dyn BlockDevice>>,
) -> Result<Log> {
    match Finder::new(device, superblock, geometry) {
        Some(finder) => finder.find(),
        None => match external {
            Some(log) => external_log(log.clone(), geometry, &superblock.journal_uuid),
            None => Err(Error::Mount(missing(superblock))),
        },
    }
}

/// Checks that the log is found by its inode. Behind a replay all of its map is home: what is not
/// is damage, also where the superblock's copy has stood in for it.
///
/// # Errors
/// That damage.
pub fn check(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    geometry: &Geometry,
) -> Result<()> {
    let Some(finder) = Finder::new(device, superblock, geometry) else {
        return Ok(());
    };
    let inode = finder.inode()?;
    finder.log_of(&inode).map(drop)
}

/// Describes the missing external device, from the superblock.
fn missing(superblock: &Superblock) -> String {
    let uuid = Uuid(&superblock.journal_uuid);
    let known = match superblock.journal_dev {
        0 => String::new(),
        number => {
            let DeviceNumber { major, minor } = DeviceNumber::of_new(number);
            format!(", last known as device {major}:{minor}")
        }
    };
    format!(
        "its journal is on another device, with the UUID {uuid}{known}; name that device, or an \
         image of it, by journal_path="
    )
}

/// An external journal has its own ext superblock with the feature `journal_dev`; the jbd2
/// superblock is in the next block.
fn external_log(device: Arc<dyn BlockDevice>, geometry: &Geometry, uuid: &[u8; 16]) -> Result<Log> {
    let wrong = |problem: &str| Error::Mount(format!("{} {problem}", device.describe()));
    let mut bytes = [0; SUPERBLOCK_BYTES];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
    let head = Superblock::parse_unverified(&bytes);
    let head = head.map_err(|_| wrong("is not an ext4 journal device"))?;
    if !head.features().has(Feature::JOURNAL_DEV) {
        return Err(wrong("is not an ext4 journal device"));
    }
    if head.uuid != *uuid {
        let (found, wanted) = (Uuid(&head.uuid), Uuid(uuid));
        return Err(wrong(&format!(
            "is the journal of another file system: its UUID is {found}, not {wanted}"
        )));
    }
    let block_size = u64::from(geometry.block_size());
    let len_blocks = u32::try_from(head.blocks_count.min(device.size_bytes() / block_size));
    let len_blocks = len_blocks.map_err(|_| wrong("is too large"))?;
    let superblock = clamp_u32(SUPERBLOCK_OFFSET / block_size) + 1;
    let mut bytes = [0; jbd2::SUPERBLOCK_BYTES];
    device.read_at(u64::from(superblock) * block_size, &mut bytes)?;
    // The mount of one would discard what waits there for another.
    if jbd2::Superblock::parse(&bytes).is_ok_and(|log| log.is_shared()) {
        return Err(wrong(
            "is the journal of several file systems, which Linux refuses as well",
        ));
    }
    Ok(Log {
        superblock,
        ..Log::contiguous(device, 0, len_blocks)
    })
}

struct Finder<'a> {
    device: &'a Arc<dyn BlockDevice>,
    superblock: &'a Superblock,
    geometry: &'a Geometry,
    nr: InodeNr,
}

impl<'a> Finder<'a> {
    /// `None` for an external journal.
    fn new(
        device: &'a Arc<dyn BlockDevice>,
        superblock: &'a Superblock,
        geometry: &'a Geometry,
    ) -> Option<Self> {
        (superblock.journal_inum != 0).then_some(Finder {
            device,
            superblock,
            geometry,
            nr: InodeNr(superblock.journal_inum),
        })
    }

    /// A crash may have left a part of the map, or of the way to the inode, in the log only. So a
    /// log that is not empty is found by the superblock's copy of the inode as well, as by e2fsck:
    /// the map that the log had before the change in it.
    fn find(&self) -> Result<Log> {
        let found = self.inode().and_then(|inode| self.log_of(&inode));
        match found {
            Err(Error::Corrupt(damage)) if self.superblock.features().has(Feature::RECOVER) => {
                let copy = uext4_mkfs::journal_of_backup(self.superblock, self.geometry);
                let found = copy.and_then(|inode| self.log_of(&inode).ok());
                found.ok_or(Error::Corrupt(damage))
            }
            found => found,
        }
    }

    fn log_of(&self, inode: &Inode) -> Result<Log> {
        let blocks = inode.size / u64::from(self.geometry.block_size());
        let blocks = u32::try_from(blocks).unwrap_or(0);
        // Each block of the log is used once.
        let blocks = blocks.min(clamp_u32(self.geometry.blocks_count));
        // The inode may be longer than the log, and tables of the rest not be home.
        let blocks = blocks.min(self.log_blocks(inode).max(LOG_BLOCKS_MIN));
        if inode.links == 0 || blocks < LOG_BLOCKS_MIN {
            return Err(self.bad(CorruptKind::NoJournal));
        }
        let map = self.map(inode, blocks)?;
        let runs = self.runs(&map)?;
        // The size may exceed the mapped blocks, as in the kernel: the log's own superblock has the
        // required length.
        let len_blocks = self.check_runs(&map, &runs)?.min(blocks);
        Ok(Log {
            device: self.device.clone(),
            runs,
            len_blocks,
            superblock: 0,
        })
    }

    /// The length of the log by its own superblock; the most possible, if that is unreadable.
    fn log_blocks(&self, inode: &Inode) -> u32 {
        let map = self.map(inode, 1).ok();
        let first = map.and_then(|map| map.extents.first().map(|extent| extent.start));
        let bytes = first.and_then(|nr| self.read(nr).ok());
        let bytes = bytes.unwrap_or_default();
        let start = bytes.first_chunk::<{ jbd2::SUPERBLOCK_BYTES }>();
        let log = start.and_then(|start| jbd2::Superblock::parse(start).ok());
        log.map_or(u32::MAX, |log| log.max_len_blocks)
    }

    /// The map of the inode below block `end` of the file. Before a replay a node may be torn: half
    /// of a change that the log holds whole, with the checksum of the other half. So checksums of
    /// nodes are not compared. For example, the journal was made longer, and the crash came while
    /// its last node was written home: the entries below the log's end are the same in both halves.
    fn map(&self, inode: &Inode, end: u32) -> Result<FileMap> {
        let source = MapSource {
            device: &**self.device,
            geometry: self.geometry,
            checksums: Checksums::NONE,
        };
        let map = FileMap::read_before(source, self.nr, inode, end.into());
        map.map_err(|error| match error {
            Error::Corrupt(damage) => Corrupt {
                structure: STRUCTURE,
                ..damage
            }
            .into(),
            other => other,
        })
    }

    fn inode(&self) -> Result<Inode> {
        let checksums = self.superblock.checksums();
        let place = inode_byte(&**self.device, &checksums, self.geometry, self.nr)?;
        let place = place.ok_or(self.bad(CorruptKind::NumberRange))?;
        let mut bytes = vec![0; usize::from(self.geometry.inode_size)];
        self.device.read_at(place, &mut bytes)?;
        Ok(Inode::parse(&bytes, self.nr, self.geometry, &checksums)?)
    }

    fn read(&self, nr: BlockNr) -> Result<Vec<u8>> {
        let size = self.geometry.block_size();
        let mut bytes = vec![0; usize_of(size)];
        self.device.read_at(nr.0 * u64::from(size), &mut bytes)?;
        Ok(bytes)
    }

    /// The runs of the log. With tables it ends at the first block that is not mapped.
    fn runs(&self, map: &FileMap) -> Result<Vec<LogRun>> {
        let (mut runs, mut next) = (Vec::new(), 0);
        for extent in &map.extents {
            if extent.state != ExtentState::Written {
                return Err(self.bad(CorruptKind::JournalNeverWritten));
            }
            if map.format == MapFormat::Tables && extent.logical.0 != next {
                break;
            }
            next = extent.logical.0.saturating_add(extent.len.into());
            runs.push(LogRun {
                log_start: extent.logical.0,
                device_block: extent.start.0,
                len: extent.len.into(),
            });
        }
        Ok(runs)
    }

    /// Returns the length of the log in blocks. Each block is used once, and is not metadata.
    fn check_runs(&self, map: &FileMap, runs: &[LogRun]) -> Result<u32> {
        let zones = metadata_zones(&**self.device, self.geometry)?;
        let mut next = 0;
        for run in runs {
            let start = BlockNr(run.device_block);
            let inside = self.geometry.contains_run(start, run.len.into());
            if run.log_start != next || !inside {
                return Err(self.bad(CorruptKind::JournalHoles));
            }
            if !zones.is_clear(start, run.len.into()) {
                return Err(self.bad(CorruptKind::JournalMetadata));
            }
            next = next.saturating_add(run.len);
        }
        if self.is_shared(map, runs) {
            return Err(self.bad(CorruptKind::JournalTwice));
        }
        if next < LOG_BLOCKS_MIN {
            return Err(self.bad(CorruptKind::NoJournal));
        }
        Ok(next)
    }

    /// Whether a block has two uses.
    fn is_shared(&self, map: &FileMap, runs: &[LogRun]) -> bool {
        let mmp = self.superblock.features().has(Feature::MMP);
        let mmp = mmp.then_some(self.superblock.mmp_block);
        let single = map.nodes.iter().map(|node| node.0).chain(mmp);
        let mut places: Vec<(u64, u64)> = runs
            .iter()
            .map(|run| (run.device_block, run.device_block + u64::from(run.len)))
            .chain(single.map(|block| (block, block.saturating_add(1))))
            .collect();
        places.sort_unstable();
        places.windows(2).any(|pair| pair[0].1 > pair[1].0)
    }

    fn bad(&self, problem: CorruptKind) -> Error {
        Corrupt::new(DamageLocation::Inode(self.nr), STRUCTURE, problem).into()
    }
}

/// Marks a log clean that must not be replayed, because everything is home.
///
/// # Errors
/// Those of the device and of the log.
pub fn wipe(log: &Log, device: &Arc<dyn BlockDevice>, block_size: u32) -> Result<()> {
    if recovery::needs_recovery(log, block_size)? {
        let report = recovery::recover(log, device, block_size, RecoveryMode::Inspect)?;
        recovery::mark_clean(log, block_size, &report)?;
    }
    Ok(())
}
