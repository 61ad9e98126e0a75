//! `uext4 stat` and `uext4 cat`: attributes or content of one file.

use super::ls::Row;
use crate::date;
use crate::failure::{At, Exit, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use crate::show::{self, Name};
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use uext4::{Attr, Caller, FileType, Filesystem, InodeRef};
use uext4_num::u64_of;

/// Show all attributes of a file
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 stat disk.img /etc/hosts
  uext4 stat disk.img /etc/hosts --json | jq .xattrs

If PATH is a symbolic link, the attributes of the link are shown.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// File in the image
    path: OsString,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Stat {
    #[serde(flatten)]
    row: Row,
    sectors: u64,
    generation: u32,
    project: u32,
    /// Inode flags, as in `lsattr`.
    flags: u32,
    accessed_ns: i128,
    changed_ns: i128,
    born_ns: i128,
    xattrs: Vec<Xattr>,
}

#[derive(Serialize)]
struct Xattr {
    name: Name,
    value: Name,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        super::snapshot::read_mount(&self.image)?;
        let fs = self.image.mount(Purpose::Read)?;
        let path = self.path.into_vec();
        let at = self.image.name_of(&path);
        let inode = fs.paths().symlink_inode(&path).at(&at)?;
        let attr = fs.attr(&inode);
        let xattrs = xattrs(&fs, &inode).at(&at)?;
        let target = match attr.kind {
            FileType::Symlink => Some(fs.read_link(&inode).at(&at)?),
            _ => None,
        };
        let mut out = show::stdout();
        if self.json {
            show::json(
                &mut out,
                &Stat::new(&path, &attr, target.as_deref(), &xattrs),
            )?;
        } else {
            print(&mut out, &path, &attr, target.as_deref())?;
            for (name, value) in &xattrs {
                writeln!(
                    out,
                    "{:<9}{} = {}",
                    "xattr",
                    show::name(name),
                    value.escape_ascii()
                )?;
            }
        }
        Ok(out.flush()?)
    }
}

/// Names and values of the extended attributes.
fn xattrs(fs: &Filesystem, inode: &InodeRef) -> uext4::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let caller = Caller::root();
    let names = fs.list_xattrs(inode, &caller)?;
    names
        .into_iter()
        .map(|name| Ok((name.clone(), fs.get_xattr(inode, &name, &caller)?)))
        .collect()
}

impl Stat {
    fn new(path: &[u8], attr: &Attr, target: Option<&[u8]>, xattrs: &[(Vec<u8>, Vec<u8>)]) -> Self {
        let ns = date::nanoseconds;
        Self {
            row: Row::new(path, attr, target),
            sectors: attr.sectors,
            generation: attr.generation,
            project: attr.project,
            flags: attr.flags,
            accessed_ns: ns(attr.atime),
            changed_ns: ns(attr.ctime),
            born_ns: ns(attr.crtime),
            xattrs: xattrs
                .iter()
                .map(|(name, value)| Xattr {
                    name: Name::new(name),
                    value: Name::new(value),
                })
                .collect(),
        }
    }
}

fn print(out: &mut dyn Write, path: &[u8], attr: &Attr, target: Option<&[u8]>) -> Result<()> {
    let mut line = |name: &str, value: String| writeln!(out, "{name:<9}{value}");
    line("path", show::name(path))?;
    if let Some(target) = target {
        line("target", show::name(target))?;
    }
    line("type", show::kind(attr.kind).into())?;
    line(
        "inode",
        format!("{}, generation {}", attr.ino, attr.generation),
    )?;
    line(
        "mode",
        format!("{} ({:04o})", show::mode(attr.kind, attr.mode), attr.mode),
    )?;
    line(
        "owner",
        format!("{}:{}, project {}", attr.uid, attr.gid, attr.project),
    )?;
    line("links", attr.links.to_string())?;
    if matches!(attr.kind, FileType::CharDevice | FileType::BlockDevice) {
        line("device", format!("{}, {}", attr.rdev.0, attr.rdev.1))?;
    }
    line(
        "size",
        format!(
            "{} bytes, {} on disk",
            attr.size_bytes,
            attr.sectors.saturating_mul(512)
        ),
    )?;
    line("flags", format!("{:#x}", attr.flags))?;
    let times = [
        ("accessed", attr.atime),
        ("modified", attr.mtime),
        ("changed", attr.ctime),
        ("born", attr.crtime),
    ];
    for (name, time) in times {
        line(name, date::show_exact(time))?;
    }
    Ok(())
}

/// Write the contents of files to standard output
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 cat disk.img /etc/hosts
  uext4 cat disk.img /var/log/a.log /var/log/b.log > both.log")]
pub(crate) struct CatArgs {
    #[command(flatten)]
    image: ImageArgs,
    /// Files in the image
    #[arg(required = true)]
    paths: Vec<OsString>,
}

fn is_directory(at: &str) -> Failure {
    Failure::new(Exit::Failed, format!("{at}: is a directory")).hint("`uext4 ls` lists it")
}

impl CatArgs {
    pub(crate) fn run(self) -> Result<()> {
        super::snapshot::read_mount(&self.image)?;
        let fs = self.image.mount(Purpose::Read)?;
        let mut out = std::io::stdout().lock();
        let mut buffer = vec![0; 1 << 20];
        for path in &self.paths {
            let at = self.image.name_of(path.as_bytes());
            let file = match fs.paths().open(path) {
                Err(failed) if matches!(failed.error(), uext4::Error::IsDirectory) => {
                    return Err(is_directory(&at));
                }
                file => file.at(&at)?,
            };
            let mut offset = 0;
            loop {
                let read = file.read_at(offset, &mut buffer).at(&at)?;
                if read == 0 {
                    break;
                }
                out.write_all(buffer.split_at(read).0)?;
                offset += u64_of(read);
            }
        }
        Ok(out.flush()?)
    }
}
