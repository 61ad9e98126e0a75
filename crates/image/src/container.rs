//! The order in which a container is made.
//!
//! ```text
//! create    a temporary file beside the final place; or a block device as it is
//! device    the caller makes the file system here
//! finish    1 hash tree, in a file of its own or behind the file system
//!           2 files of other partitions, then the partition table
//!           3 tables of qcow2, or conversion to the sparse format
//!           4 names: the hash tree's first, then the image's
//! ```

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use uext4_device::{Access, BlockDevice, FileDevice, NewFile, Rights, Window};
use uext4_sync::Arc;

use crate::disk::{Disk, FileSystem};
use crate::progress::Meter;
use crate::verity::Job;
use crate::{
    Error, Format, Options, Progress, Qcow2, Result, Verity, VerityPlace, identity, sparse, verity,
};

/// Most bytes of a disk in qcow2 with a table, which says where partitions begin: the places of
/// clusters take 1 GiB of memory then.
const QCOW2_MAX: u64 = 16 << 40;
/// Most bytes of a disk: offsets in files have 63 bits.
const SIZE_MAX: u64 = i64::MAX.cast_unsigned();

/// A file or block device that gets a file system. Dropped before [`Container::finish`] it leaves
/// no file.
///
/// ```
/// use std::ops::ControlFlow;
/// use uext4_device::BlockDevice;
/// use uext4_image::{Container, Format, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("disk.qcow2");
/// let format = Format::Qcow2;
/// let container = Container::create(&path, Options { format, ..Options::default() })?;
/// let device = container.device();
/// device.write_at(4096, b"what a builder or mkfs writes")?;
/// let (size_bytes, uuid) = (1 << 20, [7; 16]);
/// container.finish(size_bytes, uuid, |_progress| ControlFlow::Continue(()))?;
/// assert!(std::fs::read(&path)?.starts_with(b"QFI"));
/// # Ok(())
/// # }
/// ```
pub struct Container {
    options: Options,
    path: PathBuf,
    store: Store,
    /// The part of the disk for the file system and what is behind it.
    space: Arc<dyn BlockDevice>,
    /// A file for the hash tree alone.
    tree_file: Option<NewFile>,
    /// The partitions around the file system.
    disk: Option<Disk>,
}

enum Store {
    Raw(Arc<NewFile>),
    Qcow2(Arc<Qcow2>),
    Device,
}

/// What was made around the file system.
#[derive(Clone, Debug)]
pub struct Made {
    /// Bytes of the disk that a machine sees.
    pub disk_bytes: u64,
    /// The hash tree, if one was asked for.
    pub verity: Option<Tree>,
    /// The partitions, in the order of the table.
    pub partitions: Vec<Partition>,
    /// The identity of the disk, as tools print it: a GUID, or `0x` and eight digits for an MBR;
    /// empty without partitions.
    pub disk_id: String,
}

/// A hash tree: what `veritysetup` needs to open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// SHA-256 of the block at the root, with the salt.
    pub root_hash: [u8; 32],
    /// Up to 256 bytes.
    pub salt: Vec<u8>,
    /// The UUID in its superblock.
    pub uuid: [u8; 16],
    /// Blocks of 4 KiB that it covers.
    pub data_blocks: u64,
    /// Its superblock, in bytes from the start of its file, or of the file system it is behind.
    pub start_bytes: u64,
}

/// A partition. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, from 1.
    pub number: u32,
    /// Its start on the disk.
    pub start_bytes: u64,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// Its identity, as `root=PARTUUID=` of Linux names it: the GUID, or the identity of the disk
    /// and the number for an MBR.
    pub uuid: String,
    /// Whether it holds the file system.
    pub has_file_system: bool,
}

impl Container {
    /// A container at this path: a new file, which gets its name at the end and replaces one of
    /// that name, or a block device, which is written at once.
    ///
    /// # Errors
    /// Options that do not go together, or a path that cannot be written.
    pub fn create(path: &Path, options: Options) -> Result<Container> {
        options.check()?;
        let tree_file = tree_file(path, &options)?;
        let disk = disk(path, &options)?;
        let there = std::fs::metadata(path).ok();
        if let Some(there) = there.filter(|there| !there.is_file()) {
            options.check_block_device()?;
            let space = Arc::new(open_device(path, &there)?);
            return Ok(Container {
                options,
                path: path.to_path_buf(),
                store: Store::Device,
                space,
                tree_file,
                disk,
            });
        }
        let file = new_file(path, options.rights)?;
        let (store, whole): (Store, Arc<dyn BlockDevice>) = match options.format {
            Format::Raw | Format::AndroidSparse => {
                let file = Arc::new(file);
                (Store::Raw(file.clone()), file)
            }
            Format::Qcow2 => {
                let whole = Arc::new(Qcow2::over(file, options.backing.clone()));
                (Store::Qcow2(whole.clone()), whole)
            }
        };
        let space: Arc<dyn BlockDevice> = match disk.as_ref().map(Disk::own_bytes) {
            Some((start, size)) => Arc::new(Window::new(whole, start, size)?),
            None => whole,
        };
        Ok(Container {
            options,
            path: path.to_path_buf(),
            store,
            space,
            tree_file,
            disk,
        })
    }

    /// Device and inode numbers of the new files, which may be in a directory that is copied.
    pub fn identities(&self) -> Vec<(u64, u64)> {
        let store = match &self.store {
            Store::Raw(file) => file.identity().ok(),
            Store::Qcow2(disk) => disk.identity().ok(),
            Store::Device => None,
        };
        let tree_file = self.tree_file.as_ref();
        let tree_file = tree_file.and_then(|file| file.identity().ok());
        store.into_iter().chain(tree_file).collect()
    }

    /// The device for the file system. It may be larger than the file system.
    pub fn device(&self) -> Arc<dyn BlockDevice> {
        self.space.clone()
    }

    /// The bytes of the file system's partition, if the table gives them.
    pub fn partition_bytes(&self) -> Option<u64> {
        self.disk.as_ref().and_then(Disk::given_bytes)
    }

    /// Gives a new raw file, which is empty, the content of another one, if the file system can
    /// share it. False if not, and nothing was written.
    pub fn share_content_of(&self, other: &File) -> bool {
        match &self.store {
            Store::Raw(file) => file.share_content_of(other),
            Store::Qcow2(_) | Store::Device => false,
        }
    }

    /// Whether the device reads as zeroes where nothing was written: a new file does, a block
    /// device need not.
    pub fn is_blank(&self) -> bool {
        !matches!(self.store, Store::Device)
    }

    /// Adds what the options ask for to a file system of `size_bytes` with this UUID, which is
    /// complete, and gives the files their names. `watch` learns of progress and may end the work
    /// by `Break`.
    ///
    /// # Errors
    /// A size that a format does not have, errors of the files, [`Error::Cancelled`]. No file has
    /// its final name then, unless the last renaming itself fails: the hash tree's comes first.
    pub fn finish(
        self,
        size_bytes: u64,
        uuid: [u8; 16],
        mut watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Made> {
        let verity = self.options.verity.as_ref();
        let tree_bytes = verity.map_or(Ok(0), |_| verity::tree_bytes(size_bytes))?;
        let is_behind = verity.is_some_and(|verity| verity.place == VerityPlace::Append);
        let space_bytes = size_bytes + if is_behind { tree_bytes } else { 0 };
        let placed = self.disk.as_ref().map(|disk| disk.lay_out(space_bytes));
        let placed = placed.transpose()?;
        if space_bytes > self.space.size_bytes() {
            return Err(Error::Refused {
                problem: "the device has no space for the hash tree behind the file system",
                advice: "use a smaller file system, or a file for the tree",
            });
        }
        let mut total_bytes = verity.map_or(0, |_| size_bytes);
        total_bytes += self.disk.as_ref().map_or(0, Disk::copied_bytes);
        if self.options.format == Format::AndroidSparse {
            sparse::blocks(space_bytes)?;
            total_bytes += space_bytes;
        }
        let mut meter = Meter::new(total_bytes, &mut watch);
        meter.add(0)?; // an end that was asked for meanwhile
        let hashed = verity.map(|asked| self.hash(asked, size_bytes, uuid, &mut meter));
        let mut made = Made {
            disk_bytes: space_bytes,
            verity: hashed.transpose()?,
            partitions: Vec::new(),
            disk_id: String::new(),
        };
        if let (Some(disk), Some(placed), Some(whole)) = (&self.disk, placed, self.whole()) {
            let file_system = FileSystem {
                bytes: space_bytes,
                uuid,
                root_hash: made.verity.as_ref().map(|tree| tree.root_hash),
            };
            let finished = disk.finish(&*whole, &file_system, &placed, &mut meter)?;
            (made.partitions, made.disk_id) = finished;
            made.disk_bytes = disk.bytes(&placed);
        }
        self.keep(made.disk_bytes, tree_bytes, &mut meter)?;
        Ok(made)
    }

    /// The whole disk, if it is a new file.
    fn whole(&self) -> Option<Arc<dyn BlockDevice>> {
        match &self.store {
            Store::Raw(file) => Some(file.clone()),
            Store::Qcow2(disk) => Some(disk.clone()),
            Store::Device => None,
        }
    }

    fn hash(
        &self,
        asked: &Verity,
        size_bytes: u64,
        uuid: [u8; 16],
        meter: &mut Meter<'_>,
    ) -> Result<Tree> {
        let salt = asked.salt.clone();
        let salt = salt.unwrap_or_else(|| identity::salt(uuid).to_vec());
        let job = Job {
            data: &*self.space,
            data_bytes: size_bytes,
            out: match &self.tree_file {
                Some(file) => file,
                None => &*self.space,
            },
            at: if self.tree_file.is_some() {
                0
            } else {
                size_bytes
            },
            salt: &salt,
            uuid: identity::uuid("verity", uuid).into_bytes(),
        };
        Ok(Tree {
            root_hash: job.run(meter)?,
            uuid: job.uuid,
            data_blocks: size_bytes / verity::BLOCK,
            start_bytes: job.at,
            salt: salt.clone(),
        })
    }

    /// Completes the file, and gives both their names.
    fn keep(&self, disk_bytes: u64, tree_bytes: u64, meter: &mut Meter<'_>) -> Result<()> {
        let converted = match (&self.store, self.options.format) {
            (Store::Raw(raw), Format::AndroidSparse) => {
                let out = new_file(&self.path, self.options.rights)?;
                let bytes = sparse::convert(raw, disk_bytes, &out, meter)?;
                Some((out, bytes))
            }
            _ => None,
        };
        if let Some(file) = &self.tree_file {
            keep(file, tree_bytes)?;
        }
        match (&self.store, converted) {
            (_, Some((out, bytes))) => keep(&out, bytes),
            (Store::Raw(file), None) => keep(file, disk_bytes),
            (Store::Qcow2(disk), None) => disk.keep(disk_bytes),
            (Store::Device, None) => Ok(self.space.flush()?),
        }
    }
}

/// The partitions that are asked for. Their files are none that are made.
fn disk(path: &Path, options: &Options) -> Result<Option<Disk>> {
    let Some(table) = options.table.clone() else {
        return Ok(None);
    };
    let mut outputs = vec![path];
    if let Some(VerityPlace::File(file)) = options.verity.as_ref().map(|asked| &asked.place) {
        outputs.push(file);
    }
    let disk = Disk::open(table, &outputs)?;
    if options.format == Format::Qcow2 && disk.least_bytes() > QCOW2_MAX {
        return Err(Error::Refused {
            problem: "a qcow2 with a table has at most 16 TiB",
            advice: "use the format raw",
        });
    }
    Ok(Some(disk))
}

/// Opens what is no regular file at a path, if that is a block device and still the one `there`.
fn open_device(path: &Path, there: &Metadata) -> Result<FileDevice> {
    let failed = |error| Error::File {
        path: path.display().to_string(),
        error,
    };
    uext4_device::refuse_planted(path).map_err(failed)?;
    let device = FileDevice::open(path, Access::ReadWrite)?;
    uext4_device::refuse_swapped(path, there, &device).map_err(failed)?;
    Ok(device)
}

fn new_file(path: &Path, rights: Rights) -> Result<NewFile> {
    let created = match rights {
        Rights::PassedOn => NewFile::create(path, SIZE_MAX),
        Rights::Private => NewFile::create_private(path, SIZE_MAX),
    };
    created.map_err(|error| Error::File {
        path: path.display().to_string(),
        error,
    })
}

fn keep(file: &NewFile, size_bytes: u64) -> Result<()> {
    file.keep(size_bytes).map_err(|error| Error::File {
        path: file.describe(),
        error,
    })
}

/// A new file for the hash tree, if it has one. It is not the image, and no device: it gets its
/// name by a rename.
fn tree_file(image: &Path, options: &Options) -> Result<Option<NewFile>> {
    let Some(Verity {
        place: VerityPlace::File(path),
        ..
    }) = &options.verity
    else {
        return Ok(None);
    };
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(Error::Refused {
            problem: "the hash tree is to replace something that is no regular file",
            advice: "name a file",
        });
    }
    if directory_and_name(path) == directory_and_name(image) {
        return Err(Error::Refused {
            problem: "the hash tree is to have the name of the image",
            advice: "name another file, or append the tree to the image",
        });
    }
    new_file(path, options.rights).map(Some)
}

/// The directory of a file, without links, and its name there.
fn directory_and_name(path: &Path) -> (PathBuf, Option<&OsStr>) {
    let directory = match path.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    };
    let directory = directory.canonicalize();
    let directory = directory.unwrap_or_else(|_| path.to_path_buf()); // the file cannot be made
    (directory, path.file_name())
}
