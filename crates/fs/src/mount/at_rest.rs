//! A file system that is clean and claimed, without a user, for changes that no engine can follow.
//! It is not mounted, or its mount has come to rest.
//!
//! A change is a set of blocks. With a journal it is one transaction of the log, which is empty
//! before and after it: a replay of the log after a crash finds all of the change or nothing.
//! Without a journal the superblock is written last, and says until then that e2fsck has to run.
//!
//! Locking: none; the claim on the device keeps others out, and a value has one user.

use super::{log, open};
use crate::media::Lifecycle;
use crate::mmp::{self, MmpGuard};
use crate::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, read_superblock};
use crate::{Error, Filesystem, MountOptions, ResizeError, Result};
use std::collections::BTreeMap;
use uext4_device::BlockDevice;
use uext4_format::superblock::state;
use uext4_format::{BlockNr, Feature, Geometry, Superblock};
use uext4_journal::recovery::{self, HomeOrder};
use uext4_journal::{Image, Log, LogRun};
use uext4_num::{clamp_usize, nonnegative, u64_of, usize_of};
use uext4_sync::Arc;

/// Linux refuses an internal journal whose superblock names a device as well. e2fsck reads the
/// field for external journals only, and uext4 clears it when it opens the file system to write.
const NO_DEVICE: u32 = 1;

/// See the module.
pub(crate) struct AtRest {
    /// The device, which checks the claim before each write.
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) superblock: Superblock,
    pub(crate) geometry: Geometry,
    log: Option<Log>,
    mmp: Option<MmpGuard>,
    options: MountOptions,
}

impl AtRest {
    /// Claims the file system; one that was not unmounted is recovered first.
    ///
    /// # Errors
    /// As [`Filesystem::mount`]; [`ResizeError::Errors`] and [`ResizeError::Unclean`] if e2fsck has
    /// to run.
    pub(crate) fn claim(device: Arc<dyn BlockDevice>, options: MountOptions) -> Result<Self> {
        let mut plan = open::inspect(&device, options.clone())?;
        if let Err(unsound) = check_state(&plan.superblock) {
            // A file system that another host has mounted may look the same.
            mmp::refuse_other_hosts(&device)?;
            return Err(unsound);
        }
        if plan.recovering {
            recover(&device, &options)?;
            plan = open::inspect(&device, options)?;
        }
        if plan.options.access != crate::Access::ReadWrite {
            return Err(Error::ReadOnly);
        }
        let media = plan.media(device)?;
        let mmp = mmp::claim(media.claim(), plan.options.access)?;
        if mmp.is_some() {
            media.home.base().forget_cache();
            open::look_again(media.home.base(), &mut plan)?;
        }
        check_state(&plan.superblock)?;
        if plan.recovering {
            return Err(ResizeError::Errors.into());
        }
        let device: Arc<dyn BlockDevice> = media.home.clone();
        let has_log = plan.geometry.features.has(Feature::HAS_JOURNAL);
        let log =
            has_log.then(|| log::find(&device, &plan.superblock, &plan.geometry, &plan.options));
        let log = log.transpose()?;
        if let Some(log) = &log {
            open::wipe(log, &device, plan.geometry.block_size())?;
        }
        let rest = Self {
            log,
            device,
            superblock: plan.superblock,
            geometry: plan.geometry,
            mmp,
            options: plan.options,
        };
        rest.let_linux_in()?;
        Ok(rest)
    }

    /// Clears what [`Self::change_unseen_by_linux`] has left in a crash.
    fn let_linux_in(&self) -> Result<()> {
        let there = read_superblock(&*self.device, None);
        if there.is_ok_and(|there| there.journal_dev != self.superblock.journal_dev) {
            self.store(&self.superblock)?;
        }
        Ok(())
    }

    /// The file system of a mount that has come to rest with this superblock. The claim stays the
    /// mount's.
    ///
    /// # Errors
    /// A superblock that contradicts itself.
    pub(crate) fn of_mount(life: &Lifecycle, superblock: Superblock) -> Result<Self> {
        Ok(Self {
            device: life.media.home.clone(),
            geometry: superblock.geometry()?,
            superblock,
            log: life.log().cloned(),
            mmp: None,
            options: life.options.clone(),
        })
    }

    /// The bytes of a block.
    pub(crate) fn read(&self, nr: BlockNr) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize_of(self.geometry.block_size())];
        self.device
            .read_at(nr.0 << self.geometry.block_bits, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes a block, or the start of it, that nothing of the file system refers to.
    pub(crate) fn write(&self, nr: BlockNr, bytes: &[u8]) -> Result<()> {
        Ok(self
            .device
            .write_at(nr.0 << self.geometry.block_bits, bytes)?)
    }

    /// Makes the change: `blocks` and the superblock, all or nothing if there is a journal. What
    /// was written before becomes durable first.
    ///
    /// # Errors
    /// [`ResizeError::Journal`], with nothing changed, if the log cannot hold them.
    pub(crate) fn change(
        &mut self,
        blocks: BTreeMap<BlockNr, Vec<u8>>,
        wanted: Superblock,
    ) -> Result<()> {
        let log = self.log.clone();
        self.commit(log.as_ref(), blocks, wanted, HomeOrder::default())
    }

    /// As [`Self::change`]. The superblock goes home behind the other blocks, and `last` behind it.
    pub(crate) fn change_before(
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
    pub(crate) fn change_over(
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
    pub(crate) fn change_unseen_by_linux(
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
    pub(crate) fn change_log(
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
        let (disk, geometry) = (&self.superblock, &self.geometry);
        self.log = Some(log::find(&self.device, disk, geometry, &self.options)?);
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
        wanted.wtime = nonnegative(self.options.clock.wall().seconds);
        self.check_room(u64_of(blocks.len()) + 1)?;
        self.device.flush()?;
        self.store(&unclean(&self.superblock))?;
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
        self.store(&wanted)?;
        self.geometry = wanted.geometry()?;
        self.superblock = wanted;
        Ok(())
    }

    /// Blocks that one change may have.
    pub(crate) fn room(&self) -> Result<u64> {
        match &self.log {
            Some(log) => Ok(recovery::room_images(log, self.geometry.block_size())?),
            None => Ok(u64::MAX),
        }
    }

    /// Fails with [`ResizeError::Journal`] if the log cannot hold a change of `wanted` blocks.
    pub(crate) fn check_room(&self, wanted: u64) -> Result<()> {
        let room = self.room()?;
        match wanted <= room {
            true => Ok(()),
            false => Err(ResizeError::Journal { wanted, room }.into()),
        }
    }

    /// Ends the claim.
    pub(crate) fn release(mut self) -> Result<()> {
        self.mmp.take().map_or(Ok(()), |mmp| mmp.release())
    }

    /// Writes the primary superblock, durably.
    fn store(&self, disk: &Superblock) -> Result<()> {
        self.device.write_at(SUPERBLOCK_OFFSET, &disk.to_bytes())?;
        Ok(self.device.flush()?)
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

/// Recovers a file system that was not unmounted, and checks that a change may begin.
///
/// # Errors
/// As [`AtRest::claim`].
pub(crate) fn check_sound(device: &Arc<dyn BlockDevice>, options: &MountOptions) -> Result<()> {
    AtRest::claim(device.clone(), options.clone())?.release()
}

/// Refuses a file system whose metadata may contradict each other: one with recorded errors, or
/// that a crash without a journal left. Only e2fsck finds what is wrong there.
pub(crate) fn check_state(disk: &Superblock) -> Result<()> {
    if disk.state & state::ERROR != 0 {
        return Err(ResizeError::Errors.into());
    }
    match disk.state & state::VALID {
        0 => Err(ResizeError::Unclean.into()),
        _ => Ok(()),
    }
}

/// Brings a file system that was not unmounted to rest.
fn recover(device: &Arc<dyn BlockDevice>, options: &MountOptions) -> Result<()> {
    let mounted = Filesystem::mount(Arc::clone(device), options.clone())?;
    mounted.check_writable()?;
    mounted.unmount()
}

/// The superblock while a change is on its way.
fn unclean(disk: &Superblock) -> Superblock {
    let mut disk = disk.clone();
    let mut features = disk.features();
    match features.has(Feature::HAS_JOURNAL) {
        true => features.insert(Feature::RECOVER),
        false => disk.state &= !state::VALID,
    }
    disk.set_features(features);
    disk
}
