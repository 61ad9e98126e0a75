//! Options of `uext4 build` that change what sources say of files: owners, modes, devices, labels.

use crate::failure::{Exit, Failure, Result};
use std::path::{Path, PathBuf};
use uext4_archive::manifest::{Changes, FileContexts, IdRange, Mtree};

/// See the options.
#[derive(clap::Args)]
pub(super) struct Changing {
    /// Owner of all files, as numeric IDs
    #[arg(long, value_name = "UID:GID", value_parser = owner)]
    owner: Option<(u32, u32)>,
    /// Map COUNT UIDs and GIDs from FROM on to TO on, in ACLs, too; may be given several times. IDs
    /// outside all maps are refused
    #[arg(long = "map", value_name = "FROM:TO:COUNT")]
    maps: Vec<IdRange>,
    /// Manifest of modes, owners, times, attributes and devices by path, in mtree(5) format:
    /// `./dev/null type=char device=linux,1,3 mode=0666`. Paths are those of the image; files that
    /// no source has are created
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// SELinux labels by path, in the format of file_contexts; labels of the sources are dropped
    #[arg(long, value_name = "FILE")]
    file_contexts: Option<PathBuf>,
}

impl Changing {
    /// The changes, with their files read.
    pub(super) fn read(&self) -> Result<Changes> {
        let mut changes = Changes {
            users: self.maps.clone(),
            groups: self.maps.clone(),
            owner: self.owner,
            ..Changes::default()
        };
        if let Some(path) = &self.manifest {
            let mtree = Mtree::parse(path.display().to_string(), &contents(path)?);
            changes.mtree = Some(mtree.map_err(|error| bad_lines(&error))?);
        }
        if let Some(path) = &self.file_contexts {
            let contexts = FileContexts::parse(&path.display().to_string(), &contents(path)?);
            changes.contexts = Some(contexts.map_err(|error| bad_lines(&error))?);
        }
        Ok(changes)
    }
}

fn contents(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path)
        .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", path.display())))
}

fn bad_lines(error: &uext4_builder::Error) -> Failure {
    Failure::new(Exit::Usage, error.to_string())
}

/// Two numbers; the largest one is no owner.
fn owner(text: &str) -> std::result::Result<(u32, u32), String> {
    let number = |word: &str| word.parse().ok().filter(|id| *id != u32::MAX);
    let both = text.split_once(':').and_then(|(uid, gid)| {
        let (uid, gid) = (number(uid)?, number(gid)?);
        Some((uid, gid))
    });
    both.ok_or_else(|| "an owner is UID:GID in numbers, such as 0:0".to_owned())
}
