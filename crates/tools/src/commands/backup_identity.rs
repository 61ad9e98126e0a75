//! What tells whether a copy is as a backup left it.
//!
//! A qcow2 image needs the files behind it, so its identity has theirs.

use crate::failure::{At, Exit, Failure, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
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

    /// Keeps other programs that respect locks from writing or replacing the files until they are
    /// closed.
    pub(super) fn lock(&self) -> Result<()> {
        for (path, file) in &self.0 {
            match flock(file, FlockOperation::NonBlockingLockShared) {
                // Some network file systems have no locks.
                Err(Errno::NOLCK | Errno::NOTSUP) | Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let text = format!(
                        "{}: another program may write or replace it now, so that no copy refers \
                         to it",
                        path.display()
                    );
                    return Err(Failure::new(Exit::Busy, text));
                }
                Err(errno) => return Err(io::Error::from(errno)).at(path.display()),
            }
        }
        Ok(())
    }

    /// Refuses files one of which was replaced or written since they had these identities.
    pub(super) fn refuse_changed(&self, out: &Path, wanted: &[FileIdentity]) -> Result<()> {
        self.refuse_replaced(out)?;
        let Some((path, _)) = self.0.first() else {
            return Ok(());
        };
        let changed = difference(&self.identities()?, wanted);
        changed.map_or(Ok(()), |problem| {
            let (path, out) = (path.display(), out.display());
            let text = format!("{path}: changed meanwhile, so that {out} is of no use: {problem}");
            Err(Failure::new(Exit::Failed, text))
        })
    }

    fn refuse_replaced(&self, out: &Path) -> Result<()> {
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

/// The identity of a copy that is complete, if its file is still that of these numbers; `behind`
/// has those of the files behind it. `None` if it is no regular file, which alone tells whether it
/// was written since.
pub(super) fn identity(
    (out, made): (&Path, &[(u64, u64)]),
    uuid: [u8; 16],
    disk_bytes: u64,
    format: Format,
    behind: &[FileIdentity],
) -> Option<CopyIdentity> {
    let file = open(out).ok()?;
    let own = file.metadata().ok()?;
    if !made.contains(&(own.dev(), own.ino())) || behind.len() >= FILES_MAX {
        return None;
    }
    let own = identity_of_file(&file).ok()?;
    Some(CopyIdentity {
        uuid: hex(&uuid),
        disk_bytes,
        format: format_of(format),
        files: std::iter::once(own).chain(behind.iter().cloned()).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use uext4::device::{Access, FileDevice};

    /// A base as a backup has it while it makes an image that refers to it.
    #[test]
    fn files_behind_an_image_are_locked_and_compared() {
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join("base");
        std::fs::write(&path, [7; 5000]).expect("there is room");
        let open = || Files::open(&path, CopyFormat::Raw).expect("it is there");
        let update = || FileDevice::open(&path, Access::ReadWrite);
        let updated = update().expect("nothing has it");
        assert!(open().lock().is_err(), "it is updated");
        drop(updated);
        let (files, other) = (open(), open());
        files.lock().expect("nothing has it");
        other.lock().expect("two images may refer to it");
        drop(other);
        assert!(update().is_err(), "an image refers to it");
        let checked = files.identities().expect("they can be read");
        let out = Path::new("out");
        files.refuse_changed(out, &checked).expect("it is the same");
        let writer = File::options().write(true).open(&path);
        let writer = writer.expect("it respects no lock");
        writer.write_all_at(&[8], 0).expect("there is room");
        assert!(files.refuse_changed(out, &checked).is_err());
        drop(files);
        assert!(update().is_ok());
    }

    /// An identity has the files behind it as they were when they were checked.
    #[test]
    fn an_identity_has_what_was_checked() {
        let dir = tempfile::tempdir().expect("there is room");
        let (base, out) = (dir.path().join("base"), dir.path().join("out"));
        std::fs::write(&base, [7; 5000]).expect("there is room");
        std::fs::write(&out, [8; 5000]).expect("there is room");
        let files = Files::open(&base, CopyFormat::Raw).expect("it is there");
        let checked = files.identities().expect("they can be read");
        std::fs::write(&base, [9; 4000]).expect("there is room");
        let own = out.metadata().expect("it is there");
        let made = [(own.dev(), own.ino())];
        let identity_of =
            |behind: &[FileIdentity]| identity((&out, &made), [0; 16], 5000, Format::Qcow2, behind);
        let found = identity_of(&checked).expect("it is a file");
        assert_eq!(found.files.len(), 2);
        assert_eq!(difference(&found.files[1..], &checked), None);
        assert!(identity_of(&vec![checked[0].clone(); FILES_MAX]).is_none());
    }
}
