//! Images with a history, and damage to them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use uext4::device::{Access, FileDevice};
use uext4::{Filesystem, MountOptions, Threads};
use uext4_judge::EngineTarget;
use uext4_testkit::damage::{Checksums, Target as Part, Wound};
use uext4_testkit::ops::{Palette, Stream, Target};
use uext4_testkit::oracle::mke2fs;
use uext4_testkit::rng::Rng;

const IMAGE_BYTES: u64 = 16 << 20;
/// Operations that fill an image.
const FILLING: usize = 900;
/// Most wounds of an image, and most bytes of noise.
const WOUNDS_MAX: u64 = 16;
const NOISE_MAX: u64 = 200;
/// Unit of lost, moved and overwritten blocks.
const BLOCK: usize = 1024;

/// Options of mke2fs for the images.
const KINDS: [&[&str]; 7] = [
    &["-b", "1024", "-O", "ea_inode,project,orphan_file,quota"],
    &["-b", "4096", "-O", "fast_commit"],
    &["-b", "1024", "-O", "^extents,^metadata_csum,^64bit"],
    &[
        "-b",
        "1024",
        "-I",
        "512",
        "-O",
        "inline_data,metadata_csum_seed",
    ],
    &["-b", "1024", "-O", "bigalloc", "-C", "8192"],
    &["-b", "1024", "-O", "meta_bg,^resize_inode", "-g", "2048"],
    &[
        "-b",
        "2048",
        "-O",
        "^has_journal,sparse_super2",
        "-g",
        "2048",
    ],
];

/// An image as after a crash, and the same after an unmount.
#[derive(Debug)]
pub(super) struct Base {
    live: PathBuf,
    clean: PathBuf,
}

/// The images of all kinds.
pub(super) fn bases(dir: &Path) -> Result<Vec<Base>> {
    let kinds = KINDS.iter().enumerate();
    kinds
        .map(|(at, kind)| {
            let base = Base {
                live: dir.join(format!("live{at}")),
                clean: dir.join(format!("clean{at}")),
            };
            base.fill(kind, at as u64)
                .with_context(|| format!("an image with {kind:?}"))?;
            Ok(base)
        })
        .collect()
}

impl Base {
    fn fill(&self, kind: &[&str], seed: u64) -> Result<()> {
        mke2fs(&self.clean, IMAGE_BYTES, &[SAME, kind].concat())?;
        let device = Arc::new(FileDevice::open(&self.clean, Access::ReadWrite)?);
        let options = MountOptions {
            threads: Threads::Inline,
            ..MountOptions::default()
        };
        let fs = Filesystem::mount(device, options)?;
        let mut target = EngineTarget::new(&fs);
        for (at, op) in Stream::new(seed, Palette::default())
            .take(FILLING)
            .enumerate()
        {
            // Some operations fail by design; the created files are what matters.
            let _ = target.run(&op);
            if at.is_multiple_of(SYNC_EVERY) {
                fs.sync()?;
            }
        }
        fs.sync()?;
        std::fs::copy(&self.clean, &self.live)?;
        fs.unmount()?;
        Ok(())
    }
}

/// The same checksums and hashes in each run.
const SAME: &[&str] = &[
    "-U",
    "11111111-2222-3333-4444-555555555555",
    "-E",
    "hash_seed=11111111-2222-3333-4444-555555555555",
];

/// Operations per transaction.
const SYNC_EVERY: usize = 50;

/// A damaged copy of the image of a seed, and what was done to it.
pub(super) fn damage(bases: &[Base], seed: u64, scratch: &Path) -> Result<(PathBuf, String)> {
    let mut rng = Rng::new(seed);
    let base = rng.pick(bases);
    let from = if rng.chance(50) {
        &base.live
    } else {
        &base.clean
    };
    let image = scratch.join("image");
    std::fs::copy(from, &image)?;
    let mut what = from
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    match rng.below(4) {
        0 => what.push_str(&noise(&image, &mut rng)?),
        1 => what.push_str(&blocks(&image, &mut rng)?),
        _ => wounds(&image, seed, &mut rng, &mut what)?,
    }
    Ok((image, what))
}

/// Wrong fields of structures: one, two or many.
fn wounds(image: &Path, seed: u64, rng: &mut Rng, what: &mut String) -> Result<()> {
    let parts: Vec<_> = Part::ALL
        .into_iter()
        .chain(Part::RARE)
        .chain(Part::INNER)
        .collect();
    let count = *rng.pick(&[1, 2, WOUNDS_MAX]);
    let mut chosen: Vec<_> = (0..count).map(|_| *rng.pick(&parts)).collect();
    // What a damaged superblock leads to cannot be found to damage it.
    chosen.sort_by_key(|part| *part == Part::Superblock);
    let superblocks = chosen.iter().position(|part| *part == Part::Superblock);
    chosen.truncate(superblocks.map_or(chosen.len(), |first| first + 1));
    for (at, part) in (0..).zip(chosen) {
        let checksums = *rng.pick(&[Checksums::Left, Checksums::Fixed, Checksums::Fixed]);
        // The first wound can make another structure unreachable.
        if let Ok(Some(wound)) = Wound::inflict(image, part, seed.wrapping_add(at), checksums) {
            what.push_str(&format!(", {wound}"));
        }
    }
    Ok(())
}

/// Bytes of noise, most of them in the first part, which has the metadata.
fn noise(image: &Path, rng: &mut Rng) -> Result<String> {
    let mut bytes = std::fs::read(image)?;
    let count = rng.between(1, NOISE_MAX);
    for _ in 0..count {
        let range = *rng.pick(&[4 << 10, 1 << 20, bytes.len()]);
        let at = rng.below(range as u64) as usize;
        bytes[at] = rng.below(256) as u8;
    }
    std::fs::write(image, bytes)?;
    Ok(format!(", {count} bytes of noise"))
}

/// Blocks that are overwritten with others, with zeroes or with noise, or the end cut off.
fn blocks(image: &Path, rng: &mut Rng) -> Result<String> {
    let mut bytes = std::fs::read(image)?;
    let n_blocks = (bytes.len() / BLOCK) as u64;
    let count = rng.between(1, WOUNDS_MAX);
    for _ in 0..count {
        let range = *rng.pick(&[40, 1000, n_blocks]);
        let to = rng.below(range) as usize * BLOCK;
        let mut content = vec![0; BLOCK];
        match rng.below(3) {
            0 => {}
            1 => rng.fill(&mut content),
            _ => {
                let from = rng.below(range) as usize * BLOCK;
                content.copy_from_slice(&bytes[from..from + BLOCK]);
            }
        }
        bytes[to..to + BLOCK].copy_from_slice(&content);
    }
    if rng.chance(10) {
        bytes.truncate(rng.below(n_blocks) as usize * BLOCK);
    }
    std::fs::write(image, &bytes)?;
    Ok(format!(
        ", {count} blocks overwritten, {} bytes long",
        bytes.len()
    ))
}
