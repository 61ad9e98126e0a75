//! `uext4 undelete`: lists deleted files and brings them back into a directory of the host.

use crate::date;
use crate::failure::{At, Failure, Result};
use crate::image::ImageArgs;
use crate::new_files::{self, NewFiles};
use crate::show::{self, Name};
use serde::Serialize;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use uext4::Timestamp;
use uext4_forensics::{Content, Deleted, Image, Memory, Remains, deleted};
use uext4_num::u64_of;

/// List deleted files, or copy what is left of them
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 undelete disk.img                             list what can come back
  uext4 undelete disk.img --since '2026-11-29 12:00'  what was deleted since then (UTC)
  uext4 undelete disk.img --to found                  copy it into the directory ./found
  uext4 undelete disk.img --to found --inode 17       only what had this inode

Unmount the file system first: each write may take blocks of deleted files. Older states of inodes,
maps and directories come from the journal, so files come back that were deleted as long as it goes
back, and files whose inode kept its map. Nothing is written to the image.

States: `whole`; `part`, where some blocks have other content by now: they become holes, and are
listed; `lost`. A file without a known name is called inode-N. Existing files are never overwritten:
a name that is taken gets a number.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Only files that were deleted at this time (UTC) or later, or at no known time: YYYY-MM-DD,
    /// YYYY-MM-DD HH:MM:SS, @SECONDS since 1970
    #[arg(long, value_name = "TIME", value_parser = date::parse)]
    since: Option<Timestamp>,
    /// List the files (default)
    #[arg(long, conflicts_with = "to")]
    list: bool,
    /// Copy the files into this directory of the host, which is made if it is missing
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Only the files that had this inode
    #[arg(long, value_name = "N")]
    inode: Option<u32>,
    /// Print JSON, an object per line
    #[arg(long)]
    json: bool,
    /// Memory limit
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = crate::numbers::size)]
    memory: u64,
}

/// A deleted file in JSON.
#[derive(Serialize)]
struct Row {
    inode: u32,
    generation: u32,
    path: Option<Name>,
    size: u64,
    state: &'static str,
    /// Nanoseconds since 1970.
    deleted: Option<i128>,
    last_seen: Option<i128>,
    transaction: Option<u32>,
    /// Ranges of bytes: the first one, and the one behind the last one.
    lost: Vec<[u64; 2]>,
    /// Path of the copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let name = self.image.name();
        let memory = Memory::new(self.memory);
        let (image, mut ring) = super::log::open(&self.image, &memory)?;
        super::log::say_fast_commits(&name, &image, ring.as_mut(), &memory).at(&name)?;
        let all = deleted(&image, ring.as_mut(), &memory).at(&name)?;
        let files = self.to.as_ref().map(|dir| {
            let opened = NewFiles::open(dir);
            opened.at(dir.display())
        });
        let files = files.transpose()?;
        let mut out = show::stdout();
        let mut failed = None;
        for mut one in all.into_iter().filter(|one| self.is_wanted(one)) {
            let mut copy = None;
            if let Some(files) = &files
                && one.content.remains() != Remains::Lost
            {
                match copied(&image, files, &mut one) {
                    Ok(made) => copy = Some(made),
                    Err(failure) => failed = Some(failure.say()),
                }
            }
            self.print(&mut out, &one, copy)?;
        }
        out.flush()?;
        failed.map_or(Ok(()), |exit| Err(Failure::said(exit)))
    }

    fn is_wanted(&self, one: &Deleted) -> bool {
        let seconds = |time: Timestamp| (time.seconds, time.nanoseconds);
        let is_new = self
            .since
            .is_none_or(|since| one.deleted.is_none_or(|at| seconds(at) >= seconds(since)));
        is_new && self.inode.is_none_or(|nr| one.inode.0 == nr)
    }

    fn print(&self, out: &mut dyn Write, one: &Deleted, copy: Option<PathBuf>) -> Result<()> {
        if self.json {
            serde_json::to_writer(&mut *out, &row(one, copy)).map_err(std::io::Error::from)?;
            return Ok(writeln!(out)?);
        }
        let time = one.deleted.map_or_else(
            || match one.last_seen {
                Some(seen) => format!("after {}", date::show(seen)),
                None => "at no known time".to_owned(),
            },
            date::show,
        );
        writeln!(
            out,
            "{:<5} inode {:<8} {:>12} bytes  deleted {time:<25}  {}",
            state(&one.content),
            one.inode,
            one.content.size,
            show::name(&path_of(one)),
        )?;
        if one.content.remains() == Remains::Part {
            for lost in one.content.lost_bytes() {
                writeln!(out, "      lost: bytes {} to {}", lost.start, lost.end)?;
            }
        }
        if let Some(copy) = copy {
            let copy = copy.display().to_string();
            writeln!(out, "      copied to {}", show::name(copy.as_bytes()))?;
        }
        Ok(())
    }
}

fn state(content: &Content) -> &'static str {
    match content.remains() {
        Remains::Whole => "whole",
        Remains::Part => "part",
        Remains::Lost => "lost",
    }
}

fn row(one: &Deleted, copy: Option<PathBuf>) -> Row {
    Row {
        inode: one.inode.0,
        generation: one.generation,
        path: one.path.as_deref().map(Name::new),
        size: one.content.size,
        state: state(&one.content),
        deleted: one.deleted.map(date::nanoseconds),
        last_seen: one.last_seen.map(date::nanoseconds),
        transaction: one.transaction.map(|tid| tid.0),
        lost: one
            .content
            .lost_bytes()
            .map(|lost| [lost.start, lost.end])
            .collect(),
        copy: copy.map(|copy| copy.display().to_string()),
    }
}

/// The path of a file, also of one without a known name.
fn path_of(one: &Deleted) -> Vec<u8> {
    match &one.path {
        Some(path) => path.clone(),
        None => format!("inode-{}", one.inode).into_bytes(),
    }
}

/// Copies a deleted file. Returns the path of the copy.
fn copied(image: &Image, files: &NewFiles, one: &mut Deleted) -> Result<PathBuf> {
    let path = path_of(one);
    let at = show::name(&path);
    let (file, made) = files.create(&path).at(&at)?;
    write_content(image, &mut one.content, &file).at(&at)?;
    new_files::set_attributes(&file, one.mode, one.mtime).at(&at)?;
    Ok(made)
}

/// Writes a content to a new file; what is lost, and what was a hole, is a hole.
pub(super) fn write_content(
    image: &Image,
    content: &mut Content,
    file: &std::fs::File,
) -> std::io::Result<()> {
    content.read(image, &mut |at, bytes| {
        debug_assert!(u64_of(bytes.len()) > 0);
        file.write_all_at(bytes, at)
    })?;
    file.set_len(content.size)
}
