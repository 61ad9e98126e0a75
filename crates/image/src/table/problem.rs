//! What is wrong with a table of partitions, and where.

use std::fmt;
use std::io;

/// A line of a table that cannot be followed.
#[derive(Debug)]
pub struct Fault {
    /// The name of the table, as the caller gave it.
    pub file: String,
    /// The number of the line, from 1; 0: none of them.
    pub line: usize,
    /// The key or header; empty: the line as a whole.
    pub key: String,
    /// Why the line cannot be followed.
    pub problem: Problem,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: ", self.file)?,
            line => write!(f, "{}:{line}: ", self.file)?,
        }
        match self.key.as_str() {
            "" => {}
            key => write!(f, "{}: ", key.escape_debug())?,
        }
        write!(f, "{}", self.problem)
    }
}

impl std::error::Error for Fault {}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Text that is not UTF-8.
    #[error("the table is no text in UTF-8")]
    NoText,
    /// A file of no reasonable size.
    #[error("a table of partitions has at most 1 MiB")]
    TooLong,
    /// A header or key that is not known, or has no meaning here.
    #[error("{0}")]
    Refused(&'static str),
    /// A key that needs a value has none.
    #[error("the key has no value; fields are KEY=VALUE")]
    NoValue,
    /// A key or header that is there twice.
    #[error("it is given twice")]
    Twice,
    /// A value of another kind.
    #[error("{value:?} is not {wanted}")]
    Value {
        /// The text that is there.
        value: String,
        /// Name of what is meant, for the message.
        wanted: &'static str,
    },
    /// A number of a partition that is in use or that the table does not have.
    #[error("a table of this kind has partitions 1 to {last}, and each of them once")]
    Number {
        /// The largest number that a table of this kind can have.
        last: u32,
    },
    /// No or several lines for the file system.
    #[error("{count} lines have content=build; it stands in one, for the file system")]
    FileSystems {
        /// How many lines have it.
        count: usize,
    },
    /// A partition that is as large as possible on a disk without an end.
    #[error(
        "without it the partition has all space up to the end of the disk, which has none; give \
         a size, as 64M, or for a GPT the header last-lba:"
    )]
    NoSize,
    /// A partition that begins before the first usable sector.
    #[error("the first usable sector is {first}")]
    BeforeFirst {
        /// Number of the first usable sector.
        first: u64,
    },
    /// Two partitions that share sectors.
    #[error("the partition overlaps with partition {other}")]
    Overlap {
        /// The number of the other one.
        other: u32,
    },
    /// A partition that the disk has no space for.
    #[error("there are no {sectors} free sectors for the partition")]
    NoSpace {
        /// Length of the partition in sectors.
        sectors: u64,
    },
    /// A file that is longer than its partition.
    #[error("the file has {bytes} bytes, and its partition {partition_bytes}")]
    ContentTooLong {
        /// Length of the file in bytes.
        bytes: u64,
        /// Length of the partition in bytes.
        partition_bytes: u64,
    },
    /// A file without bytes, and no size.
    #[error("the file is empty; give the partition a size, as size=1M")]
    ContentEmpty,
    /// Something else than a file.
    #[error("it is no regular file; copy it into one")]
    ContentKind,
    /// The file that is made.
    #[error("it is the file that is to be made")]
    ContentIsOutput,
    /// A file that another program has changed.
    #[error("the file changed while it was copied")]
    ContentChanged,
    /// A file that cannot be read.
    #[error("cannot be read: {0}")]
    Content(io::Error),
    /// A file system that is longer than its partition.
    #[error(
        "the file system, and a hash tree behind it, has {bytes} bytes, and its partition \
         {partition_bytes}"
    )]
    FileSystemTooLong {
        /// Bytes of the file system, and of the hash tree behind it.
        bytes: u64,
        /// Length of the partition in bytes.
        partition_bytes: u64,
    },
}
