//! `uext4 export`: writes a tree of an image as a tar archive or an OCI image.

use crate::date;
use crate::failure::{At, Exit, Failure, Result};
use crate::image::ImageArgs;
use crate::reproducible::Epoch;
use crate::show;
use crate::transfer::compress::{Compression, Compressor};
use crate::transfer::console::{Console, Failures};
use crate::transfer::digest::{Digests, Measured, Measuring};
use crate::transfer::oci::{Labels, Layout, Platform};
use crate::transfer::target::{Old, Target};
use clap::ValueEnum;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::Filesystem;
use uext4_tree::{Acls, Archive, Error, Summary};

/// Memory for unused inodes and metadata blocks, in bytes: names in order are inodes in disorder.
const METADATA_CACHE_BYTES: u64 = 32 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A tar archive in pax format
    Tar,
    /// An OCI image layout with one layer
    Oci,
}

/// Export files of an image as a tar archive or an OCI image
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 export disk.img -o disk.tar
  uext4 export disk.img /srv/site | tar -t
  uext4 export /mnt -o mnt.tar             a running mount, as it is at one moment
  uext4 export disk.img --compress zstd -o disk.tar.zst
  uext4 export disk.img --format oci -o image && skopeo copy oci:image docker-archive:image.tar

The archive contains the contents of PATH, without /lost+found. Owners are numeric IDs; mtime,
extended attributes, access control lists, hard links, holes and device nodes are kept:
`tar -xp --xattrs --xattrs-include='*' --acls` and `bsdtar -xp` restore them. Sockets are left out.
The same image gives the same bytes; an OCI image also records SOURCE_DATE_EPOCH.

Damage does not stop the export: each file that cannot be read is reported, and the exit status is
4. A file whose block map cannot be read is left out; a file with a read error is filled with zeros
from there on. Ctrl-C removes the unfinished file.")]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// File or directory in the image
    #[arg(default_value = "/")]
    path: OsString,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Tar)]
    format: Format,
    /// New file, or new directory for an OCI image; -: standard output
    #[arg(short, long, value_name = "FILE|DIR", default_value = "-")]
    out: PathBuf,
    /// Compress the archive, or the layer of the OCI image
    #[arg(long, value_enum, default_value_t = Compression::None)]
    compress: Compression,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Platform of the OCI image; default: this machine's
    #[arg(long, value_name = "OS/ARCH[/VARIANT]", value_parser = Platform::parse)]
    platform: Option<Platform>,
    /// Tag of the OCI image in its layout; default: latest
    #[arg(long)]
    tag: Option<String>,
    /// Stop at the first failure
    #[arg(long)]
    strict: bool,
    /// Print counts, length and digest as JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct ExportReport {
    files: u64,
    data_bytes: u64,
    failed: u64,
    sockets: u64,
    archive_bytes: u64,
    /// Of the archive, or of the manifest of an OCI image.
    digest: Option<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        self.check()?;
        super::snapshot::read_mount(&self.image)?;
        let interrupts = uext4_fuse::catch_interrupts();
        interrupts.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let fs = self.image.mount_to_read_once(METADATA_CACHE_BYTES)?;
        let path = self.path.as_bytes();
        let found = fs.paths().symlink_inode(path);
        found
            .at(self.image.name_of(path))
            .map_err(|failure| self.explained(failure))?;
        match self.format {
            Format::Tar => self.tar(&fs),
            Format::Oci => self.oci(&fs),
        }
    }

    /// A name without a slash, without `-o`, is mostly that of the archive.
    fn explained(&self, failure: Failure) -> Failure {
        let name = self.path.display();
        if self.out == Path::new("-") && !self.path.as_bytes().contains(&b'/') {
            failure.hint(&format!("-o {name} writes the archive to a file"))
        } else {
            failure
        }
    }

    /// Refuses options that do not fit together.
    fn check(&self) -> Result<()> {
        let is_stdout = self.out == Path::new("-");
        match self.format {
            Format::Tar if self.platform.is_some() || self.tag.is_some() => {
                Err(Failure::usage("--platform and --tag need --format oci"))
            }
            Format::Oci if is_stdout => Err(Failure::usage(
                "--format oci makes a directory, which -o names",
            )),
            Format::Oci if self.force => Err(Failure::usage(
                "--force replaces files, not the directory of --format oci",
            )),
            _ if is_stdout && self.json => Err(Failure::usage(
                "--json and the archive cannot both go to standard output; -o names a file",
            )),
            _ => Ok(()),
        }
    }

    fn tar(&self, fs: &Filesystem) -> Result<()> {
        let old = if self.force { Old::Replace } else { Old::Keep };
        let digests = if self.json { Digests::Yes } else { Digests::No };
        let target = Measuring::new(Target::open(&self.out, old)?, digests);
        let compressor = Compressor::new(target, self.compress);
        let mut compressor = compressor.map_err(|error| self.lost(error))?;
        let (written, summary) = self.write(fs, Acls::Text, &mut compressor)?;
        let ended = compressor.end().and_then(|mut target| {
            target.flush()?;
            Ok(target)
        });
        let (target, measured) = ended.map_err(|error| self.lost(error))?.end();
        target.keep()?;
        self.report(&measured, summary)?;
        written
    }

    fn oci(&self, fs: &Filesystem) -> Result<()> {
        let labels = Labels {
            platform: self.platform.clone().unwrap_or_else(Platform::host),
            tag: self.tag.clone().unwrap_or_else(|| "latest".into()),
            created: Epoch::given(None)?
                .time()
                .map(|time| format!("{}Z", date::show(time).replace(' ', "T"))),
        };
        let layout = Layout::begin(&self.out, self.compress, labels)?;
        let mut layer = layout.layer()?;
        let (written, summary) = self.write(fs, Acls::Attributes, &mut layer)?;
        let (manifest, blob) = layout.end(layer)?;
        let measured = Measured {
            bytes: blob.bytes,
            digest: manifest.digest,
        };
        self.report(&measured, summary)?;
        written
    }

    /// Writes the archive. If it is complete, returns the result of the command, which is a failure
    /// if files failed.
    fn write(
        &self,
        fs: &Filesystem,
        acls: Acls,
        out: &mut dyn Write,
    ) -> Result<(Result<()>, Summary)> {
        let path = self.path.as_bytes();
        let failures = if self.strict {
            Failures::Stop
        } else {
            Failures::GoOn
        };
        let mut console =
            Console::new(&self.image, failures, || Archive::new(fs).total_bytes(path));
        let mut archive = Archive::new(fs)
            .acls(acls)
            .on_event(|event| console.take(event));
        let done = archive.tree(path, out);
        let summary = archive.summary();
        drop(archive);
        match done {
            Err(Error::Output(error)) => Err(self.lost(error)),
            Ok(_) if !uext4_fuse::is_interrupted() => {
                Ok((console.finish(Ok(()), summary), summary))
            }
            other => {
                console.finish(other.map(drop), summary)?;
                Err(Failure::new(Exit::Failed, "the archive is not complete"))
            }
        }
    }

    /// Failure of a write of the archive.
    fn lost(&self, error: std::io::Error) -> Failure {
        if self.out == Path::new("-") {
            Failure::from(error)
        } else {
            Failure::at(&error, self.out.display())
        }
    }

    fn report(&self, measured: &Measured, summary: Summary) -> Result<()> {
        if !self.json {
            return Ok(());
        }
        let report = ExportReport {
            files: summary.files,
            data_bytes: summary.bytes,
            failed: summary.failed,
            sockets: summary.sockets,
            archive_bytes: measured.bytes,
            digest: measured.digest.clone(),
        };
        let mut out = show::stdout();
        show::json(&mut out, &report)?;
        Ok(out.flush()?)
    }
}
