//! The file that `uext4 build` makes: its format, hash tree and partition.

use super::mkfs_target;
use crate::failure::{At, Exit, Failure, Result};
use crate::numbers;
use crate::transfer::Progress;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use uext4::device::{Access, BlockDevice, FileDevice};
use uext4_builder::{BuildOptions, BuildReport, Builder, Size};
use uext4_image::{
    Container, Error, Made, Options, PartitionKind, Problem, Table, Verity, VerityPlace,
};

/// Formats of the file.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum FormatWord {
    Raw,
    Qcow2,
    AndroidSparse,
}

/// Partition tables.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum TableWord {
    Gpt,
}

/// Types of the partition.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum KindWord {
    Linux,
    #[value(name = "root-x86-64")]
    RootX86_64,
    RootArm64,
}

/// Endings of disk formats that are not written.
const OTHER_FORMATS: [&str; 7] = ["qcow", "qed", "vdi", "vhd", "vhdx", "vmdk", "vpc"];

/// See the fields.
#[derive(clap::Args)]
pub(super) struct Output {
    /// Format of OUT; default: by its file name extension, .qcow2 or .simg, otherwise raw
    #[arg(long, help_heading = "Output")]
    format: Option<FormatWord>,
    /// Create a hash tree for dm-verity, in this file or appended to the file system
    #[arg(long, value_name = "FILE|append", help_heading = "Output")]
    pub(super) verity: Option<PathBuf>,
    /// Salt of the hash tree, in hex; -: none. Default: derived from the UUID of the file system
    #[arg(
        long,
        value_name = "HEX",
        requires = "verity",
        value_parser = salt,
        allow_hyphen_values = true,
        help_heading = "Output"
    )]
    verity_salt: Option<Salt>,
    /// Create a disk image with the file system in its only partition
    #[arg(long, value_name = "gpt", help_heading = "Output")]
    partition: Option<TableWord>,
    /// Type of the partition
    #[arg(
        long,
        value_name = "TYPE",
        default_value = "linux",
        requires = "partition",
        help_heading = "Output"
    )]
    partition_type: KindWord,
    /// Create a disk image with the partitions of this table: an sfdisk script, with content=build
    /// for the file system and content="FILE" for other partitions
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "partition",
        help_heading = "Output"
    )]
    pub(super) table: Option<PathBuf>,
}

/// Salt of a hash tree, from hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Salt(Vec<u8>);

fn salt(text: &str) -> std::result::Result<Salt, String> {
    let digits = if text == "-" { "" } else { text };
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2);
        let pair = pair.filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()));
        pair.and_then(|pair| u8::from_str_radix(pair, 16).ok())
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    match bytes {
        Some(bytes) if !bytes.is_empty() || text == "-" => Ok(Salt(bytes)),
        _ => Err("a salt has pairs of hex digits, such as 00ff; - is none".into()),
    }
}

impl Output {
    /// The format that is asked for, or that the ending of the name means. A block device holds
    /// the raw format, whatever its name.
    fn format_of(&self, path: &Path) -> Result<FormatWord> {
        let is_device = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        let ending = ending.as_ref().and_then(|ending| ending.to_str());
        match (self.format, ending) {
            (Some(format), _) => Ok(format),
            (None, _) if is_device => Ok(FormatWord::Raw),
            (None, Some("qcow2")) => Ok(FormatWord::Qcow2),
            (None, Some("simg")) => Ok(FormatWord::AndroidSparse),
            (None, Some(ending)) if OTHER_FORMATS.contains(&ending) => {
                let name = path.display();
                let text = format!("{name}: .{ending} means a format that is not written here");
                Err(Failure::usage(text).hint(
                    "`qemu-img convert` makes it of a raw image or qcow2; --format raw keeps this \
                     name",
                ))
            }
            (None, _) => Ok(FormatWord::Raw),
        }
    }

    /// Begins the file at `path`.
    pub(super) fn begin(&self, path: &Path, force: bool) -> Result<Container> {
        let place = self.verity.clone().map(|file| {
            if file.as_os_str() == "append" {
                VerityPlace::Append
            } else {
                VerityPlace::File(file)
            }
        });
        if let Some(VerityPlace::File(file)) = &place {
            mkfs_target::check_free(file, force)?;
        }
        let options = Options {
            format: match self.format_of(path)? {
                FormatWord::Raw => uext4_image::Format::Raw,
                FormatWord::Qcow2 => uext4_image::Format::Qcow2,
                FormatWord::AndroidSparse => uext4_image::Format::AndroidSparse,
            },
            verity: place.map(|place| Verity {
                place,
                salt: self.verity_salt.as_ref().map(|salt| salt.0.clone()),
            }),
            table: self.table(path)?,
            ..uext4_image::Options::default()
        };
        let container = Container::create(path, options).map_err(|error| failure(path, &error))?;
        if !container.is_blank() {
            // Another file may have its name now.
            mkfs_target::check_unused(&*container.device(), force)?;
            uext4::refuse_other_hosts(&container.device()).at(path.display())?;
        }
        Ok(container)
    }

    /// The partitions of the disk at `out`, if it is one.
    fn table(&self, out: &Path) -> Result<Option<Table>> {
        if let Some(file) = &self.table {
            let outputs = [Some(out), self.verity_file()];
            if outputs.iter().flatten().any(|output| is_same(file, output)) {
                let text = format!("{}: it is the file that is to be made", file.display());
                return Err(Failure::usage(text));
            }
            let table = Table::read(file).map_err(|fault| failure(out, &fault.into()))?;
            return Ok(Some(table));
        }
        Ok(self.partition.map(|TableWord::Gpt| {
            Table::one(match self.partition_type {
                KindWord::Linux => PartitionKind::Linux,
                KindWord::RootX86_64 => PartitionKind::RootX86_64,
                KindWord::RootArm64 => PartitionKind::RootArm64,
            })
        }))
    }

    /// The file of the hash tree, if it has one of its own.
    fn verity_file(&self) -> Option<&Path> {
        self.verity.as_deref().filter(|file| *file != "append")
    }

    /// Device and inode numbers of the files that are made, and of those that they replace.
    pub(super) fn identities(&self, out: &Path, container: &Container) -> Vec<(u64, u64)> {
        let old = [Some(out), self.verity_file()].into_iter().flatten();
        let old = old.filter_map(|path| std::fs::metadata(path).ok());
        let old = old.filter(std::fs::Metadata::is_file);
        let old = old.map(|found| (found.dev(), found.ino()));
        old.chain(container.identities()).collect()
    }

    /// The size unless one is given: the smallest, or all of a partition with a size or of a block
    /// device, if nothing comes behind the file system.
    pub(super) fn usual_size(&self, path: &Path, container: &Container) -> Result<Size> {
        let found = std::fs::metadata(path);
        let is_device = found.is_ok_and(|found| found.file_type().is_block_device());
        if self.verity.as_deref().is_some_and(|file| file == "append") {
            return Ok(Size::Min);
        }
        if let Some(bytes) = container.partition_bytes() {
            return Ok(Size::Bytes(bytes));
        }
        if !is_device {
            return Ok(Size::Min);
        }
        let device = FileDevice::open(path, Access::ReadOnly).at(path.display())?;
        Ok(Size::Bytes(device.size_bytes()))
    }

    /// Name of the format, for the report.
    pub(super) fn format(&self, path: &Path) -> &'static str {
        match self.format_of(path) {
            Ok(FormatWord::Raw) | Err(_) => "raw",
            Ok(FormatWord::Qcow2) => "qcow2",
            Ok(FormatWord::AndroidSparse) => "android-sparse",
        }
    }
}

/// Refuses a size that the space for the file system does not have.
pub(super) fn check_size(size: Size, container: &Container) -> Result<()> {
    let space_bytes = container.device().size_bytes();
    match size {
        Size::Bytes(bytes) if bytes > space_bytes => Err(Failure::usage(format!(
            "--size: a file system of {} does not fit: there are {} for it",
            numbers::readable_size(bytes),
            numbers::readable_size(space_bytes),
        ))),
        _ => Ok(()),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path| {
        let found = std::fs::metadata(path).ok();
        found.map(|found| (found.dev(), found.ino()))
    };
    identity(one).is_some_and(|there| identity(other) == Some(there))
}

/// The builder of the file system in a container.
pub(super) fn builder(
    container: &Container,
    options: BuildOptions,
) -> std::result::Result<Builder, uext4_builder::Error> {
    if container.is_blank() {
        Builder::blank(container.device(), options)
    } else {
        Builder::on(container.device(), options)
    }
}

/// Completes the file around a file system.
pub(super) fn finish(
    path: &Path,
    container: Container,
    report: &BuildReport,
    visible: bool,
) -> Result<Made> {
    let size_bytes = report.geometry.size_bytes();
    let bar = visible.then(|| Progress::new(|| size_bytes));
    let mut before = 0;
    let made = container.finish(size_bytes, report.superblock.uuid, |progress| {
        if let Some(bar) = &bar {
            bar.of(progress.total_bytes);
            bar.add(progress.bytes - before);
        }
        before = progress.bytes;
        if uext4_fuse::is_interrupted() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    made.map_err(|error| failure(path, &error))
}

fn failure(path: &Path, error: &Error) -> Failure {
    match error {
        Error::Refused { .. } => Failure::usage(error.to_string()),
        Error::Device(uext4::device::Error::Busy { .. }) => {
            Failure::new(Exit::Busy, error.to_string())
        }
        Error::Device(_) => Failure::new(Exit::Failed, format!("{}: {error}", path.display())),
        Error::Table(fault) => match fault.problem {
            Problem::Content(_) | Problem::ContentChanged => {
                Failure::new(Exit::Failed, error.to_string())
            }
            _ => Failure::usage(error.to_string()),
        },
        Error::File { .. } | Error::Cancelled => Failure::new(Exit::Failed, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn salts() {
        assert_eq!(salt("00fF"), Ok(Salt(vec![0, 255])));
        assert_eq!(salt("-"), Ok(Salt(Vec::new())));
        for bad in ["", "0", "0x", "+f", "zz", "é"] {
            assert!(salt(bad).is_err(), "{bad}");
        }
    }
}
