//! `uext4 ls`: lists directories.

use crate::failure::{At, Exit, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use crate::show::{self, Name};
use crate::{date, transfer};
use serde::Serialize;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use uext4::path::Paths;
use uext4::{Attr, Caller, FileType, Filesystem};
use uext4_tree::Damage;

/// List a directory, or show one file
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 ls disk.img                 the root directory
  uext4 ls /mnt /etc                a running mount, as it is at one moment
  uext4 ls -lR disk.img /etc        all files below /etc, with attributes
  uext4 ls -a --json disk.img /etc | jq -r '.[].path'

A journal that needs replay is replayed in memory; the image is not written.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Directory or file in the image
    #[arg(default_value = "/")]
    path: OsString,
    /// Show mode, link count, owner, group, size, mtime (UTC) and name
    #[arg(short, long)]
    long: bool,
    /// Include names that start with a dot
    #[arg(short, long)]
    all: bool,
    /// List subdirectories recursively
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A file as JSON shows it.
#[derive(Serialize)]
pub(crate) struct Row {
    path: Name,
    pub(crate) inode: u32,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: String,
    links: u32,
    uid: u32,
    gid: u32,
    size: u64,
    /// Modification time, in seconds since 1970.
    modified: i64,
    /// Modification time, in nanoseconds since 1970.
    modified_ns: i128,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Name>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        super::snapshot::read_mount(&self.image)?;
        let fs = self.image.mount(Purpose::Read)?;
        let path = self.path.clone().into_vec();
        let mut out = show::stdout();
        let mut list = Listing {
            args: &self,
            fs: &fs,
            paths: fs.paths(),
            rows: Vec::new(),
            entered: HashSet::new(),
            damaged: false,
            out: &mut out,
        };
        list.start(&path)?;
        let damaged = list.damaged;
        if self.json {
            let rows = std::mem::take(&mut list.rows);
            show::json(&mut out, &rows)?;
        }
        out.flush()?;
        if damaged {
            Err(Failure::said(Exit::Damaged))
        } else {
            Ok(())
        }
    }
}

struct Listing<'a> {
    args: &'a Args,
    fs: &'a Filesystem,
    paths: Paths,
    rows: Vec<Row>,
    /// Inodes of directories that were listed. Each is listed once, so that a cycle ends.
    entered: HashSet<u32>,
    /// A file or directory was damaged, which a message has said.
    damaged: bool,
    out: &'a mut dyn Write,
}

impl Listing<'_> {
    fn start(&mut self, path: &[u8]) -> Result<()> {
        let at = self.args.image.name_of(path);
        let attr = self.paths.symlink_metadata(path).at(at)?.attr().clone();
        let leads_to_dir = self.paths.metadata(path).is_ok_and(|found| found.is_dir());
        if !leads_to_dir {
            return self.row(path, path, &attr);
        }
        let mut waiting = vec![path.to_vec()];
        while let Some(dir) = waiting.pop() {
            waiting.extend(self.directory(&dir)?.into_iter().rev());
        }
        Ok(())
    }

    /// Lists one directory. Returns its subdirectories if `-R` is set.
    fn directory(&mut self, dir: &[u8]) -> Result<Vec<Vec<u8>>> {
        let at = self.args.image.name_of(dir);
        let nr = self.paths.metadata(dir).at(&at)?.attr().ino.0;
        if !self.entered.insert(nr) {
            self.out.flush()?;
            Failure::at(&Damage::SecondName(nr), &at).say();
            self.damaged = true;
            return Ok(Vec::new());
        }
        let headed = self.args.recursive && !self.args.json;
        let entries = self
            .paths
            .read_dir(dir)
            .and_then(Iterator::collect::<uext4::path::Result<Vec<_>>>);
        let mut entries = entries.at(&at)?;
        let parent = self.paths.inode(dir).at(&at)?;
        entries.retain(|entry| self.args.all || !entry.name.starts_with(b"."));
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut below = Vec::new();
        if headed {
            writeln!(self.out, "{}:", show::name(dir))?;
        }
        for entry in entries {
            let path = transfer::join(dir, &entry.name);
            let inode = self.fs.lookup(&parent, &entry.name, &Caller::root());
            let inode = inode.at(self.args.image.name_of(&path))?;
            let attr = self.fs.attr(&inode);
            self.row(&path, &entry.name, &attr)?;
            if self.args.recursive && attr.kind == FileType::Directory {
                below.push(path);
            }
        }
        if headed {
            writeln!(self.out)?;
        }
        Ok(below)
    }

    fn row(&mut self, path: &[u8], name: &[u8], attr: &Attr) -> Result<()> {
        let target = match attr.kind {
            FileType::Symlink => self.paths.read_link(path).ok(),
            _ => None,
        };
        if self.args.json {
            self.rows.push(Row::new(path, attr, target.as_deref()));
        } else if self.args.long {
            self.long(name, attr, target.as_deref())?;
        } else {
            writeln!(self.out, "{}", show::name(name))?;
        }
        Ok(())
    }

    fn long(&mut self, name: &[u8], attr: &Attr, target: Option<&[u8]>) -> Result<()> {
        let size = match attr.kind {
            FileType::CharDevice | FileType::BlockDevice => {
                format!("{}, {}", attr.rdev.0, attr.rdev.1)
            }
            _ => attr.size_bytes.to_string(),
        };
        let arrow = target.map_or(String::new(), |target| {
            format!(" -> {}", show::name(target))
        });
        writeln!(
            self.out,
            "{} {:>3} {:>5} {:>5} {size:>10} {} {}{arrow}",
            show::mode(attr.kind, attr.mode),
            attr.links,
            attr.uid,
            attr.gid,
            date::show(attr.mtime),
            show::name(name),
        )?;
        Ok(())
    }
}

impl Row {
    pub(crate) fn new(path: &[u8], attr: &Attr, target: Option<&[u8]>) -> Self {
        let is_node = matches!(attr.kind, FileType::CharDevice | FileType::BlockDevice);
        Self {
            path: Name::new(path),
            inode: attr.ino.0,
            kind: show::kind(attr.kind),
            mode: format!("{:04o}", attr.mode),
            links: attr.links,
            uid: attr.uid,
            gid: attr.gid,
            size: attr.size_bytes,
            modified: attr.mtime.seconds,
            modified_ns: date::nanoseconds(attr.mtime),
            device: is_node.then_some(attr.rdev),
            target: target.map(Name::new),
        }
    }
}
