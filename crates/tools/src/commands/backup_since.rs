//! `uext4 backup --since`: a copy that continues an earlier one.
//!
//! Mechanism: the server has a bit for each granule that was written since the earlier copy. These
//! granules, and those that a replay changed in one of both copies, are read from the snapshot. A
//! raw copy is made of the earlier one, whose content is shared where the file system can do that,
//! and replaces it when it is complete; a qcow2 copy has the earlier one behind it.

use super::backup_copy::{Unit, copy_parts};
use super::backup_parts::Parts;
use super::backup_source::Source;
use crate::failure::{At, Exit, Failure, Result};
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use uext4::device::{Error as DeviceError, SnapshotEnd, data_from};
use uext4_fuse::{CopyIdentity, Earlier, Remote, is_interrupted};
use uext4_image::{Backing, Container, Format, samples_of};
use uext4_num::clamp_usize;

/// Bytes that are copied at a time.
const STEP_BYTES: u64 = 1 << 20;
/// Bytes at the begin of a qcow2 image by which it is known.
const QCOW2_MAGIC: &[u8; 4] = b"QFI\xFB";

/// The earlier copy.
pub(super) struct Base {
    path: PathBuf,
    file: File,
    role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The new copy replaces it.
    Updated,
    /// It is behind the new copy.
    Behind,
}

impl Base {
    /// A raw copy that is updated.
    pub(super) fn updated(out: &Path) -> Result<Self> {
        let file = open(out)?;
        if is_qcow2(&file) {
            let text = format!("{}: a qcow2 image is not updated", out.display());
            return Err(Failure::usage(text).hint("--base names it, and OUT a new qcow2 image"));
        }
        Ok(Self {
            path: out.to_owned(),
            file,
            role: Role::Updated,
        })
    }

    /// A copy behind a new qcow2 image.
    pub(super) fn behind_qcow2(base: &Path, out: &Path) -> Result<Self> {
        let file = open(base)?;
        let name = base.canonicalize().at(base.display())?;
        if name.to_str().is_none() {
            let text = format!(
                "{}: a qcow2 image names files in UTF-8 only",
                base.display()
            );
            return Err(Failure::usage(text));
        }
        let there = std::fs::metadata(out).ok();
        let own = file.metadata().at(base.display())?;
        if there.is_some_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
            let text = format!(
                "{}: OUT is to refer to it, so it cannot be OUT",
                base.display()
            );
            return Err(Failure::usage(text));
        }
        Ok(Self {
            path: base.to_owned(),
            file,
            role: Role::Behind,
        })
    }

    pub(super) fn is_updated(&self) -> bool {
        self.role == Role::Updated
    }

    /// What a new qcow2 image says of it: the name alone if both are in one directory.
    pub(super) fn behind(&self, out: &Path, format: Format) -> Option<Backing> {
        if format != Format::Qcow2 {
            return None;
        }
        let path = self
            .path
            .canonicalize()
            .unwrap_or_else(|_| self.path.clone());
        let directory = match out.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let is_beside = directory.canonicalize().ok().as_deref() == path.parent();
        let name = match path.file_name().filter(|_| is_beside) {
            // A colon in a name would be the end of a protocol.
            Some(name) => format!("./{}", name.to_string_lossy()),
            None => path.display().to_string(),
        };
        let format = if is_qcow2(&self.file) {
            Format::Qcow2
        } else {
            Format::Raw
        };
        Some(Backing { name, format })
    }

    /// Refuses a copy that the identifier does not belong to.
    pub(super) fn check(&self, snapshot: &Remote, mount: &str, uuid: [u8; 16]) -> Result<()> {
        let earlier = earlier(snapshot, mount)?;
        let found =
            identity_of(&self.file, uuid, earlier.copy.disk_bytes).at(self.path.display())?;
        let wanted = &earlier.copy;
        let problem = if found.uuid != wanted.uuid {
            "the mount has another file system now"
        } else if found.file_bytes != wanted.file_bytes {
            "its size is another"
        } else if found.samples != wanted.samples {
            "its content is another"
        } else if found.modified != wanted.modified {
            "it was written since"
        } else {
            return Ok(());
        };
        let text = format!(
            "{}: is not the copy that this backup made: {problem}",
            self.path.display()
        );
        Err(Failure::new(Exit::Failed, text).hint("a copy without --since is complete"))
    }

    /// Makes the new copy; returns how many bytes were read.
    pub(super) fn continue_to(
        &self,
        container: &Container,
        snapshot: &Remote,
        source: &Source,
    ) -> uext4::Result<u64> {
        let malformed = SnapshotEnd::Malformed;
        let earlier = snapshot.earlier();
        let earlier = earlier.ok_or(DeviceError::SnapshotEnded(malformed))?;
        let parts = Parts::of(snapshot, earlier, source)?;
        match self.role {
            Role::Behind => copy_parts(source, container, &parts, Unit::Cluster),
            Role::Updated => {
                self.fill(container)?;
                copy_parts(source, container, &parts, Unit::Byte)
            }
        }
    }

    /// Gives a new raw file the content of the earlier copy.
    fn fill(&self, container: &Container) -> uext4::Result<()> {
        if container.share_content_of(&self.file) {
            return Ok(());
        }
        let failed = |at, error| DeviceError::io("read", at, STEP_BYTES, error);
        let (target, mut at) = (container.device(), 0);
        let mut bytes = vec![0; clamp_usize(STEP_BYTES)];
        while let Some(data) = data_from(&self.file, at).map_err(|error| failed(at, error))? {
            at = data.start;
            while at < data.end && !is_interrupted() {
                let len = STEP_BYTES.min(data.end - at);
                let step = &mut bytes[..clamp_usize(len)];
                let read = self.file.read_exact_at(step, at);
                read.map_err(|error| failed(at, error))?;
                target.write_at(at, step)?;
                at += len;
            }
            if is_interrupted() {
                break;
            }
        }
        Ok(())
    }
}

/// What the server knows of the earlier copy; that of another user might say anything.
fn earlier<'a>(snapshot: &'a Remote, mount: &str) -> Result<&'a Earlier> {
    let earlier = snapshot.earlier().filter(|_| snapshot.is_trusted());
    earlier.ok_or_else(|| {
        let text = format!("{mount}: --since needs a server of this user");
        Failure::new(Exit::Failed, text).hint("run the backup as that user")
    })
}

/// Tells the server where the replay changes this copy.
pub(super) fn tell_differences(snapshot: &Remote, source: &Source) -> uext4::Result<()> {
    if let Some(noted) = snapshot.noted() {
        let granules: Vec<u64> = source.granules(noted.granule_bytes).collect();
        snapshot.differs(&granules)?;
    }
    Ok(())
}

/// The identity of a copy that is complete. `None` if it is no regular file, which alone tells
/// whether it was written since.
pub(super) fn identity(out: &Path, uuid: [u8; 16], disk_bytes: u64) -> Option<CopyIdentity> {
    let file = open(out).ok()?;
    identity_of(&file, uuid, disk_bytes).ok()
}

fn identity_of(file: &File, uuid: [u8; 16], disk_bytes: u64) -> std::io::Result<CopyIdentity> {
    let found: Metadata = file.metadata()?;
    Ok(CopyIdentity {
        uuid: hex(&uuid),
        disk_bytes,
        file_bytes: found.len(),
        modified: (found.mtime(), found.mtime_nsec()),
        samples: hex(&samples_of(file)?),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A regular file.
fn open(path: &Path) -> Result<File> {
    let found = std::fs::metadata(path).at(path.display())?;
    if !found.is_file() {
        let text = format!("{}: only a copy in a file can be continued", path.display());
        return Err(Failure::usage(text));
    }
    File::open(path).at(path.display())
}

fn is_qcow2(file: &File) -> bool {
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).is_ok() && &magic == QCOW2_MAGIC
}
