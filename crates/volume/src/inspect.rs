//! How a file system may be opened: by its superblock, its features and the device.

use crate::superblock::read_primary;
use crate::{Access, Error, Purpose, ResizeError, Result, access_for};
use uext4_device::BlockDevice;
use uext4_format::superblock::state;
use uext4_format::{Feature, Geometry, Superblock};
use uext4_sync::{Arc, Clock};

/// How a file system is opened.
#[derive(Clone)]
pub struct OpenOptions {
    /// What it is opened for.
    pub purpose: Purpose,
    /// Access that is asked for; [`Inspection::access`] is what there is.
    pub access: Access,
    /// Whether a log that is not empty is replayed.
    pub replay: bool,
    /// Offset of the superblock, in units of 1 KiB; `None` for the primary one.
    pub superblock_kib: Option<u64>,
    /// Whether flushes are sent to the device.
    pub barrier: bool,
    /// The device of an external journal.
    pub journal_device: Option<Arc<dyn BlockDevice>>,
    /// The clock of times that are written.
    pub clock: Arc<dyn Clock>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            purpose: Purpose::Files,
            access: Access::ReadWrite,
            replay: true,
            superblock_kib: None,
            barrier: true,
            journal_device: None,
            clock: Arc::new(uext4_sync::RealClock::new()),
        }
    }
}

/// What the superblock and the device say about a file system.
#[derive(Clone)]
pub struct Inspection {
    /// The superblock, as the primary one, also that of a backup.
    pub superblock: Superblock,
    /// The geometry that this superblock describes.
    pub geometry: Geometry,
    /// The access that device and features allow of what is asked for.
    pub access: Access,
    /// Whether the log is to be replayed.
    pub needs_replay: bool,
    /// The file system was not unmounted cleanly, or has orphans.
    pub recovering: bool,
}

impl Inspection {
    /// Reads the superblock, and inspects the file system by it.
    ///
    /// # Errors
    /// As [`read_primary`] and [`Self::of`].
    pub fn new(device: &dyn BlockDevice, options: &OpenOptions) -> Result<Self> {
        let superblock = read_primary(device, options.superblock_kib)?;
        Self::of(device, superblock, options)
    }

    /// Inspects the file system of a superblock that was read.
    ///
    /// # Errors
    /// [`Error::Unsupported`]; [`Error::Mount`] if the device is too small, or if it would be
    /// written without a replay; [`Error::Corrupt`] if the superblock contradicts itself.
    pub fn of(
        device: &dyn BlockDevice,
        superblock: Superblock,
        options: &OpenOptions,
    ) -> Result<Self> {
        let features = superblock.features();
        let geometry = superblock.geometry()?;
        check_size(device, &geometry)?;
        let wanted = if device.is_read_only() {
            Access::ReadOnly
        } else {
            options.access
        };
        let access = access_for(options.purpose, &superblock, wanted)?;
        let recovering = features.has(Feature::RECOVER)
            || features.has(Feature::ORPHAN_PRESENT)
            || superblock.last_orphan != 0
            || superblock.state & state::VALID == 0
            || options.superblock_kib.is_some();
        // A backup does not record whether the log is empty; the replay of an empty log does
        // nothing.
        let backup = options.superblock_kib.is_some() && features.has(Feature::HAS_JOURNAL);
        let needs_replay = (features.has(Feature::RECOVER) || backup) && options.replay;
        if features.has(Feature::RECOVER) && !options.replay && access == Access::ReadWrite {
            return Err(Error::Mount("noload needs a read-only mount".into()));
        }
        Ok(Self {
            superblock,
            geometry,
            access,
            needs_replay,
            recovering,
        })
    }
}

fn check_size(device: &dyn BlockDevice, geometry: &Geometry) -> Result<()> {
    let (wanted, there) = (geometry.size_bytes(), device.size_bytes());
    if wanted > there {
        let name = device.describe();
        let problem = format!("the superblock says {wanted} bytes, {name} has {there}");
        return Err(Error::Mount(problem));
    }
    Ok(())
}

/// Refuses a file system whose metadata may contradict each other: one with recorded errors, or
/// that a crash without a journal left. Only e2fsck finds what is wrong there.
///
/// # Errors
/// [`ResizeError::Errors`], [`ResizeError::Unclean`].
pub fn check_state(disk: &Superblock) -> Result<()> {
    if disk.state & state::ERROR != 0 {
        Err(ResizeError::Errors.into())
    } else if disk.state & state::VALID == 0 {
        Err(ResizeError::Unclean.into())
    } else {
        Ok(())
    }
}
