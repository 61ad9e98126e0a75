//! `uext4 build`: makes an image of directories and archives.

use super::build_changes::Changing;
use super::build_output::{self, Output};
use super::build_pipe::Pipe;
use super::build_report::Built;
use super::build_words::{ImageSize, JournalWord};
use super::mkfs_target;
use crate::failure::{Exit, Failure, Result};
use crate::numbers;
use crate::reproducible::Epoch;
use crate::show;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::Timestamp;
use uext4::mkfs::{InodeCount, Release};
use uext4_archive::manifest::{Changed, Changes, Times};
use uext4_archive::{Options, Patterns, Platform, Source};
use uext4_builder::{BuildOptions, Builder, Error, Host, PlacementRule, Sink, Size, Tables};
use uext4_image::Container;
use uext4_num::clamp_i64;
use uext4_sync::Arc;

/// Build an image from directories, tar files and container images, without root or a mount
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 build root.img ./rootfs                    minimal size
  uext4 build root.img ./rootfs --size min+20% -L root
  uext4 build vm.qcow2 ./rootfs --partition gpt    a disk image without boot loader
  uext4 build disk.img ./rootfs --table disk.sfdisk   several partitions
  uext4 build root.img ./rootfs --verity root.verity
  uext4 build root.img base.tar.zst overlay.tar --size 4G
  podman save alpine | uext4 build root.img -
  uext4 build - ./rootfs | zstd >root.img.zst
  uext4 build root.img ./oci-layout --platform linux/arm64
  uext4 build root.img ./etc --at etc --owner 0:0
  uext4 build root.img ./rootfs --size 2G --diff-friendly
  uext4 build root.img ./rootfs -O inline_data
  uext4 build /dev/vg/root ./rootfs
  uext4 build root.img ./rootfs --manifest devices.mtree --file-contexts file_contexts

Later sources override earlier ones at the same path. Files of a later source below a symbolic link
of an earlier one, without an entry for that directory, are placed in the target of the link. Builds
are reproducible: the same sources give the same bytes, on any machine and with any number of
threads. UUID, hash seed and times are derived from the sources unless they are given. The
environment variable SOURCE_DATE_EPOCH sets the time of the file system and limits times of files.

Owners are the numeric IDs of archives, and the owners on the host for directories. --map, --owner,
--manifest and --file-contexts are applied in this order. If OUT is inside a source, it is left out
of the image. OUT is replaced atomically when it is complete: a failure or Ctrl-C leaves no file, or
the old one, whose owner and mode the new file gets. If OUT is a symbolic link, its target is
replaced. A block device is written in place, and has no file system after a failure. For standard
output the image is first written to a file in TMPDIR.")]
pub(crate) struct Args {
    /// Image: a new file, a file to replace, or a block device; -: standard output
    out: PathBuf,
    /// Directories; tar files, plain or compressed with gzip, zstd, xz, bzip2 or lz4; OCI layouts;
    /// archives of docker save; -: standard input
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// Size: min, min+PERCENT%, or bytes, with suffix K, M, G or T. Default: min; for a block
    /// device, or a partition with a size, all of it, unless a hash tree is appended. Space beyond
    /// min gets inodes at the ratio of mke2fs
    #[arg(short, long)]
    size: Option<ImageSize>,
    /// Target directory in the image
    #[arg(long, value_name = "PATH", default_value = "/")]
    at: PathBuf,
    /// Platform to select from container images, such as linux/arm64; default: this machine's
    #[arg(long, value_name = "OS/ARCH")]
    platform: Option<Platform>,
    /// Container image to select from several, by tag or reference
    #[arg(long, value_name = "NAME")]
    reference: Option<String>,
    /// Exclude matching files and directory trees: a name, or a path from the root of the source,
    /// with * and ?; may be given several times
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<OsString>,
    /// Do not cross file system boundaries on the host
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Limit of the decompressed size of archives; default: 1 GiB plus 200 times their size
    #[arg(long, value_name = "BYTES", value_parser = numbers::size)]
    limit: Option<u64>,
    /// Memory limit of a decoder, for zstd --long archives or xz with large dictionaries;
    /// default: 128M for zstd, 256M for xz
    #[arg(long, value_name = "BYTES", value_parser = numbers::size)]
    decoder_memory: Option<u64>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    changing: Changing,
    #[command(flatten)]
    format: Format,
    /// Number of threads; no effect on the image. Default: one per processor
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Overwrite an existing file system or partition table
    #[arg(short = 'F', long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
}

/// Properties of the file system.
#[derive(clap::Args)]
struct Format {
    /// Block size: 1K to 64K
    #[arg(short, long, value_parser = numbers::size, default_value = "4K")]
    block_size: u64,
    /// Cluster size, with -O bigalloc: up to 1M
    #[arg(short = 'C', long, value_parser = numbers::size)]
    cluster_size: Option<u64>,
    /// Features to enable, or with ^ to disable, by their names in mke2fs
    #[arg(short = 'O', long, value_name = "LIST", allow_hyphen_values = true)]
    features: Option<String>,
    /// Disable features unknown to this release: linux-X.Y, e2fsprogs-X.Y, debian-12, ubuntu-22.04
    #[arg(long, value_name = "RELEASE")]
    compat: Option<Release>,
    /// Volume label, up to 16 bytes
    #[arg(short = 'L', long)]
    label: Option<String>,
    /// UUID; default: derived from the contents
    #[arg(short = 'U', long, value_parser = numbers::uuid)]
    uuid: Option<[u8; 16]>,
    /// Seed of directory hashes; default: derived from the contents
    #[arg(long, value_name = "UUID", value_parser = numbers::uuid)]
    hash_seed: Option<[u8; 16]>,
    /// Time of the file system in seconds since 1970; default: the latest change in the sources
    #[arg(long, value_name = "SECONDS")]
    time: Option<u64>,
    /// Time of all files without one in the manifest, in seconds since 1970
    #[arg(long, value_name = "SECONDS")]
    mtime: Option<u64>,
    /// Upper limit of file times in seconds since 1970: later times are set to it. Default:
    /// SOURCE_DATE_EPOCH of the environment, if set
    #[arg(long, value_name = "SECONDS", conflicts_with = "mtime")]
    clamp_mtime: Option<u64>,
    /// Number of inodes; default: as many as needed with size min, otherwise by size
    #[arg(short = 'N', long)]
    inodes: Option<u32>,
    /// Percentage of blocks reserved for the superuser; default: 0 with size min, otherwise 5
    #[arg(
        short = 'm',
        long,
        value_name = "PERCENT",
        value_parser = clap::value_parser!(u8).range(0..=50)
    )]
    reserved: Option<u8>,
    /// Journal: none, lazy (default size) or a size with suffix K, M or G. Its blocks are holes in
    /// the image
    #[arg(long, default_value = "lazy", value_name = "none|lazy|SIZE")]
    journal: JournalWord,
    /// Place all bitmaps and inode tables at the start of the image; needs a size in bytes
    #[arg(long)]
    packed_meta_blocks: bool,
    /// Place files by path and size, with gaps, so that a changed file changes few blocks of the
    /// next image. Needs a size in bytes, about twice that of the contents; UUID, hash seed and
    /// time are derived from the options
    #[arg(long)]
    diff_friendly: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let interrupts = uext4_fuse::catch_interrupts();
        interrupts.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        self.check_sources()?;
        let mut changes = self.changing.read()?;
        changes.times = self.format.times()?;
        let changes = Arc::new(changes);
        let pipe = if self.out == Path::new("-") {
            Some(self.begin_pipe()?)
        } else {
            None
        };
        let out = pipe.as_ref().map_or(self.out.clone(), Pipe::path);
        mkfs_target::check_free(&out, self.force)?;
        let name = match &pipe {
            Some(_) => "standard output".to_owned(),
            None => self.out.display().to_string(),
        };
        let started = std::time::Instant::now();
        let container = self.output.begin(&out, self.force)?;
        let options = self.options(&container)?;
        let builder = build_output::builder(&container, options);
        let mut builder = builder.map_err(|error| failure(&name, &error))?;
        builder.spool_beside(&out);
        let left_out = self.output.identities(&out, &container);
        let meter = super::build_report::meter(&mut builder, !self.quiet);
        let built = self
            .feed(&mut builder, changes, &left_out)
            .and_then(|()| builder.finish())
            .map_err(|error| self.failure(&name, &error));
        meter.finish_and_clear();
        let report = built?;
        self.say_followed(&report);
        let made = build_output::finish(&out, container, &report, !self.quiet)?;
        let built = Built {
            name: &name,
            path: &out,
            report: &report,
            made: &made,
            output: &self.output,
            seconds: started.elapsed().as_secs_f64(),
        };
        match (self.json, self.quiet, &pipe) {
            (true, ..) => built.json()?,
            (false, true, _) => {}
            (false, false, None) => built.say(&mut show::stdout())?,
            (false, false, Some(_)) => built.say(&mut std::io::stderr())?,
        }
        pipe.map_or(Ok(()), Pipe::send)
    }

    /// As [`failure`]. Where a table limits the file system, it is told what to change.
    fn failure(&self, name: &str, error: &Error) -> Failure {
        let is_given = matches!(self.size, Some(ImageSize(Size::Bytes(_))));
        match (error, self.output.table.as_deref()) {
            (Error::Full { blocks }, Some(table)) if !is_given => {
                let bytes = numbers::readable_size(blocks * self.format.block_size);
                let table = table.display();
                let text = format!("{name}: {table} gives the file system {bytes}, which are full");
                Failure::new(Exit::Failed, text)
                    .hint("give its partition a larger size=, or move what is behind it")
            }
            _ => failure(name, error),
        }
    }

    fn begin_pipe(&self) -> Result<Pipe> {
        if self.json {
            let problem = "--json and the image cannot both go to standard output";
            return Err(Failure::usage(problem).hint("name a file for the image"));
        }
        Pipe::begin()
    }

    /// Says that files went where symbolic links of lower layers lead.
    fn say_followed(&self, report: &uext4_builder::BuildReport) {
        if let (false, Some((path, count))) = (self.quiet, &report.followed) {
            let others = match count - 1 {
                0 => String::new(),
                others => format!(", and {others} others"),
            };
            crate::failure::info(format!(
                "/{}{others}: a later source has files below this symbolic link of an earlier one; \
                 they are where the link leads",
                path.escape_ascii()
            ));
        }
    }

    /// Gives the sources to the builder, the last one first: layers come from the top down. Files
    /// of directories that are part of the output are left out.
    fn feed(
        &self,
        builder: &mut Builder,
        changes: Arc<Changes>,
        left_out: &[(u64, u64)],
    ) -> std::result::Result<(), Error> {
        let mut exclude = Patterns::default();
        for pattern in &self.exclude {
            exclude.add(pattern.as_bytes());
        }
        let options = Options {
            exclude: exclude.clone(),
            at: self.target(),
            limit: self.limit,
            decoder_memory: self.decoder_memory,
            threads: self.threads,
            platform: self.platform.clone(),
            reference: self.reference.clone(),
            is_cancelled: Some(uext4_fuse::is_interrupted),
            ..Options::default()
        };
        let own = changes.clone();
        builder.describe(move |path, attributes| own.describe(path, attributes));
        let mut sink = Changed::new(builder, &changes);
        for (nr, source) in self.sources.iter().rev().enumerate() {
            if nr > 0 {
                sink.next_layer()?;
            }
            if is_tree(source) {
                let mut host = Host::open(source)?.without(left_out.iter().copied());
                let patterns = exclude.clone();
                host = host.excluding(move |path| patterns.matches(path));
                if self.one_file_system {
                    host = host.on_one_file_system()?;
                }
                if let Some(threads) = self.threads {
                    host = host.with_threads(threads.get());
                }
                host.feed(&options.at, &mut sink)?;
            } else {
                Source::open(source)?.feed(&mut sink, &options)?;
            }
        }
        sink.finish()
    }

    /// The target without slashes at its ends.
    fn target(&self) -> Vec<u8> {
        let bytes = self.at.as_os_str().as_bytes();
        let names = bytes.split(|byte| *byte == b'/');
        let names: Vec<&[u8]> = names.filter(|name| !name.is_empty()).collect();
        names.join(&b'/')
    }

    fn check_sources(&self) -> Result<()> {
        let from_input = self.sources.iter().filter(|path| *path == Path::new("-"));
        if from_input.count() > 1 {
            return Err(Failure::usage("- can be only one of the sources"));
        }
        // Before the old contents of a device go.
        for source in self.sources.iter().filter(|path| *path != Path::new("-")) {
            let found = std::fs::metadata(source);
            found.map_err(|error| {
                Failure::new(Exit::Failed, format!("{}: {error}", source.display()))
            })?;
        }
        Ok(())
    }

    fn options(&self, container: &Container) -> Result<BuildOptions> {
        let size = match self.size {
            Some(size) => size.0,
            None => self.output.usual_size(&self.out, container)?,
        };
        build_output::check_size(size, container)?;
        let mut options = BuildOptions::new(size);
        let format = &mut options.format;
        let block_size = u32::try_from(self.format.block_size);
        let block_size = block_size.map_err(|_| Failure::usage("--block-size: too large"))?;
        format.block_size = Some(block_size);
        let cluster_size = self.format.cluster_size.map(u32::try_from).transpose();
        format.cluster_size =
            cluster_size.map_err(|_| Failure::usage("--cluster-size: too large"))?;
        if let Some(list) = &self.format.features {
            let applied = format.apply_features(list);
            applied.map_err(|error| Failure::usage(format!("-O {list}: {error}")))?;
        }
        self.format.journal.apply(format);
        if let Some(release) = &self.format.compat {
            self.format.restrict(format, release)?;
        }
        format.label = self.format.label.clone().unwrap_or_default().into_bytes();
        (format.uuid, format.hash_seed) = (self.format.uuid, self.format.hash_seed);
        let epoch = Epoch::given(self.format.time)?.time();
        format.time = epoch.and_then(|time| u64::try_from(time.seconds).ok());
        if let Some(inodes) = self.format.inodes {
            format.inodes = InodeCount::AtLeast(inodes);
        }
        if let Some(percent) = self.format.reserved {
            format.reserved_permyriad = u32::from(percent) * 100;
        }
        if let Some(threads) = self.threads {
            options.threads = threads.get();
        }
        if self.format.packed_meta_blocks {
            options.tables = Tables::Front;
        }
        if self.format.diff_friendly {
            options.places = PlacementRule::DiffFriendly;
        }
        Ok(options)
    }
}

impl Format {
    /// What becomes of the times of sources.
    fn times(&self) -> Result<Times> {
        let at = |seconds: u64| Timestamp::new(clamp_i64(seconds), 0);
        Ok(match (self.mtime, self.clamp_mtime) {
            (Some(seconds), _) => Times::At(at(seconds)),
            (None, Some(seconds)) => Times::NotAfter(at(seconds)),
            (None, None) => match Epoch::given(None)?.time() {
                Some(time) => Times::NotAfter(time),
                None => Times::Source,
            },
        })
    }

    /// Takes the features away that the release lacks, unless they were asked for.
    fn restrict(&self, format: &mut uext4::mkfs::MkfsOptions, release: &Release) -> Result<()> {
        let list = self.features.as_deref().unwrap_or("");
        for feature in release.unknown(format.features).iter() {
            let asked = list
                .split([',', ' '])
                .any(|word| Some(word) == feature.name());
            if asked {
                let problem = format!("-O {feature}: {release} does not have this feature");
                return Err(Failure::usage(problem));
            }
            let without = format.apply_features(&format!("^{feature}"));
            without.map_err(|error| Failure::usage(format!("--compat: {error}")))?;
        }
        Ok(())
    }
}

/// Whether a source is a directory of files, and no unpacked container image.
fn is_tree(source: &Path) -> bool {
    let has = |name| source.join(name).is_file();
    source.is_dir() && !has("oci-layout") && !has("manifest.json")
}

/// The failure of a build; damage and usage have statuses of their own.
fn failure(name: &str, error: &Error) -> Failure {
    let exit = match error {
        Error::Format(_) => Exit::Usage,
        Error::Device(uext4::device::Error::Busy { .. }) => Exit::Busy,
        _ => Exit::Failed,
    };
    // The others name a source or the image themselves.
    match error {
        Error::Format(uext4::mkfs::Error::TooSmall) => {
            let failure = format!("{name}: the size is too small for a file system");
            Failure::new(exit, failure)
                .hint("give a larger --size, as 64M (without a letter it is in bytes), or min")
        }
        Error::Format(_) | Error::Full { .. } => Failure::new(exit, format!("{name}: {error}")),
        _ => Failure::new(exit, error.to_string()),
    }
}
