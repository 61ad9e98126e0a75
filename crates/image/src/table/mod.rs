//! Tables of partitions as text, in the syntax of the scripts of sfdisk.
//!
//! ```text
//! label: gpt
//! size=64M, type=U, name="esp", content="esp.img"
//! size=1G, type=swap
//! type=linux, name="root", content=build
//! ```
//!
//! The key `content=` is an addition: the file system, or a file beside the table; without it a
//! partition holds zeroes. What sfdisk has and is not supported here is refused by its name.
//!
//! Layout: `lines` splits lines into fields, `parse` reads headers and `fields` partitions by the
//! `words` of their values, `layout` finds places on the disk, `problem` has the errors.
//!
//! Invariants: text is untrusted. Numbers are at most [`SECTORS_MAX`], so that sums of a few of
//! them do not overflow.
//!
//! References: sfdisk(8), "Input formats".

mod fields;
mod layout;
mod lines;
mod parse;
mod problem;
mod words;

use std::path::PathBuf;

use uuid::Uuid;

pub(crate) use layout::Extent;
pub use problem::{Fault, Problem};

use crate::PartitionKind;

/// Bytes of a sector, as tables count them.
pub(crate) const SECTOR: u64 = 512;
/// Most sectors of a disk: offsets in files have 63 bits, and the backup table is behind.
pub(crate) const SECTORS_MAX: u64 = i64::MAX.cast_unsigned() / SECTOR - 4096;
/// Sectors of 128 entries.
pub(crate) const ENTRIES_SECTORS: u64 = 32;
/// The first sector behind the tables of a GPT.
const GPT_FIRST: u64 = 2 + ENTRIES_SECTORS;
/// Sectors of 1 MiB, at whose multiples partitions begin that have no other place.
const MIB_SECTORS: u64 = 2048;

/// The partitions of a disk, one of which holds the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name in messages.
    file: String,
    pub(crate) label: Label,
    /// The first sector that a partition may have.
    pub(crate) first: u64,
    /// The last one; `None`: the disk is as long as its partitions.
    pub(crate) last: Option<u64>,
    /// Sectors of whose multiples partitions begin at one.
    grain: u64,
    /// In the order of the text. One has the file system.
    pub(crate) lines: Vec<Line>,
}

/// The kind of the table, with the identity of the disk if it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Gpt(Option<Uuid>),
    Dos(Option<u32>),
}

/// A partition as a line of the table gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The number of the line in the text, from 1; 0: none.
    pub(crate) line: usize,
    /// The number of the partition, from 1.
    pub(crate) number: u32,
    start: Option<u64>,
    size: Size,
    pub(crate) kind: PartitionType,
    pub(crate) uuid: Option<Uuid>,
    pub(crate) name: String,
    pub(crate) attributes: u64,
    pub(crate) is_bootable: bool,
    pub(crate) contents: Contents,
}

/// The size that a line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    /// That of the contents; without any, as for `Rest`.
    None,
    /// As much as possible.
    Rest,
    Sectors(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartitionType {
    Gpt(Uuid),
    Dos(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    Zeroes,
    FileSystem,
    File(PathBuf),
}

impl Table {
    /// A GPT whose one partition, at 1 MiB, is named `root` and holds the file system.
    pub fn one(kind: PartitionKind) -> Table {
        Table {
            file: String::new(),
            label: Label::Gpt(None),
            first: GPT_FIRST,
            last: None,
            grain: MIB_SECTORS,
            lines: vec![Line {
                name: "root".to_owned(),
                contents: Contents::FileSystem,
                start: Some(MIB_SECTORS),
                ..Line::new(0, 1, PartitionType::Gpt(words::root(kind)))
            }],
        }
    }

    /// The partition of the file system.
    pub(crate) fn own(&self) -> usize {
        let mut lines = self.lines.iter();
        let own = lines.position(|line| line.contents == Contents::FileSystem);
        own.unwrap_or(0) // the parser has seen that there is one
    }

    /// The fault of a key in a line of the text.
    pub(crate) fn fault(&self, line: usize, key: &str, problem: Problem) -> Fault {
        Fault {
            file: self.file.clone(),
            line,
            key: key.to_owned(),
            problem,
        }
    }
}

impl Line {
    fn new(line: usize, number: u32, kind: PartitionType) -> Line {
        Line {
            line,
            number,
            start: None,
            size: Size::None,
            kind,
            uuid: None,
            name: String::new(),
            attributes: 0,
            is_bootable: false,
            contents: Contents::Zeroes,
        }
    }
}

impl Label {
    /// The largest number of a partition.
    fn numbers(self) -> u32 {
        match self {
            Label::Gpt(_) => 128,
            Label::Dos(_) => 4,
        }
    }
}

#[cfg(test)]
mod tests;
