//! `uext4 get --rescue`: copies what is left of a damaged image.

use super::log::say_fast_commits;
use super::undelete::write_content;
use crate::failure::{self, At, Exit, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use crate::new_files::{self, NewFiles};
use crate::show;
use crate::transfer::last_name;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::format::InodeNr;
use uext4_forensics::{Content, Image, Kind, Memory, Remains, Rescue, Rescued};
use uext4_num::u64_of;

/// Memory for each file with more names, beside its path, in bytes.
const MADE_BYTES: u64 = 64;

/// What is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    File,
    Tree,
}

/// Copies `path` of a damaged image to `dest`.
pub(super) fn run(
    args: &ImageArgs,
    path: &OsStr,
    dest: &Path,
    depth: Depth,
    memory: &Memory,
) -> Result<()> {
    if dest == Path::new("-") {
        return Err(Failure::usage(
            "--rescue: DEST is a path, since holes are kept",
        ));
    }
    let name = args.name();
    let options = args.journal_options(Purpose::Read).at(&name)?;
    let device = args.device(Purpose::Read)?;
    args.say_other_writer();
    let (mut image, kib) = Image::open_with_backups(device, memory).at(&name)?;
    if let Some(kib) = kib {
        failure::info(format_args!(
            "{name}: the superblock is its copy at {kib} KiB"
        ));
    }
    let ring = image.read_log(options.journal_device.as_ref(), memory);
    let mut ring = ring.unwrap_or_else(|error| {
        failure::info(format_args!("{name}: without its journal: {error}"));
        None
    });
    if let Err(error) = say_fast_commits(&name, &image, ring.as_mut(), memory) {
        failure::info(format_args!("{name}: without fast commits: {error}"));
    }
    let mut rescue = Rescue::new(&image, ring.as_mut(), memory).at(&name)?;
    let path = path.as_bytes();
    let at = args.name_of(path);
    let start = rescue.find(path).at(&name)?;
    let start = start.ok_or_else(|| {
        Failure::new(Exit::Failed, format!("{at}: no such name can be read"))
            .hint("`get -r --rescue IMAGE / DEST` copies also what has no name")
    })?;
    let mut copy = Copy::new(path, dest, depth, memory)?;
    rescue.walk::<Failure>(start, &mut |image, met| copy.take(image, &met))?;
    copy.finish(&name)
}

impl From<uext4_forensics::Error> for Failure {
    fn from(error: uext4_forensics::Error) -> Self {
        Failure::at(&error, "rescue")
    }
}

/// A copy on its way.
struct Copy<'c> {
    memory: &'c Memory,
    files: NewFiles,
    /// Path below the directory for the start.
    prefix: Vec<u8>,
    depth: Depth,
    /// Files that may have more names, by inode.
    made: HashMap<u32, PathBuf>,
    copied: u64,
    damaged: u64,
    failed: Option<Exit>,
}

impl<'c> Copy<'c> {
    fn new(path: &[u8], dest: &Path, depth: Depth, memory: &'c Memory) -> Result<Self> {
        let name = last_name(path).unwrap_or_default().to_vec();
        let (dir, prefix) = if dest.is_dir() {
            (dest.to_owned(), name)
        } else if depth == Depth::Tree {
            (dest.to_owned(), Vec::new())
        } else {
            let name = dest.file_name().unwrap_or_default().as_bytes().to_vec();
            let parent = dest
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            (parent.unwrap_or(Path::new(".")).to_owned(), name)
        };
        Ok(Self {
            memory,
            files: NewFiles::open(&dir).at(dir.display())?,
            prefix,
            depth,
            made: HashMap::new(),
            copied: 0,
            damaged: 0,
            failed: None,
        })
    }

    /// Copies what the walk met. A failure of the host does not end the walk.
    fn take(&mut self, image: &Image, met: &Rescued) -> Result<()> {
        let path = match (self.prefix.is_empty(), met.path.is_empty()) {
            (true, _) => met.path.clone(),
            (false, true) => self.prefix.clone(),
            (false, false) => [&self.prefix[..], &met.path[..]].join(&b'/'),
        };
        let at = show::name(&path);
        let is_dir = matches!(met.kind, Kind::Directory);
        if is_dir && self.depth == Depth::File {
            let failure = Failure::new(Exit::Failed, format!("{at}: is a directory"));
            return Err(failure.hint("-r copies directories"));
        }
        let done = match &met.kind {
            Kind::Directory => self.files.make_directory(&path).at(&at),
            Kind::File(content) => self.file(image, met, &path, content.clone()),
            Kind::Link(target) => self.files.link(&path, target).map(drop).at(&at),
            Kind::Again => match self.made.get(&met.inode.0) {
                Some(made) => self.files.link_again(made, &path).map(drop).at(&at),
                None => {
                    self.damaged += 1;
                    say_lost(&at, met.inode, "another name of a file that was not copied");
                    Ok(())
                }
            },
            Kind::Special => {
                failure::info(format_args!("{at}: a device, pipe or socket, left out"));
                Ok(())
            }
            Kind::Unreadable => {
                self.damaged += 1;
                say_lost(&at, met.inode, "its inode cannot be read");
                Ok(())
            }
        };
        if let Err(failure) = done {
            self.failed = Some(failure.say());
        }
        Ok(())
    }

    fn file(
        &mut self,
        image: &Image,
        met: &Rescued,
        path: &[u8],
        mut content: Content,
    ) -> Result<()> {
        let at = show::name(path);
        let (file, made) = self.files.create(path).at(&at)?;
        write_content(image, &mut content, &file).at(&at)?;
        new_files::set_attributes(&file, met.mode, met.mtime).at(&at)?;
        let bytes = u64_of(path.len()).saturating_add(MADE_BYTES);
        self.memory.take(bytes)?;
        self.made.insert(met.inode.0, made);
        self.copied += 1;
        if content.remains() != Remains::Whole {
            self.damaged += 1;
            for lost in content.lost_bytes() {
                let what = format!("bytes {} to {} are lost", lost.start, lost.end);
                say_lost(&at, met.inode, &what);
            }
        }
        Ok(())
    }

    fn finish(self, name: &str) -> Result<()> {
        show::line(format_args!(
            "{name}: {} files copied, {} with losses",
            self.copied, self.damaged
        ))?;
        match self.failed {
            _ if self.damaged > 0 => Err(Failure::said(Exit::Damaged)),
            Some(exit) => Err(Failure::said(exit)),
            None => Ok(()),
        }
    }
}

fn say_lost(at: &str, nr: InodeNr, what: &str) {
    failure::info(format_args!("{at} (inode {nr}): {what}"));
}
