//! The MMP block on the device.

use crate::{Error, Result};
use uext4_device::{BlockDevice, Error as DeviceError, User};
use uext4_format::mmp::{MMP_BYTES, MMP_SEQ_FSCK, Mmp};
use uext4_format::{BlockNr, Checksums, Superblock};
use uext4_sync::Arc;

/// Location of the block. Reads and writes bypass this host's page cache, which does not see the
/// writes of other hosts.
#[derive(Clone)]
pub(super) struct Slot {
    pub(super) device: Arc<dyn BlockDevice>,
    nr: BlockNr,
    /// Whether the superblock's number is inside the file system.
    is_inside: bool,
    block_size: u32,
    checksums: Checksums,
}

impl Slot {
    pub(super) fn new(device: Arc<dyn BlockDevice>, superblock: &Superblock) -> Result<Self> {
        let geometry = superblock.geometry()?;
        let nr = BlockNr(superblock.mmp_block);
        Ok(Self {
            device,
            nr,
            is_inside: geometry.contains(nr) && nr.0 > u64::from(geometry.first_data_block),
            block_size: geometry.block_size(),
            checksums: superblock.checksums(),
        })
    }

    /// Byte range on the device.
    pub(super) fn range(&self) -> std::ops::Range<u64> {
        let start = self.nr.0.saturating_mul(self.block_size.into());
        start..start.saturating_add(self.block_size.into())
    }

    pub(super) fn read(&self) -> Result<Mmp> {
        if !self.is_inside {
            let problem = format!(
                "the MMP block, {}, is out of range; run `uext4 fsck`",
                self.nr.0
            );
            return Err(Error::Mount(problem));
        }
        let mut bytes = [0; MMP_BYTES];
        self.device
            .read_past_cache_at(self.range().start, &mut bytes)?;
        Ok(Mmp::parse(&bytes, self.nr, &self.checksums)?)
    }

    /// Durable when it returns.
    pub(super) fn write(&self, mmp: &Mmp) -> Result<()> {
        let mut bytes = [0; MMP_BYTES];
        mmp.write_to(&mut bytes, &self.checksums);
        self.device
            .write_past_cache_at(self.range().start, &bytes)?;
        Ok(self.device.flush()?)
    }

    /// The error for a block in use.
    pub(super) fn busy(&self, mmp: &Mmp) -> Error {
        let path = self.device.describe().into();
        let user = user(mmp);
        Error::Device(DeviceError::Busy { path, user })
    }
}

/// The last writer of the block.
pub(super) fn user(mmp: &Mmp) -> User {
    let node = text(&mmp.node_name);
    match mmp.sequence {
        MMP_SEQ_FSCK => User::Checker { node },
        _ => User::Host {
            node,
            device: text(&mmp.device_name),
        },
    }
}

/// A name that ends at a zero byte or at the end of the field.
fn text(field: &[u8]) -> String {
    let name = field.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// The start of a name, as a field.
pub(super) fn field<const N: usize>(name: &str) -> [u8; N] {
    let mut field = [0; N];
    let len = name.len().min(N);
    field[..len].copy_from_slice(&name.as_bytes()[..len]);
    field
}
