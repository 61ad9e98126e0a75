//! What a container is to be.

use std::path::PathBuf;

use uext4_device::Rights;

use crate::{Error, Result, Table};

/// The format of the file that holds the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The bytes of the disk; zeroes are holes.
    #[default]
    Raw,
    /// qcow2, version 3, clusters of 64 KiB.
    Qcow2,
    /// Android's sparse format, version 1.0, blocks of 4 KiB.
    AndroidSparse,
}

/// The type of a GPT partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionKind {
    /// A Linux file system of no special purpose ("Linux filesystem data").
    Linux,
    /// Linux root for x86-64, as the Discoverable Partitions Specification names it.
    RootX86_64,
    /// Linux root for 64-bit ARM.
    RootArm64,
}

/// Where a hash tree goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerityPlace {
    /// A file of its own.
    File(PathBuf),
    /// Behind the file system, on the same disk or partition.
    Append,
}

/// A hash tree for dm-verity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verity {
    /// Where the tree is written.
    pub place: VerityPlace,
    /// Up to 256 bytes before each hashed block; `None`: 32 bytes that follow from the UUID of the
    /// file system.
    pub salt: Option<Vec<u8>>,
}

/// The image that has what a new qcow2 image does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// Its name, as the new image has it: relative names begin in the directory of that. At most
    /// 1023 bytes.
    pub name: String,
    /// Its format: raw or qcow2.
    pub format: Format,
}

/// How the file system is packed; the default is a raw file with nothing else.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format of the file that holds the disk.
    pub format: Format,
    /// A hash tree over the file system; `None` for none.
    pub verity: Option<Verity>,
    /// Partitions, one of which holds the file system and what is behind it.
    pub table: Option<Table>,
    /// The image that has the clusters of a qcow2 image that are not written. Each write is of
    /// whole clusters then.
    pub backing: Option<Backing>,
    /// The users that may read the new files.
    pub rights: Rights,
}

/// Most bytes of the name of a backing file.
pub(crate) const BACKING_NAME_MAX: usize = 1023;
/// Most bytes of a salt.
const SALT_BYTES_MAX: usize = 256;

impl Options {
    /// Refuses what does not go together.
    pub(crate) fn check(&self) -> Result<()> {
        if self.format == Format::AndroidSparse && self.table.is_some() {
            return Err(Error::Refused {
                problem: "an Android sparse image is written into a partition, so it has no \
                          partition table",
                advice: "use the format raw or qcow2, or no partition table",
            });
        }
        if let Some(backing) = &self.backing {
            let is_known = matches!(backing.format, Format::Raw | Format::Qcow2);
            if self.format != Format::Qcow2 || !is_known {
                return Err(Error::Refused {
                    problem: "only a qcow2 image has another one behind it, raw or qcow2",
                    advice: "use the format qcow2",
                });
            }
            if backing.name.is_empty() || backing.name.len() > BACKING_NAME_MAX {
                return Err(Error::Refused {
                    problem: "the name of the image behind a qcow2 image has 1 to 1023 bytes",
                    advice: "put it into the same directory",
                });
            }
        }
        let salt = self.verity.as_ref().and_then(|verity| verity.salt.as_ref());
        if salt.is_some_and(|salt| salt.len() > SALT_BYTES_MAX) {
            return Err(Error::Refused {
                problem: "the salt has more than 256 bytes",
                advice: "use a shorter one",
            });
        }
        Ok(())
    }

    /// Refuses what a block device cannot hold.
    pub(crate) fn check_block_device(&self) -> Result<()> {
        if self.format != Format::Raw {
            return Err(Error::Refused {
                problem: "a block device holds the raw format only",
                advice: "build into a file, or leave the format raw",
            });
        }
        if self.table.is_some() {
            return Err(Error::Refused {
                problem: "a block device gets no partition table here",
                advice: "make the table by sfdisk, and build into a partition",
            });
        }
        Ok(())
    }
}
