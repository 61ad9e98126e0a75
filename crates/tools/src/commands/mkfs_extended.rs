//! `uext4 mkfs -E`: the supported extended options of mke2fs.

use crate::numbers;
use std::str::FromStr;
use uext4::mkfs::{InodeTables, MkfsOptions, Placement};

/// One list of options after `-E`.
#[derive(Clone)]
pub(super) struct Extended(Vec<One>);

#[derive(Clone)]
enum One {
    Stride(u16),
    StripeWidth(u32),
    Resize(u64),
    Tables(InodeTables),
    RootOwner(u32, u32),
    HashSeed([u8; 16]),
    OrphanFile(u32),
    Placement(Placement),
    /// No effect: discarding is left to the program that makes the image file.
    Discard,
}

impl FromStr for Extended {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, String> {
        let words = list.split(',').filter(|word| !word.is_empty());
        Ok(Self(words.map(one).collect::<Result<_, _>>()?))
    }
}

impl Extended {
    pub(super) fn apply(&self, options: &mut MkfsOptions) {
        for one in &self.0 {
            match one {
                One::Stride(blocks) => options.raid_stride = *blocks,
                One::StripeWidth(blocks) => options.raid_stripe_width = *blocks,
                One::Resize(blocks) => options.resize_max_blocks = Some(*blocks),
                One::Tables(tables) => options.inode_tables = *tables,
                One::RootOwner(uid, gid) => options.root_owner = (*uid, *gid),
                One::HashSeed(seed) => options.hash_seed = Some(*seed),
                One::OrphanFile(blocks) => options.orphan_file_blocks = Some(*blocks),
                One::Placement(placement) => options.placement = *placement,
                One::Discard => {}
            }
        }
    }
}

fn one(word: &str) -> Result<One, String> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    match name {
        "stride" => Ok(One::Stride(number(word, value)?)),
        "stripe_width" | "stripe-width" => Ok(One::StripeWidth(number(word, value)?)),
        "resize" => Ok(One::Resize(number(word, value)?)),
        "lazy_itable_init" if value == "0" => Ok(One::Tables(InodeTables::Zero)),
        "lazy_itable_init" => Ok(One::Tables(InodeTables::Lazy)),
        "root_owner" if value.is_empty() => {
            let (uid, gid) = caller();
            Ok(One::RootOwner(uid, gid))
        }
        "root_owner" => {
            let (uid, gid) = value
                .split_once(':')
                .ok_or_else(|| format!("{word}: an owner is UID:GID"))?;
            Ok(One::RootOwner(number(word, uid)?, number(word, gid)?))
        }
        "hash_seed" => Ok(One::HashSeed(numbers::uuid(value)?)),
        "orphan_file_size" => Ok(One::OrphanFile(number(word, value)?)),
        "packed_meta_blocks" if value == "0" => Ok(One::Placement(Placement::Spread)),
        "packed_meta_blocks" if matches!(value, "" | "1") => Ok(One::Placement(Placement::Packed)),
        "discard" | "nodiscard" => Ok(One::Discard),
        _ => Err(format!("{name} is unknown or not supported")),
    }
}

/// Owner and group of this process.
pub(super) fn caller() -> (u32, u32) {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    (uid.as_raw(), gid.as_raw())
}

fn number<T: FromStr>(word: &str, value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("{word}: not a number that fits"))
}
