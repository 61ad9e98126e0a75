//! Threads that use space behind the end of files, during background commits and those of others.

use anyhow::{Result, ensure};
use uext4::{Caller, FallocateMode, Filesystem, InodeRef, WriteContext};
use uext4_testkit::rng::Rng;

use super::config::Config;

/// Initial blocks of a moved file.
const MOVED_BLOCKS: u8 = 4;

/// The files of one thread.
pub(super) struct BeyondFiles<'a> {
    pub(super) fs: &'a Filesystem,
    pub(super) own: &'a InodeRef,
    pub(super) config: &'a Config,
}

impl BeyondFiles<'_> {
    fn create(&self, name: &str) -> Result<InodeRef> {
        let caller = Caller::root();
        Ok(self.fs.create(self.own, name.as_bytes(), 0o600, &caller)?)
    }

    /// Makes a hole and held space behind the end of a file, writes over both, and may change them.
    pub(super) fn preallocate_and_write(&self, n: u64, rng: &mut Rng) -> Result<()> {
        let fs = self.fs;
        let unit = self.config.shift_bytes();
        let file = self.create(&format!("held {n}"))?;
        fs.write(&file, 0, &rng.bytes(100), &WriteContext::ROOT)?;
        let start = rng.between(2, 5) * unit;
        let len = rng.between(1, 2) * unit;
        fs.fallocate(
            &file,
            FallocateMode::AllocateKeepSize,
            start..start + len,
            &WriteContext::ROOT,
        )?;
        if rng.chance(50) {
            fs.fsync(&file)?;
        }
        let from = rng.between(101, start - 1);
        let data = rng.bytes((start + len - from) as usize);
        let written = fs.write(&file, from, &data, &WriteContext::ROOT)?;
        ensure!(written.len_bytes == data.len(), "a short write");
        match rng.below(6) {
            0 => fs.fallocate(
                &file,
                FallocateMode::PunchHole,
                start / 2..start / 2 + len,
                &WriteContext::ROOT,
            )?,
            1 => fs.truncate(&file, start + len / 2)?,
            2 => fs.fallocate(
                &file,
                FallocateMode::InsertRange,
                unit..unit + unit,
                &WriteContext::ROOT,
            )?,
            3 => fs.fallocate(
                &file,
                FallocateMode::CollapseRange,
                unit..unit + unit,
                &WriteContext::ROOT,
            )?,
            4 => fs.fallocate(
                &file,
                FallocateMode::WriteZeroes,
                start..start + 2 * len,
                &WriteContext::ROOT,
            )?,
            _ => {}
        }
        Ok(())
    }

    /// Makes a file of four blocks, 1 to 4, collapses the second, then inserts two there.
    pub(super) fn shift(&self, n: u64) -> Result<()> {
        let (fs, unit) = (self.fs, self.config.shift_bytes());
        let file = self.create(&format!("moved {n}"))?;
        let data: Vec<u8> = (1..=MOVED_BLOCKS)
            .flat_map(|block| vec![block; unit as usize])
            .collect();
        let written = fs.write(&file, 0, &data, &WriteContext::ROOT)?;
        ensure!(written.len_bytes == data.len(), "a short write");
        fs.fallocate(
            &file,
            FallocateMode::CollapseRange,
            unit..unit + unit,
            &WriteContext::ROOT,
        )?;
        fs.fallocate(
            &file,
            FallocateMode::InsertRange,
            unit..unit + 2 * unit,
            &WriteContext::ROOT,
        )?;
        Ok(())
    }
}

/// Checks the file of [`BeyondFiles::shift`] after a crash: a prefix of the written data, or the
/// state after a whole step.
///
/// # Errors
/// The content is neither.
pub(super) fn check_shifted(config: &Config, data: &[u8]) -> Result<()> {
    let unit = config.shift_bytes() as usize;
    let blocks: Vec<&[u8]> = data.chunks(unit).collect();
    let first: Vec<u8> = blocks.iter().map(|block| block[0]).collect();
    let allowed =
        [1, 2, 3, 4].starts_with(&first) || first == [1, 3, 4] || first == [1, 0, 0, 3, 4];
    let even = blocks
        .iter()
        .zip(&first)
        .all(|(block, first)| block.iter().all(|byte| byte == first));
    ensure!(allowed && even, "blocks {first:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_move_is_seen() {
        let config = Config::named("ext4").expect("a known configuration");
        let unit = config.shift_bytes() as usize;
        let file = |blocks: &[u8]| {
            let bytes = blocks.iter().flat_map(|block| vec![*block; unit]);
            bytes.collect::<Vec<u8>>()
        };
        for whole in [
            &[][..],
            &[1, 2],
            &[1, 2, 3, 4],
            &[1, 3, 4],
            &[1, 0, 0, 3, 4],
        ] {
            assert!(check_shifted(&config, &file(whole)).is_ok(), "{whole:?}");
        }
        for half in [&[1, 0, 3, 4][..], &[1, 3, 4, 4], &[1, 3], &[0, 2, 3, 4]] {
            assert!(check_shifted(&config, &file(half)).is_err(), "{half:?}");
        }
    }
}
