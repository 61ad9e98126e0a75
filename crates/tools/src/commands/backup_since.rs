//! `uext4 backup --since`: a copy that continues an earlier one.
//!
//! Mechanism: the server has a bit for each granule that was written since the earlier copy. These
//! granules, and those that a replay changed in one of both copies, are read from the snapshot. A
//! raw copy is made of the earlier one, whose content is shared where the file system can do that,
//! and replaces it when it is complete; a qcow2 copy has the earlier one behind it.

use super::backup_copy::{Unit, copy_parts};
use super::backup_identity::{Files, difference, hex, open};
use super::backup_parts::Parts;
use super::backup_source::Source;
use crate::failure::{At, Exit, Failure, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use uext4::device::{Error as DeviceError, SnapshotEnd, data_from};
use uext4_fuse::{CopyFormat, Earlier, FileIdentity, Remote, is_interrupted};
use uext4_image::{Backing, Container, Format};
use uext4_num::clamp_usize;

/// Bytes that are copied at a time.
const STEP_BYTES: u64 = 1 << 20;

/// The earlier copy.
pub(super) struct Base {
    path: PathBuf,
    file: File,
    role: Role,
}

/// An earlier copy that is as the backup left it.
pub(super) struct Checked {
    base: Base,
    files: Files,
    /// Those of the files when they were checked.
    identities: Vec<FileIdentity>,
    /// What a new image says of it.
    backing: Option<Backing>,
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
        Ok(Self {
            path: out.to_owned(),
            file,
            role: Role::Updated,
        })
    }

    /// A copy behind a new qcow2 image.
    pub(super) fn behind_qcow2(base: &Path) -> Result<Self> {
        let file = open(base)?;
        let name = base.canonicalize().at(base.display())?;
        if name.to_str().is_none() {
            let text = format!(
                "{}: a qcow2 image names files in UTF-8 only",
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
    fn behind(&self, out: &Path, format: CopyFormat) -> Backing {
        let path = self
            .path
            .canonicalize()
            .unwrap_or_else(|_| self.path.clone());
        let directory = match out.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        // By the name of a link the image would have another directory.
        let is_beside =
            !out.is_symlink() && directory.canonicalize().ok().as_deref() == path.parent();
        let name = match path.file_name().filter(|_| is_beside) {
            // A colon in a name would be the end of a protocol.
            Some(name) => format!("./{}", name.to_string_lossy()),
            None => path.display().to_string(),
        };
        let format = match format {
            CopyFormat::Raw => Format::Raw,
            CopyFormat::Qcow2 => Format::Qcow2,
        };
        Backing { name, format }
    }

    /// Refuses a copy that the identifier does not belong to, and one that needs what OUT replaces.
    pub(super) fn check(
        self,
        snapshot: &Remote,
        (mount, out): (&str, &Path),
        uuid: [u8; 16],
    ) -> Result<Checked> {
        let wanted = &earlier(snapshot, mount)?.copy;
        let path = self.path.display();
        if self.is_updated() && wanted.format == CopyFormat::Qcow2 {
            let text = format!("{path}: a qcow2 image is not updated");
            return Err(Failure::usage(text).hint("--base names it, and OUT a new qcow2 image"));
        }
        let files = Files::open(&self.path, wanted.format)?;
        if !self.is_updated() && files.has(out) {
            let text = format!("{path}: OUT is to refer to it, so OUT is none of its files");
            return Err(Failure::usage(text));
        }
        if !self.is_updated() {
            // A backup that updates it has it locked until the new content is there.
            files.lock()?;
        }
        let identities = files.identities()?;
        let problem = if hex(&uuid) == wanted.uuid {
            difference(&identities, &wanted.files)
        } else {
            Some("the mount has another file system now".into())
        };
        if let Some(problem) = problem {
            let text = format!("{path}: is not the copy that this backup made: {problem}");
            let failure = Failure::new(Exit::Failed, text);
            return Err(failure.hint("a copy without --since is complete"));
        }
        let backing = (!self.is_updated()).then(|| self.behind(out, wanted.format));
        Ok(Checked {
            base: self,
            files,
            identities,
            backing,
        })
    }
}

impl Checked {
    /// What a new qcow2 image says of it.
    pub(super) fn backing(&self) -> Option<Backing> {
        self.backing.clone()
    }

    /// The files that are behind OUT.
    pub(super) fn behind(&self) -> &[FileIdentity] {
        match self.base.role {
            Role::Updated => &[],
            Role::Behind => &self.identities,
        }
    }

    /// Refuses a copy to which OUT refers if it was written or replaced meanwhile.
    pub(super) fn refuse_changed(&self, out: &Path) -> Result<()> {
        match self.base.role {
            Role::Updated => Ok(()),
            Role::Behind => self.files.refuse_changed(out, &self.identities),
        }
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
        match self.base.role {
            Role::Behind => copy_parts(source, container, &parts, Unit::Cluster),
            Role::Updated => {
                self.base.fill(container)?;
                copy_parts(source, container, &parts, Unit::Byte)
            }
        }
    }
}

impl Base {
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
pub(super) fn send_differences(snapshot: &Remote, source: &Source) -> uext4::Result<()> {
    if let Some(noted) = snapshot.noted() {
        let granules: Vec<u64> = source.granules(noted.granule_bytes).collect();
        snapshot.differs(&granules)?;
    }
    Ok(())
}
