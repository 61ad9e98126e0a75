//! A file system that is clean and claimed, without a user, for changes that no engine can follow.
//! It is not mounted, or its mount has come to rest.
//!
//! A change is a set of blocks. With a journal it is one transaction of the log, which is empty
//! before and after it: a replay of the log after a crash finds all of the change or nothing.
//! Without a journal the superblock is written last, and says until then that e2fsck has to run.
//!
//! Locking: none; the claim on the device keeps others out, and a value has one user.

use crate::inspect::{Inspection, OpenOptions, check_state};
use crate::media::{Media, Writes};
use crate::mmp::{self, Claim, MmpGuard};
use crate::superblock::{read_superblock, write_superblock};
use crate::{Access, Error, ResizeError, Result, log};
use std::collections::BTreeMap;
use uext4_device::BlockDevice;
use uext4_format::superblock::state;
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use uext4_format::{BlockNr, Feature, Geometry, Superblock};
use uext4_journal::recovery::{self, HomeOrder};
use uext4_journal::{Image, Log, LogRun};
use uext4_num::{clamp_usize, nonnegative, u64_of, usize_of};
use uext4_sync::{Arc, Clock};

/// Linux refuses an internal journal whose superblock names a device as well. e2fsck reads the
/// field for external journals only, and uext4 clears it when it opens the file system to write.
const NO_DEVICE: u32 = 1;

/// A claimed file system at rest.
pub struct Volume {
    device: Arc<dyn BlockDevice>,
    superblock: Superblock,
    geometry: Geometry,
    log: Option<Log>,
    mmp: Option<MmpGuard>,
    journal_device: Option<Arc<dyn BlockDevice>>,
    clock: Arc<dyn Clock>,
}

impl Volume {
    /// Claims the file system on `device`, which was unmounted.
    ///
    /// # Errors
    /// As [`Inspection::new`]; [`ResizeError::NotRecovered`] if it was not unmounted, or is opened
    /// by a backup of the superblock; [`ResizeError::Errors`] if it is marked with errors, and
    /// [`ResizeError::Unclean`] without the mark of a clean unmount; [`Error::ReadOnly`]; the error
    /// of the device if another host has mounted it.
    pub fn claim(device: Arc<dyn BlockDevice>, options: &OpenOptions) -> Result<Self> {
        let mut found = Inspection::new(&*device, options)?;
        if let Err(unsound) = check_state(&found.superblock) {
            // A file system that another host has mounted may look the same.
            mmp::refuse_other_hosts(&device)?;
            return Err(unsound);
        }
        check_ready(&found)?;
        let claim = Claim::new(&device, &found.superblock, &options.clock)?;
        let journal = options.journal_device.clone();
        let media = Media::new(device, journal, claim, Writes::Device);
        media.set_barrier(options.barrier);
        let mmp = mmp::claim(media.claim(), found.access)?;
        if mmp.is_some() {
            media.home.base().forget_cache();
            found = Inspection::new(&**media.home.base(), options)?;
            check_ready(&found)?;
        }
        let mut volume = Self {
            log: None,
            journal_device: media.journal_device(),
            device: media.home.clone(),
            superblock: found.superblock,
            geometry: found.geometry,
            mmp,
            clock: options.clock.clone(),
        };
        if volume.geometry.features.has(Feature::HAS_JOURNAL) {
            let log = volume.find_log()?;
            log::wipe(&log, &volume.device, volume.geometry.block_size())?;
            volume.log = Some(log);
        }
        volume.let_linux_in()?;
        Ok(volume)
    }

    fn find_log(&self) -> Result<Log> {
        let external = self.journal_device.as_ref();
        log::find(&self.device, &self.superblock, &self.geometry, external)
    }

    /// Clears what [`Self::change_unseen_by_linux`] has left in a crash.
    fn let_linux_in(&self) -> Result<()> {
        let there = read_superblock(&*self.device, None);
        if there.is_ok_and(|there| there.journal_dev != self.superblock.journal_dev) {
            write_superblock(&*self.device, &self.superblock)?;
        }
        Ok(())
    }

    /// The file system of a mount that has come to rest with this superblock, on its device. The
    /// claim stays the mount's.
    ///
    /// # Errors
    /// A superblock that contradicts itself.
    pub fn of_mount(
        device: Arc<dyn BlockDevice>,
        log: Option<Log>,
        superblock: Superblock,
        options: OpenOptions,
    ) -> Result<Self> {
        Ok(Self {
            device,
            geometry: superblock.geometry()?,
            superblock,
            log,
            mmp: None,
            journal_device: options.journal_device,
            clock: options.clock,
        })
    }

    /// The device, which checks the claim before each write.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// The superblock as it is on the device.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Sets the clusters that never hold data, in memory: for the superblock of the next change.
    pub fn set_overhead(&mut self, clusters: u32) {
        self.superblock.overhead_clusters = clusters;
    }

    /// The geometry that the superblock describes.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Reads block `nr`; nothing is checked or cached.
    pub fn read(&self, nr: BlockNr) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize_of(self.geometry.block_size())];
        self.device
            .read_at(nr.0 << self.geometry.block_bits, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes a block, or the start of it, that nothing of the file system refers to.
    pub fn write(&self, nr: BlockNr, bytes: &[u8]) -> Result<()> {
        Ok(self
            .device
            .write_at(nr.0 << self.geometry.block_bits, bytes)?)
    }

    /// Makes the change: `blocks` and the superblock, all or nothing if there is a journal. What
    /// was written before becomes durable first.
    ///
    /// # Errors
    /// [`ResizeError::Journal`], with nothing changed, if the log cannot hold them.
    pub fn change(&mut self, blocks: BTreeMap<BlockNr, Vec<u8>>, wanted: Superblock) -> Result<()> {
        let log = self.log.clone();
        self.commit(log.as_ref(), blocks, wanted, HomeOrder::default())
    }

    /// As [`Self::change`]. The superblock goes home behind the other blocks, and `last` behind it.
    pub fn change_before(
        &mut self,
        blocks: BTreeMap<BlockNr, Vec<u8>>,
        wanted: Superblock,
        last: Option<BlockNr>,
    ) -> Result<()> {
        let log = self.log.clone();
        let order = HomeOrder {
            last: [self.superblock_block()].into_iter().chain(last).collect(),
            bridge: None,
        };
        self.commit(log.as_ref(), blocks, wanted, order)
    }

    /// As [`Self::change`]. With `bridge` as its superblock the log can be found whichever of the
    /// blocks are home.
    pub fn change_over(
        &mut self,
        blocks: BTreeMap<BlockNr, Vec<u8>>,
        wanted: Superblock,
        bridge: &Superblock,
    ) -> Result<()> {
        let bridge = self.block_of(&unclean(bridge))?;
        let log = self.log.clone();
        self.commit(log.as_ref(), blocks, wanted, bridged(bridge))
    }

    /// As [`Self::change_over`]. Linux mounts nothing while the log has the change: it would go on
    /// with what it has read before its replay. Only for a log in the file system.
    pub fn change_unseen_by_linux(
        &mut self,
        blocks: BTreeMap<BlockNr, Vec<u8>>,
        wanted: Superblock,
        bridge: &Superblock,
    ) -> Result<()> {
        debug_assert!(self.superblock.journal_inum != 0);
        self.superblock.journal_dev = NO_DEVICE;
        let mut bridge = bridge.clone();
        bridge.journal_dev = NO_DEVICE;
        let done = self.change_over(blocks, wanted, &bridge);
        self.superblock.journal_dev = 0;
        done
    }

    /// As [`Self::change`], by another log than the present one: these runs, which hold a copy of
    /// it, and whose first block is another. Its transaction is complete before `inode`, the block
    /// of the inode table that makes them the log, goes home first. So a recovery finds the present
    /// log, empty, or the other one with the transaction.
    pub fn change_log(
        &mut self,
        runs: Vec<LogRun>,
        inode: BlockNr,
        blocks: BTreeMap<BlockNr, Vec<u8>>,
        wanted: Superblock,
    ) -> Result<()> {
        let bridge = blocks.get(&inode).map(|bytes| (inode, bytes.clone()));
        let log = self.log.clone().map(|log| Log { runs, ..log });
        let order = bridge.map(bridged).unwrap_or_default();
        self.commit(log.as_ref(), blocks, wanted, order)?;
        self.log = Some(self.find_log()?);
        Ok(())
    }

    /// Makes a change by `log`.
    fn commit(
        &mut self,
        log: Option<&Log>,
        mut blocks: BTreeMap<BlockNr, Vec<u8>>,
        mut wanted: Superblock,
        order: HomeOrder,
    ) -> Result<()> {
        wanted.wtime = nonnegative(self.clock.wall().seconds);
        self.check_room(u64_of(blocks.len()) + 1)?;
        self.device.flush()?;
        write_superblock(&*self.device, &unclean(&self.superblock))?;
        match log {
            Some(log) => {
                let (nr, bytes) = self.block_of(&unclean(&wanted))?;
                blocks.insert(nr, bytes);
                let images = blocks.into_iter().map(image).collect();
                let (home, block_size) = (&self.device, self.geometry.block_size());
                let seconds = wanted.wtime;
                recovery::commit_to_clean(log, home, block_size, images, &order, seconds)?;
            }
            None => {
                for (nr, bytes) in blocks {
                    self.write(nr, &bytes)?;
                }
                self.device.flush()?;
            }
        }
        write_superblock(&*self.device, &wanted)?;
        self.geometry = wanted.geometry()?;
        self.superblock = wanted;
        Ok(())
    }

    /// Blocks that one change may have.
    pub fn room(&self) -> Result<u64> {
        match &self.log {
            Some(log) => Ok(recovery::room_images(log, self.geometry.block_size())?),
            None => Ok(u64::MAX),
        }
    }

    /// Fails with [`ResizeError::Journal`] if the log cannot hold a change of `wanted` blocks.
    pub fn check_room(&self, wanted: u64) -> Result<()> {
        let room = self.room()?;
        if wanted > room {
            return Err(ResizeError::Journal { wanted, room }.into());
        }
        Ok(())
    }

    /// Ends the claim of the multiple mount protection, if there is one.
    pub fn release(mut self) -> Result<()> {
        self.mmp.take().map_or(Ok(()), |mmp| mmp.release())
    }

    /// The block that holds the primary superblock.
    fn superblock_block(&self) -> BlockNr {
        BlockNr(SUPERBLOCK_OFFSET >> self.geometry.block_bits)
    }

    /// That block, with this superblock in it.
    fn block_of(&self, disk: &Superblock) -> Result<(BlockNr, Vec<u8>)> {
        let block_size = u64::from(self.geometry.block_size());
        let nr = self.superblock_block();
        let mut bytes = self.read(nr)?;
        let at = clamp_usize(SUPERBLOCK_OFFSET % block_size);
        debug_assert!(u64_of(at + SUPERBLOCK_BYTES) <= block_size);
        bytes[at..at + SUPERBLOCK_BYTES].copy_from_slice(&disk.to_bytes());
        Ok((nr, bytes))
    }
}

/// The block of the bridge is the bridge while the others are on their way home.
fn bridged(bridge: (BlockNr, Vec<u8>)) -> HomeOrder {
    HomeOrder {
        last: vec![bridge.0],
        bridge: Some(image(bridge)),
    }
}

fn image((nr, bytes): (BlockNr, Vec<u8>)) -> (BlockNr, Image) {
    (nr, Image::from(bytes))
}

/// Refuses a file system that a change must not begin on.
fn check_ready(found: &Inspection) -> Result<()> {
    check_state(&found.superblock)?;
    if found.access != Access::ReadWrite {
        return Err(Error::ReadOnly);
    }
    if found.recovering {
        return Err(ResizeError::NotRecovered.into());
    }
    Ok(())
}

/// The superblock while a change is on its way.
fn unclean(disk: &Superblock) -> Superblock {
    let mut disk = disk.clone();
    let mut features = disk.features();
    if features.has(Feature::HAS_JOURNAL) {
        features.insert(Feature::RECOVER);
    } else {
        disk.state &= !state::VALID;
    }
    disk.set_features(features);
    disk
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_device::MemDevice;
    use uext4_mkfs::{MkfsOptions, Preset, format};

    fn made() -> Arc<dyn BlockDevice> {
        let device = MemDevice::new(16 << 20);
        format(&device, &MkfsOptions::new(Preset::Ext4)).expect("makes a file system");
        Arc::new(device)
    }

    #[test]
    fn a_file_system_that_was_not_unmounted_is_refused() {
        let device = made();
        let mut disk = read_superblock(&*device, None).expect("reads");
        let mut features = disk.features();
        features.insert(Feature::RECOVER);
        disk.set_features(features);
        write_superblock(&*device, &disk).expect("writes");
        let refused = Volume::claim(device, &OpenOptions::default()).err();
        let errors = matches!(refused, Some(Error::Resize(ResizeError::NotRecovered)));
        assert!(errors, "{refused:?}");
    }

    #[test]
    fn a_change_is_whole_and_leaves_a_clean_file_system() {
        let device = made();
        let options = OpenOptions::default();
        let mut volume = Volume::claim(device.clone(), &options).expect("claims");
        let last = BlockNr(volume.geometry.blocks_count - 1);
        let bytes = vec![7; usize_of(volume.geometry.block_size())];
        let mut wanted = volume.superblock.clone();
        wanted.mnt_count = 11;
        let blocks = BTreeMap::from([(last, bytes.clone())]);
        volume.change(blocks, wanted).expect("changes");
        volume.release().expect("releases");
        let again = Volume::claim(device, &options).expect("is clean");
        assert_eq!(again.superblock.mnt_count, 11);
        assert_eq!(again.read(last).expect("reads"), bytes);
    }
}
