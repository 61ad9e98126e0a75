//! One configuration in both directions.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::oracle::{KernelMount, Repair, e2fsck_repair, scratch_dir};
use uext4_testkit::tree::{TreeSpec, pack, unpack};

use super::configs::Config;
use super::judge::{self, clean, same};
use crate::server::{Rights, Server};

/// Sizes and times of one configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Names in the tree.
    pub entries: usize,
    /// Bytes of the archive.
    pub archive_bytes: u64,
    /// Time of tar into our mount, with the unmount.
    pub unpack: Duration,
    /// Time to read and hash the whole tree in our mount.
    pub walk: Duration,
    /// Time to remove the whole tree through our mount, with the unmount.
    pub remove: Duration,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = Duration::as_secs_f64;
        write!(
            f,
            "{} names, archive of {} MiB: ",
            self.entries,
            self.archive_bytes >> 20
        )?;
        let (unpack, walk) = (seconds(&self.unpack), seconds(&self.walk));
        write!(
            f,
            "in {unpack:.2} s, read {walk:.2} s, removed {:.2} s",
            seconds(&self.remove)
        )
    }
}

/// Runs one configuration in both directions.
///
/// The first difference or a report of e2fsck.
pub fn round_trip(server: &Server, config: &Config, entries: usize, seed: u64) -> Result<Figures> {
    let spec = TreeSpec::generate(seed, &config.shape(entries));
    let scratch = scratch_dir()?;
    let mut trip = Trip {
        server,
        config,
        entries,
        scratch,
        figures: Figures::default(),
    };
    trip.figures.entries = spec.nodes.len();
    let source = trip.source(&spec)?;
    trip.forward(&source).context("into our mount")?;
    trip.back(&source).context("from the kernel's image")?;
    Ok(trip.figures)
}

struct Trip<'a> {
    server: &'a Server,
    config: &'a Config,
    entries: usize,
    scratch: TempDir,
    figures: Figures,
}

/// A tree in a kernel-made image, and its archive.
struct Source {
    image: PathBuf,
    archive: PathBuf,
    manifest: Manifest,
}

impl Trip<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Writes the tree through the kernel, in the same configuration if the kernel supports it.
    fn source(&mut self, spec: &TreeSpec) -> Result<Source> {
        let (image, archive) = (self.path("kernel.img"), self.path("tree.tar"));
        let usual = Config::usual();
        let config = if self.config.fits_kernel() {
            self.config
        } else {
            &usual
        };
        config.make_reference(&image, self.entries)?;
        let mount = KernelMount::new(&image, "")?;
        spec.apply(mount.path())?;
        mount.unmount()?;
        clean("the kernel's own image", &image)?;
        let mount = KernelMount::new(&image, "ro")?;
        let manifest = Manifest::of_dir(mount.path())?;
        let expected = config.kept(spec.manifest());
        same(
            "the kernel's tree",
            &expected,
            &manifest,
            &Policy::default().ignore(Field::Root),
        )?;
        pack(mount.path(), &archive)?;
        mount.unmount()?;
        self.figures.archive_bytes = archive.metadata()?.len();
        Ok(Source {
            image,
            archive,
            manifest,
        })
    }

    fn forward(&mut self, source: &Source) -> Result<()> {
        let image = self.path("ours.img");
        self.config.make(&image, self.entries)?;
        let start = Instant::now();
        let mount = self.server.mount(&image, Rights::ReadWrite)?;
        unpack(&source.archive, mount.path())?;
        let expected = self.config.kept(source.manifest.clone());
        let archived = Policy::archived();
        same(
            "our mount",
            &expected,
            &Manifest::of_dir(mount.path())?,
            &archived,
        )?;
        mount.unmount()?;
        self.figures.unpack = start.elapsed();
        clean("our image", &image)?;
        let ours = self.mounted_manifest(&image)?;
        same("our second mount", &expected, &ours, &archived)?;
        if self.config.fits_kernel() {
            let seen = judge::by_kernel(&image)?;
            same("the kernel after us", &ours, &seen, &Policy::everything())?;
        } else {
            self.without_kernel("debugfs reads our image instead");
            let copied = judge::by_debugfs(&image, &self.path("copied"))?;
            let expected = judge::copied_by_debugfs(&ours);
            same(
                "debugfs after us",
                &expected,
                &copied,
                &judge::debugfs_policy(),
            )?;
        }
        std::fs::remove_file(&image)?;
        Ok(())
    }

    fn back(&mut self, source: &Source) -> Result<()> {
        let image = if self.config.fits_kernel() {
            let seen = self.mounted_manifest(&source.image)?;
            same(
                "our mount after the kernel",
                &source.manifest,
                &seen,
                &Policy::everything(),
            )?;
            source.image.clone()
        } else {
            self.without_kernel("mke2fs -d fills an image instead");
            self.filled_by_mke2fs(source)?
        };
        let start = Instant::now();
        let mount = self.server.mount(&image, Rights::ReadWrite)?;
        same(
            "our mount",
            &source.manifest,
            &Manifest::of_dir(mount.path())?,
            &filled(self.config),
        )?;
        self.figures.walk = start.elapsed();
        mount.unmount()?;
        clean("the filled image after our mount", &image)?;
        let start = Instant::now();
        let mount = self.server.mount(&image, Rights::ReadWrite)?;
        remove_all(mount.path())?;
        mount.unmount()?;
        self.figures.remove = start.elapsed();
        clean("the image after we removed everything", &image)
    }

    fn filled_by_mke2fs(&self, source: &Source) -> Result<PathBuf> {
        let image = self.path("filled.img");
        let mount = KernelMount::new(&source.image, "ro")?;
        self.config
            .make_filled(&image, self.entries, mount.path())?;
        mount.unmount()?;
        if self.config.has_quota() {
            // mke2fs -d does not update quota for the files that it copies.
            e2fsck_repair(&image, Repair::Everything)?;
        }
        clean("the image that mke2fs filled", &image)?;
        Ok(image)
    }

    /// The tree of `image` through our read-only mount, which must not change it.
    fn mounted_manifest(&self, image: &Path) -> Result<Manifest> {
        let mount = self.server.mount(image, Rights::ReadOnly)?;
        let manifest = Manifest::of_dir(mount.path())?;
        mount.unmount()?;
        Ok(manifest)
    }

    fn without_kernel(&self, instead: &str) {
        eprintln!(
            "=== SKIPPED: the kernel of this machine cannot mount {}; {instead} ===",
            self.config.name
        );
    }
}

/// Comparison policy for an image that the kernel or mke2fs filled.
fn filled(config: &Config) -> Policy {
    use Field::{Mtime, Root, Sockets, SymlinkLinks};
    // mke2fs skips sockets, gives its root its own attributes, truncates times to 32 bits, and
    // preserves hard links of everything except symlinks (debugfs shows one inode per name).
    let lost = [Sockets, Root, Mtime, SymlinkLinks];
    if config.fits_kernel() {
        Policy::default()
    } else {
        lost.into_iter().fold(Policy::default(), Policy::ignore)
    }
}

fn remove_all(root: &Path) -> Result<()> {
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?
        } else {
            std::fs::remove_file(entry.path())?
        }
    }
    ensure!(
        std::fs::read_dir(root)?.next().is_none(),
        "the root is not empty"
    );
    // e2fsck reports a missing lost+found.
    std::fs::create_dir(root.join("lost+found"))?;
    Ok(())
}
