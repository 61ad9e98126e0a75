//! Quota files: loading, and entries for new owners.
//!
//! An owner gets its entry before it is charged, in a transaction of its own
//! (`Rank::QuotaPlacing`). The callers have no handle.

use crate::inode::InodeState;
use crate::quota::{Accounts, GraceTimes, Owners, Quota, QuotaFile};
use crate::{Error, Fs, Result, credits, map};
use uext4_format::quota::{QuotaEntry, QuotaKind};
use uext4_format::{BlockNr, Corrupt, CorruptKind, Feature, InodeNr, LogicalBlock, Place};
use uext4_journal::Handle;
use uext4_num::{clamp_u32, nonnegative};

/// Larger quota files, with several million owners, are refused.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// As [`load`], for a read-only mount: damage of the quota files is recorded but not an error.
pub(crate) fn load_to_read(fs: &Fs) -> Result<Quota> {
    match load(fs) {
        Err(damage @ Error::Corrupt(_)) => {
            fs.incidents.met(&damage);
            Ok(Quota::unusable())
        }
        other => other,
    }
}

/// Reads the quota files; empty without the feature.
pub(crate) fn load(fs: &Fs) -> Result<Quota> {
    if !fs.features.has(Feature::QUOTA) {
        return Ok(Quota::default());
    }
    let (files, own) = {
        let disk = &fs.superblock.read().disk;
        let own = vec![disk.prj_quota_inum, disk.orphan_file_inum];
        (disk.quota_files(), own)
    };
    let accounts = files.map(|(kind, nr)| accounts(fs, kind, nr));
    Ok(Quota::new(accounts.collect::<Result<_>>()?, own, fs))
}

fn accounts(fs: &Fs, kind: QuotaKind, nr: InodeNr) -> Result<Accounts> {
    let corrupt =
        |problem| -> Error { Corrupt::new(Place::Inode(nr), "quota file", problem).into() };
    let blocks = blocks_of(fs, &fs.load_inode(nr)?.read(), corrupt)?;
    Ok(Accounts::new(
        kind,
        nr,
        QuotaFile::read(fs, kind, blocks, corrupt)?,
    ))
}

/// Locations of the file's blocks.
fn blocks_of(
    fs: &Fs,
    state: &InodeState,
    corrupt: impl Fn(CorruptKind) -> Error,
) -> Result<Vec<BlockNr>> {
    if state.disk.size > FILE_BYTES_MAX {
        return Err(corrupt(CorruptKind::TooLarge));
    }
    let count = clamp_u32(state.disk.size.div_ceil(fs.block_bytes()));
    map::blocks_of(fs, state, count, || corrupt(CorruptKind::Hole))
}

/// Sets an owner's limits to those of `wanted`.
pub(crate) fn set_limits(fs: &Fs, kind: QuotaKind, wanted: &QuotaEntry) -> Result<()> {
    let accounts = fs.quota.kept(kind)?;
    ensure_one(fs, accounts, wanted.id)?;
    let handle = fs.start(credits::ATTRIBUTES)?;
    accounts.set_limits(&handle, wanted, nonnegative(fs.now().seconds));
    Ok(())
}

/// Sets the grace times of a kind.
pub(crate) fn set_grace(fs: &Fs, kind: QuotaKind, grace: GraceTimes) -> Result<()> {
    let accounts = fs.quota.kept(kind)?;
    let handle = fs.start(credits::ATTRIBUTES)?;
    accounts.set_grace(&handle, grace);
    Ok(())
}

/// Ensures entries of owners in the quota files.
pub(crate) fn ensure(fs: &Fs, owners: Owners) -> Result<()> {
    let mut all = fs.quota.accounts().iter();
    all.try_for_each(|accounts| ensure_one(fs, accounts, owners.id(accounts.kind())))
}

/// Creates entries for owners that were charged without one: the file lacked it, or the owner
/// changed late.
pub(crate) fn place_missing(fs: &Fs) -> Result<()> {
    let mut answer = Ok(());
    for accounts in fs.quota.accounts() {
        for id in accounts.take_missing() {
            if let Err(error) = ensure_one(fs, accounts, id) {
                accounts.put_missing(id);
                answer = answer.and(Err(error));
            }
        }
    }
    answer
}

fn ensure_one(fs: &Fs, accounts: &Accounts, id: u32) -> Result<()> {
    if accounts.has_place(id) {
        return Ok(());
    }
    let _alone = accounts.lock_placing();
    if accounts.has_place(id) {
        return Ok(());
    }
    let handle = fs.start(credits::MAP)?;
    while let Some(next) = accounts.file().next_block() {
        grow(fs, &handle, accounts, next)?;
    }
    extend(fs, &handle, accounts)?;
    accounts.place(&handle, id)
}

/// Sets the size to the end of the last block: that of a new file may be before it.
fn extend(fs: &Fs, handle: &Handle<'_>, accounts: &Accounts) -> Result<()> {
    let size_bytes = accounts.file().size_bytes();
    let inode = fs.load_inode(accounts.nr())?;
    if inode.read().disk.size < size_bytes {
        handle.write(&inode).disk.size = size_bytes;
    }
    Ok(())
}

/// Adds a block to the file. It is zeroed before the transaction that maps it commits.
fn grow(fs: &Fs, handle: &Handle<'_>, accounts: &Accounts, at: LogicalBlock) -> Result<()> {
    let inode = fs.load_inode(accounts.nr())?;
    let block = map::insert_block(fs, handle, &mut handle.write(&inode), at)?;
    let byte = block.0 << fs.geometry.block_bits;
    fs.device.write_at(byte, &vec![0; fs.block_size()])?;
    handle.write(accounts.file()).grow(block);
    Ok(())
}
