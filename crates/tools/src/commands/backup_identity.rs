//! What tells whether a copy is as a backup left it.
//!
//! A qcow2 image needs the files behind it, so its identity has theirs.

use crate::failure::{At, Exit, Failure, Result};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use uext4_fuse::{CopyFormat, CopyIdentity, FileIdentity};
use uext4_image::{Backing, Format, samples_of};

/// Maximum number of files of a copy.
const FILES_MAX: usize = 64;

/// The files of a copy: its own, and those behind it, in their order.
pub(super) struct Files(Vec<(PathBuf, File)>);

impl Files {
    /// Those of a copy of this format.
    pub(super) fn open(path: &Path, format: CopyFormat) -> Result<Self> {
        // Names of files behind it begin at its directory.
        let mut path = path.canonicalize().at(path.display())?;
        let mut files = Vec::new();
        let mut format = format;
        loop {
            if files.len() == FILES_MAX {
                let text = format!("{}: more than {FILES_MAX} files", path.display());
                return Err(Failure::new(Exit::Failed, text));
            }
            let file = open(&path)?;
            let behind = match format {
                CopyFormat::Raw => None,
                CopyFormat::Qcow2 => Backing::of_qcow2(&file).at(path.display())?,
            };
            let own = path.clone();
            files.push((path, file));
            let Some(behind) = behind else {
                return Ok(Self(files));
            };
            let directory = own.parent().unwrap_or(Path::new("/"));
            path = directory.join(&behind.name);
            format = format_of(behind.format);
        }
    }

    /// Whether the file of a path is one of them.
    pub(super) fn has(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|there| self.index_of(&there).is_some())
    }

    fn index_of(&self, there: &Metadata) -> Option<usize> {
        self.0.iter().position(|(_, file)| {
            let own = file.metadata();
            own.is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
        })
    }

    /// Refuses files one of which was replaced since they were opened.
    pub(super) fn refuse_replaced(&self, out: &Path) -> Result<()> {
        for (nr, (path, _)) in self.0.iter().enumerate() {
            let there = std::fs::metadata(path).at(path.display())?;
            if self.index_of(&there) != Some(nr) {
                let text = format!(
                    "{}: was replaced meanwhile, so that {} is of no use",
                    path.display(),
                    out.display()
                );
                return Err(Failure::new(Exit::Failed, text));
            }
        }
        Ok(())
    }

    /// What tells their states apart.
    pub(super) fn identities(&self) -> Result<Vec<FileIdentity>> {
        let identities = self.0.iter().map(|(path, file)| {
            let identity = identity_of_file(file);
            identity.at(path.display())
        });
        identities.collect()
    }
}

/// The identity of a copy that is complete, if its file is still that of these numbers. `None` if
/// it is no regular file, which alone tells whether it was written since.
pub(super) fn identity(
    (out, made): (&Path, &[(u64, u64)]),
    uuid: [u8; 16],
    disk_bytes: u64,
    format: Format,
) -> Option<CopyIdentity> {
    let format = format_of(format);
    let files = Files::open(out, format).ok()?;
    let own = files.0.first()?.1.metadata().ok()?;
    if !made.contains(&(own.dev(), own.ino())) {
        return None;
    }
    Some(CopyIdentity {
        uuid: hex(&uuid),
        disk_bytes,
        format,
        files: files.identities().ok()?,
    })
}

fn identity_of_file(file: &File) -> io::Result<FileIdentity> {
    let found = file.metadata()?;
    Ok(FileIdentity {
        size_bytes: found.len(),
        modified: (found.mtime(), found.mtime_nsec()),
        samples: hex(&samples_of(file)?),
    })
}

/// The first difference between two states of files, in words.
pub(super) fn difference(found: &[FileIdentity], wanted: &[FileIdentity]) -> Option<String> {
    if found.len() != wanted.len() {
        return Some("it has other files behind it".into());
    }
    for (nr, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let whose = if nr == 0 { "it" } else { "a file behind it" };
        if found.size_bytes != wanted.size_bytes {
            return Some(format!("the size of {whose} is another"));
        }
        if found.samples != wanted.samples {
            return Some(format!("the content of {whose} is another"));
        }
        if found.modified != wanted.modified {
            return Some(format!("{whose} was written since"));
        }
    }
    None
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn format_of(format: Format) -> CopyFormat {
    match format {
        Format::Qcow2 => CopyFormat::Qcow2,
        Format::Raw | Format::AndroidSparse => CopyFormat::Raw,
    }
}

/// A regular file.
pub(super) fn open(path: &Path) -> Result<File> {
    let found = std::fs::metadata(path).at(path.display())?;
    if !found.is_file() {
        let text = format!("{}: only a copy in a file can be continued", path.display());
        return Err(Failure::usage(text));
    }
    File::open(path).at(path.display())
}
