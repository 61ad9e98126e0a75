//! Fault injection into an image: one wrong field or some flipped bits in a chosen structure.
//!
//! With [`Checksums::Fixed`] the checksum of the damaged structure is recomputed, so the damage
//! passes it and must be found by the checks after it.
//!
//! The module has its own knowledge of the format and does not use crate `format`: an oracle must
//! not share our mistakes.
//!
//! Invariants: the same image, target and seed give the same damage; [`Wound::heal`] undoes it.
//! Not here: `meta_bg` images, `bigalloc` bitmaps.

mod checksums;
mod fields;
mod image;
mod inner;
mod layout;
mod rare;
mod target;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::rng::Rng;
pub use image::Change;
pub use target::Target;

use fields::Field;
use image::Image;
use layout::{Layout, Spot};

/// Whether the checksum of the damaged structure is recomputed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// The checksum is left as it was and reveals the damage.
    Left,
    /// The checksum is computed anew, so that only the content is wrong.
    Fixed,
}

/// One damage to an image: the bytes that it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wound {
    /// Kind of the damaged structure.
    pub target: Target,
    /// Location of the damage in words (`inode 12, links_count`).
    pub place: String,
    /// Every change, in order.
    pub changes: Vec<Change>,
}

impl fmt::Display for Wound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.target, self.place)?;
        for change in &self.changes {
            write!(f, "; {:02x?} -> {:02x?}", change.before, change.after)?;
            write!(f, " at byte {}", change.offset_bytes)?;
        }
        Ok(())
    }
}

impl Wound {
    /// Damages `target` in `image`, chosen by `seed`. `None` when the image has no such structure.
    ///
    /// # Errors
    /// The image cannot be read or written, or is no sound ext4 image.
    pub fn inflict(
        image: &Path,
        target: Target,
        seed: u64,
        checksums: Checksums,
    ) -> Result<Option<Self>> {
        let mut image = Image::open(image)?;
        let layout = Layout::read(&image).context("read the layout to damage")?;
        let mut rng = Rng::new(seed);
        let Some(spot) = layout.spot(&image, target, &mut rng)? else {
            return Ok(None);
        };
        let field = fields::choose(&image, &layout, &spot, &mut rng)?;
        let place = format!("{}, {}", spot.name, field.name);
        hurt(&mut image, &spot, &field, &mut rng)?;
        if checksums == Checksums::Fixed {
            checksums::fix(&mut image, &layout, &spot)?;
        }
        Ok(Some(Self {
            target,
            place,
            changes: image.into_changes(),
        }))
    }

    /// Undoes the damage.
    ///
    /// # Errors
    /// The image cannot be written.
    pub fn heal(&self, image: &Path) -> Result<()> {
        let mut image = Image::open(image)?;
        for change in self.changes.iter().rev() {
            image.write(change.offset_bytes, &change.before)?;
        }
        Ok(())
    }
}

/// Writes a wrong value to one field. It always differs from the original.
fn hurt(image: &mut Image, spot: &Spot, field: &Field, rng: &mut Rng) -> Result<()> {
    let offset = spot.offset_bytes + field.offset_bytes;
    let before = image.read(offset, field.len_bytes)?;
    let mut after = wrong_value(&before, rng);
    if after == before {
        after[0] ^= 1 << rng.below(8);
    }
    image.write(offset, &after)
}

/// A wrong value by kind of fault: off by one, extremes, noise, one bit.
fn wrong_value(before: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut after = before.to_vec();
    match rng.below(7) {
        0 => after.fill(0),
        1 => after.fill(0xFF),
        2 => after[0] = after[0].wrapping_add(1),
        3 => after[0] = after[0].wrapping_sub(1),
        4 => rng.fill(&mut after),
        5 => {
            // The highest bit: a sign or a size that overflows.
            if let Some(last) = after.last_mut() {
                *last ^= 0x80;
            }
        }
        _ => {
            let bit = rng.below(8 * after.len() as u64);
            after[bit as usize / 8] ^= 1 << (bit % 8);
        }
    }
    after
}
