//! Single fields of structures: shown, and changed with the checksums that follow.
//!
//! Mechanism: a name leads to a [`Spot`], some bytes of a block with a table of their fields. A
//! change reads the block, sets the field, computes the checksum of the structure anew, and writes
//! the block. Nothing else follows: counts and other structures are left as they are.
//!
//! The device is shown as it is, without a replay.

mod command;
mod seal;
mod show;
mod spot;
mod value;
mod words;

pub use command::{Answer, HELP, Row};
pub use spot::Spot;
pub use value::{parse, show as show_value};
pub use words::{Command, CommandError};

use crate::{Error, Image, Memory, Result};
use seal::Seal;
use uext4_device::BlockDevice;
use uext4_format::fields::Value;
use uext4_sync::Arc;

/// A file system whose fields are shown and changed.
pub struct Debugger {
    device: Arc<dyn BlockDevice>,
    journal: Option<Arc<dyn BlockDevice>>,
    memory: Memory,
}

impl Debugger {
    /// The file system on `device`, with the device of an external journal.
    pub fn new(
        device: Arc<dyn BlockDevice>,
        journal: Option<Arc<dyn BlockDevice>>,
        memory: Memory,
    ) -> Self {
        Self {
            device,
            journal,
            memory,
        }
    }

    /// The file system, opened by its superblock as it is now.
    fn image(&self) -> Result<Image> {
        Image::open(
            Arc::clone(&self.device),
            None,
            &Memory::new(self.memory.limit_bytes()),
        )
    }

    /// All fields at a spot that its structure has.
    ///
    /// # Errors
    /// Those of the device.
    pub fn fields(&self, spot: &Spot) -> Result<Vec<(&'static str, Value)>> {
        let bytes = spot.read()?;
        let bytes = spot.part(&bytes);
        let fields = spot.table.iter();
        Ok(fields
            .filter_map(|field| Some((field.name, field.get(bytes)?)))
            .collect())
    }

    /// Sets a field at a spot, and the checksum that covers it. A checksum itself is left as set.
    ///
    /// # Errors
    /// Those of the device; [`CommandError`] for a field that is unknown or does not take the
    /// value.
    pub fn set(
        &self,
        spot: &Spot,
        name: &str,
        text: &str,
    ) -> std::result::Result<(), CommandError> {
        let (name, index) = value::split_index(name);
        let field = uext4_format::fields::find(spot.table, name).ok_or_else(|| {
            let known: Vec<&str> = spot.table.iter().map(|field| field.name).collect();
            CommandError::NoField(name.to_owned(), known.join(" "))
        })?;
        let mut block = spot.read()?;
        let old = field.get(spot.part(&block));
        let new = value::parse_for(field, old, index, text)?;
        let part = spot.part_mut(&mut block);
        field
            .set(part, &new)
            .map_err(|error| CommandError::Field(name.to_owned(), error))?;
        let is_checksum = field.name.starts_with("checksum") && field.name != "checksum_type";
        let seal = if is_checksum && field.name != "checksum_seed" {
            Seal::None
        } else {
            spot.seal
        };
        self.write(spot, block, seal)
    }

    /// Writes some bytes of a block, and the checksum that covers them.
    fn write(
        &self,
        spot: &Spot,
        mut block: Vec<u8>,
        seal: Seal,
    ) -> std::result::Result<(), CommandError> {
        let more = match seal {
            Seal::None => None,
            seal => seal.apply(self, spot, &mut block)?,
        };
        spot.device
            .write_at(spot.byte, &block)
            .map_err(Error::from)?;
        if let Some((spot, block)) = more {
            spot.device
                .write_at(spot.byte, &block)
                .map_err(Error::from)?;
        }
        spot.device.flush().map_err(Error::from)?;
        Ok(())
    }
}
