//! Commands: `show STRUCTURE`, `set STRUCTURE FIELD VALUE`, `mark block|inode N used|free`.
//!
//! Invariant: rows are counted memory, and each block is shown once in an answer.

use super::seal::Seal;
use super::value::hex;
use super::words::{Command, CommandError, Found};
use super::{Debugger, Spot, parse};
use crate::rescue::Rescue;
use crate::{Image, Memory};
use uext4_format::fields::Value;
use uext4_format::{BlockNr, GroupNr, InodeNr};
use uext4_num::{clamp_u32, usize_of};

/// The fields of one structure.
pub type Row = Vec<(&'static str, Value)>;

/// What a command says.
#[derive(Debug, Default)]
pub struct Answer {
    /// Structures with their fields.
    pub rows: Vec<Row>,
    /// Whether there is one structure, whatever the image says.
    pub is_single: bool,
}

/// What the commands are.
pub const HELP: &str = "\
show superblock | group N | inode FILE | extents FILE | directory FILE | xattrs FILE
show journal | mmp | block N
set superblock|journal|mmp FIELD VALUE
set group N FIELD VALUE
set inode FILE FIELD VALUE              block[3] is one word of a field
set entry FILE BLOCK OFFSET FIELD VALUE
set node FILE BLOCK|root FIELD VALUE
set extent FILE BLOCK|root INDEX FIELD VALUE
set attributes FILE FIELD VALUE         the header of the block of attributes
set bytes BLOCK OFFSET HEX              without a checksum
mark block N used|free
mark inode N used|free
FILE is a path that begins with /, or the number of an inode.";

impl Debugger {
    /// Runs a command.
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn run(&self, command: &Command) -> Found<Answer> {
        match command.word(0) {
            Some("show") => self.show(command),
            Some("set" | "mark") if self.device.is_read_only() => Err(CommandError::ReadOnly),
            Some("set") => self.change(command),
            Some("mark") => self.mark(command),
            _ => command.unknown(),
        }
    }

    fn show(&self, command: &Command) -> Found<Answer> {
        let one = |spot: &Spot| {
            Ok(Answer {
                rows: vec![self.fields(spot)?],
                is_single: true,
            })
        };
        let what = command.expect(1, "a structure")?;
        if what == "superblock" {
            command.end(2)?;
            return one(&self.superblock());
        }
        let image = self.image()?;
        let memory = Memory::new(self.memory.limit_bytes());
        match what {
            "journal" => command.end(2).and_then(|()| one(&self.journal(&image)?)),
            "mmp" => command.end(2).and_then(|()| one(&self.mmp(&image)?)),
            _ => {
                command.end(3)?;
                match what {
                    "group" => one(&self.group(&image, self.group_number(command)?)?),
                    "inode" => one(&self.inode(&image, self.file(&image, command)?)?),
                    "extents" => {
                        let nr = self.file(&image, command)?;
                        self.rows(super::show::extents(&image, nr, &memory)?)
                    }
                    "directory" => {
                        let nr = self.file(&image, command)?;
                        self.rows(super::show::directory(&image, nr, &memory)?)
                    }
                    "xattrs" => {
                        let nr = self.file(&image, command)?;
                        self.rows(super::show::attributes(&image, nr)?)
                    }
                    "block" => {
                        let nr = command.number(2, "a number")?;
                        self.rows(super::show::block(&image, nr)?)
                    }
                    _ => command.unknown(),
                }
            }
        }
    }

    fn rows(&self, rows: Vec<Row>) -> Found<Answer> {
        Ok(Answer {
            rows,
            is_single: false,
        })
    }

    fn change(&self, command: &Command) -> Found<Answer> {
        let what = command.expect(1, "a structure")?;
        if what == "superblock" {
            return self.set_last(command, 2, &self.superblock());
        }
        let image = self.image()?;
        match what {
            "journal" => self.set_last(command, 2, &self.journal(&image)?),
            "mmp" => self.set_last(command, 2, &self.mmp(&image)?),
            "group" => {
                let spot = self.group(&image, self.group_number(command)?)?;
                self.set_last(command, 3, &spot)
            }
            "inode" => {
                let spot = self.inode(&image, self.file(&image, command)?)?;
                self.set_last(command, 3, &spot)
            }
            "attributes" => {
                let spot = self.attributes(&image, self.file(&image, command)?)?;
                self.set_last(command, 3, &spot)
            }
            "entry" => {
                let nr = self.file(&image, command)?;
                let block = command.number(3, "a block")?;
                let spot = self.entry(&image, nr, block, command.index(4, "an offset")?)?;
                self.set_last(command, 5, &spot)
            }
            "node" => {
                let nr = self.file(&image, command)?;
                let spot = self.node(&image, nr, node_block(command)?)?;
                self.set_last(command, 4, &spot)
            }
            "extent" => {
                let nr = self.file(&image, command)?;
                let index = command.index(4, "an index")?;
                let spot = self.extent(&image, nr, node_block(command)?, index)?;
                self.set_last(command, 5, &spot)
            }
            "bytes" => self.set_bytes(&image, command),
            _ => command.unknown(),
        }
    }

    /// Sets the field that the last two words name, which begin at `at`.
    fn set_last(&self, command: &Command, at: usize, spot: &Spot) -> Found<Answer> {
        let behind = at.saturating_add(1);
        let (field, value) = (
            command.expect(at, "a field")?,
            command.expect(behind, "a value")?,
        );
        command.end(behind.saturating_add(1))?;
        self.set(spot, field, value)?;
        Ok(Answer::default())
    }

    fn set_bytes(&self, image: &Image, command: &Command) -> Found<Answer> {
        let block = command.number(2, "a block")?;
        let offset = command.index(3, "an offset")?;
        let bytes = hex(command.expect(4, "hexadecimal digits")?);
        let bytes = bytes.ok_or(CommandError::Expected("hexadecimal digits"))?;
        command.end(5)?;
        let spot = self.bytes(image, block, offset, bytes.len())?;
        let mut block = spot.read()?;
        spot.part_mut(&mut block).copy_from_slice(&bytes);
        self.write(&spot, block, Seal::None)?;
        Ok(Answer::default())
    }

    /// Sets or clears the bit of a block or an inode in its bitmap.
    fn mark(&self, command: &Command) -> Found<Answer> {
        let what = command.expect(1, "block or inode")?;
        let number = command.number(2, "a number")?;
        let is_used = match command.expect(3, "used or free")? {
            "used" => true,
            "free" => false,
            _ => return Err(CommandError::Expected("used or free")),
        };
        command.end(4)?;
        let image = self.image()?;
        let geometry = *image.geometry();
        let (bitmap, bit, seal) = match what {
            "block" => {
                if !geometry.contains(BlockNr(number)) {
                    return Err(CommandError::Outside);
                }
                let (group, bit) = geometry.split_block_to_cluster(BlockNr(number));
                let bitmap = image.descriptor(group).block_bitmap;
                (bitmap, bit, Seal::BlockBitmap(group))
            }
            "inode" => {
                let place = geometry.split_inode(InodeNr(clamp_u32(number)));
                let (group, bit) = place.ok_or(CommandError::Outside)?;
                let bitmap = image.descriptor(group).inode_bitmap;
                (bitmap, bit, Seal::InodeBitmap(group))
            }
            _ => return command.unknown(),
        };
        let len = usize_of(geometry.block_size());
        let spot = self.spot(&image, bitmap.0, 0..len, &[], seal)?;
        let mut block = spot.read()?;
        let byte = block
            .get_mut(usize_of(bit / 8))
            .ok_or(CommandError::Outside)?;
        let mask = 1_u8.checked_shl(bit % 8).unwrap_or(0);
        *byte = if is_used { *byte | mask } else { *byte & !mask };
        self.write(&spot, block, seal)?;
        Ok(Answer::default())
    }

    fn group_number(&self, command: &Command) -> Found<GroupNr> {
        let number = command.number(2, "a group")?;
        let number = u32::try_from(number).map_err(|_| CommandError::Outside);
        number.map(GroupNr)
    }

    /// The inode that the third word names.
    fn file(&self, image: &Image, command: &Command) -> Found<InodeNr> {
        let word = command.expect(2, "a path, or the number of an inode")?;
        if !word.starts_with('/') {
            let bare = word.trim_start_matches('<').trim_end_matches('>');
            let number = parse(bare).ok_or_else(|| CommandError::NoFile(word.to_owned()))?;
            return Ok(InodeNr(clamp_u32(number)));
        }
        let memory = Memory::new(self.memory.limit_bytes());
        let mut rescue = Rescue::new(image, None, &memory)?;
        let nr = rescue.find(word.as_bytes())?;
        nr.ok_or_else(|| CommandError::NoFile(word.to_owned()))
    }
}

/// The node that the fourth word names.
fn node_block(command: &Command) -> Found<Option<u64>> {
    match command.expect(3, "a block, or root")? {
        "root" => Ok(None),
        _ => command.number(3, "a block, or root").map(Some),
    }
}

/// A number as a value.
pub(super) fn number(value: impl Into<u64>) -> Value {
    Value::Number(value.into())
}
