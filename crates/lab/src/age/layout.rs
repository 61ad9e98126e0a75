//! Layout of an aged image, read by the same programs for every system: extents and directories by
//! the library on a read-only mount, free extents by e2freefrag, consistency by e2fsck.
//!
//! The files must be those of the workload, in name, number and size.

use super::profile::Profile;
use super::volume::{Geometry, dir_name};
use super::workload::{BLOCK_BYTES, File};
use crate::client::count_runs;
use crate::collection::Sample;
use crate::experiments::Unit;
use crate::stage::{self, Setup};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use uext4::{Caller, Filesystem, InodeRef, Visit};
use uext4_testkit::oracle::{self, Program};

/// Lower bounds of the classes of free extents, as printed by e2freefrag; the last class is open.
const CLASSES: [&str; 14] = [
    "4K", "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M", "2M", "4M", "8M", "16M", "32M",
];

/// Place of a file with data.
struct Placed {
    extents: usize,
    blocks: u64,
    first_block: u64,
}

/// Checks the image, and returns its numbers.
pub(super) fn read(
    image: &Path,
    profile: &Profile,
    geometry: &Geometry,
    live: &[File],
) -> Result<Vec<Sample>> {
    let verdict = oracle::e2fsck(image)?;
    ensure!(verdict.is_silent(), "e2fsck: {:?}", verdict.problems());
    let setup = Setup {
        options: "ro".to_owned(),
        ..Setup::default()
    };
    let filesystem = stage::open(image, &setup)?;
    let samples = Reader::new(&filesystem, profile)?.samples(geometry, live);
    filesystem.unmount()?;
    let mut samples = samples?;
    samples.extend(free_extents(image)?);
    Ok(samples)
}

struct Reader<'a> {
    filesystem: &'a Filesystem,
    dirs: Vec<InodeRef>,
    caller: Caller,
}

impl<'a> Reader<'a> {
    fn new(filesystem: &'a Filesystem, profile: &Profile) -> Result<Self> {
        let caller = Caller::root();
        let root = filesystem.root()?;
        let mut dirs: Vec<InodeRef> = Vec::new();
        for (nr, parent) in profile.parents().into_iter().enumerate() {
            let parent = parent.map_or(&root, |parent| &dirs[parent]);
            let dir = filesystem.lookup(parent, dir_name(nr).as_bytes(), &caller)?;
            dirs.push(dir);
        }
        Ok(Self {
            filesystem,
            dirs,
            caller,
        })
    }

    fn samples(&self, geometry: &Geometry, live: &[File]) -> Result<Vec<Sample>> {
        let found = self.count_files()?;
        let expected = live.len() as u64;
        ensure!(
            found == expected,
            "{found} files are there instead of {expected}"
        );
        let mut extents = Vec::new();
        let mut blocks = 0;
        let mut locality = Locality::new(self.dirs.len());
        for file in live {
            let Some(placed) = self.locate(file)? else {
                continue;
            };
            extents.push(placed.extents);
            blocks += placed.blocks;
            let dir_flex = u64::from(self.dirs[file.dir].nr().0 - 1) / geometry.inodes_per_flex;
            let is_near = placed.first_block / geometry.blocks_per_flex == dir_flex;
            locality.add(file.dir, placed.first_block, is_near);
        }
        let mut samples = of_extents(extents, blocks);
        samples.extend(locality.samples());
        Ok(samples)
    }

    /// Names in the directories of the tree that are no directories.
    fn count_files(&self) -> Result<u64> {
        let mut files = 0;
        for dir in &self.dirs {
            self.filesystem.read_dir(dir, 0, &mut |entry| {
                let is_dir = matches!(entry.name, b"." | b"..") || entry.name.starts_with(b"dir.");
                files += u64::from(!is_dir);
                Visit::Continue
            })?;
        }
        Ok(files)
    }

    /// The place of the data; `None` for an empty file.
    fn locate(&self, file: &File) -> Result<Option<Placed>> {
        let name = file.name();
        let inode = self
            .filesystem
            .lookup(&self.dirs[file.dir], name.as_bytes(), &self.caller)
            .with_context(|| name.clone())?;
        let size = self.filesystem.attr(&inode).size_bytes;
        let expected = file.size_bytes;
        ensure!(
            size == expected,
            "{name}: {size} bytes instead of {expected}"
        );
        let extents = self.filesystem.fiemap(&inode, 0, u64::MAX)?;
        let blocks = extents.iter().map(|extent| extent.len_bytes).sum::<u64>() / BLOCK_BYTES;
        let expected = file.size_bytes.div_ceil(BLOCK_BYTES);
        ensure!(
            blocks == expected,
            "{name}: {blocks} blocks instead of {expected}"
        );
        Ok(extents.first().map(|first| Placed {
            extents: count_runs(
                extents
                    .iter()
                    .map(|extent| (extent.physical_bytes, extent.len_bytes)),
            ),
            blocks,
            first_block: first.physical_bytes / BLOCK_BYTES,
        }))
    }
}

/// Numbers about the extents of files with data.
fn of_extents(mut extents: Vec<usize>, blocks: u64) -> Vec<Sample> {
    extents.sort_unstable();
    let files = extents.len().max(1) as f64;
    let sum = extents.iter().sum::<usize>() as f64;
    let p99 = extents
        .get(extents.len() * 99 / 100)
        .copied()
        .unwrap_or_default();
    let fragmented = extents.iter().filter(|count| **count > 1).count() as f64;
    let mib = (blocks * BLOCK_BYTES) as f64 / f64::from(1 << 20);
    vec![
        Sample::new("files", Unit::Count, files),
        Sample::new("extents per file", Unit::Count, sum / files),
        Sample::new("extents per file, p99", Unit::Count, p99 as f64),
        Sample::new("extents per MiB", Unit::Count, sum / mib.max(1e-9)),
        Sample::new("fragmented files", Unit::Percent, fragmented / files * 1e2),
    ]
}

/// Sums up the places of files, in the order of creation.
struct Locality {
    /// First block of the last file of each directory.
    last: Vec<Option<u64>>,
    files: u64,
    near: u64,
    neighbours: u64,
    distance_blocks: u64,
}

impl Locality {
    fn new(dirs: usize) -> Self {
        Self {
            last: vec![None; dirs],
            files: 0,
            near: 0,
            neighbours: 0,
            distance_blocks: 0,
        }
    }

    fn add(&mut self, dir: usize, first_block: u64, is_near: bool) {
        self.files += 1;
        self.near += u64::from(is_near);
        if let Some(last) = self.last[dir].replace(first_block) {
            self.neighbours += 1;
            self.distance_blocks += last.abs_diff(first_block);
        }
    }

    fn samples(&self) -> [Sample; 2] {
        let near = self.near as f64 / self.files.max(1) as f64 * 1e2;
        let distance = self.distance_blocks as f64 / self.neighbours.max(1) as f64;
        let mib = distance * BLOCK_BYTES as f64 / f64::from(1 << 20);
        [
            Sample::new("files near their directory", Unit::Percent, near),
            Sample::new("distance of neighbours", Unit::Mebibytes, mib),
        ]
    }
}

/// Share of the free space by length of the free extent, and their mean length.
fn free_extents(image: &Path) -> Result<Vec<Sample>> {
    let output = Program::new("e2freefrag")?.arg(image).run_ok()?.stdout;
    let mean = output
        .lines()
        .find_map(|line| line.strip_prefix("Avg. free extent:"))
        .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok())
        .context("e2freefrag prints no mean")?;
    let mut percent = [0.0; CLASSES.len()];
    for (class, share) in output.lines().filter_map(class) {
        percent[class] += share;
    }
    let mut samples = vec![Sample::new("free extent", Unit::MeanKibibytes, mean)];
    let named = CLASSES.iter().zip(percent).map(|(class, percent)| {
        let metric = format!("free space in extents from {class}");
        Sample::new(metric, Unit::Percent, percent)
    });
    samples.extend(named);
    Ok(samples)
}

/// Class and percent from a line of e2freefrag: `LOW...  HIGH-  :  EXTENTS  BLOCKS  PERCENT%`.
fn class(line: &str) -> Option<(usize, f64)> {
    let (range, numbers) = line.split_once(':')?;
    let low = range.split("...").next()?.trim();
    let percent = numbers.split_whitespace().nth(2)?.strip_suffix('%')?;
    let known = CLASSES.iter().position(|class| *class == low);
    let class = known.unwrap_or(CLASSES.len() - 1);
    Some((class, percent.parse().ok()?))
}

#[cfg(test)]
mod tests;
