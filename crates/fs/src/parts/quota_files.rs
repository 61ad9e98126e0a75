//! Quota files: loading, and entries for new owners.
//!
//! An owner gets its entry before it is charged, in a transaction of its own
//! (`Rank::QuotaPlacing`). The callers have no handle.

use crate::parts::map;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::state::quota::{Accounts, GraceTimes, Kept, Owners, Quota, QuotaFile};
use crate::types::credits;
use crate::types::error::{Error, Result};
use uext4_format::quota::{QuotaEntry, QuotaKind};
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, Feature, InodeNr, LogicalBlock};
use uext4_journal::Handle;
use uext4_num::{clamp_u32, nonnegative};

/// Larger quota files, with several million owners, are refused, and none becomes larger: the nodes
/// of its tree are in memory.
const FILE_BYTES_MAX: u64 = if cfg!(test) { 1 << 20 } else { 512 << 20 };
/// Most unused entries that are removed before a new one.
const REMOVED_MAX: usize = 1024;

/// As [`load`], for a read-only mount: damage of the quota files is recorded but not an error.
pub(crate) fn load_to_read(fs: &Fs) -> Result<Quota> {
    match load(fs) {
        Err(damage @ Error::Corrupt(_)) => {
            fs.base.incidents.met(&damage);
            Ok(Quota::unusable())
        }
        other => other,
    }
}

/// Reads the quota files; empty without the feature.
pub(crate) fn load(fs: &Fs) -> Result<Quota> {
    if !fs.base.features.has(Feature::QUOTA) {
        return Ok(Quota::default());
    }
    let (files, own) = {
        let disk = &fs.base.superblock.read().disk;
        let own = vec![disk.prj_quota_inum, disk.orphan_file_inum];
        (disk.quota_files(), own)
    };
    let accounts = files.map(|(kind, nr)| accounts(fs, kind, nr));
    Ok(Quota::new(accounts.collect::<Result<_>>()?, own, &fs.base))
}

fn accounts(fs: &Fs, kind: QuotaKind, nr: InodeNr) -> Result<Accounts> {
    let corrupt = |problem| -> Error {
        Corrupt::new(DamageLocation::Inode(nr), "quota file", problem).into()
    };
    let inode = fs.load_inode(nr)?;
    // An allocation would take the inode of a file that is not in use.
    if inode.read().disk.links == 0 && nr.0 >= fs.base.geometry.first_inode {
        return Err(corrupt(CorruptKind::InodeFree));
    }
    let blocks = blocks_of(fs, &inode.read(), corrupt)?;
    Ok(Accounts::new(
        kind,
        nr,
        QuotaFile::read(&fs.base, kind, blocks, corrupt)?,
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
    let mut kept = Kept::default();
    ensure_one(fs, accounts, wanted.id, &mut kept)?;
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

/// Ensures entries of owners in the quota files, and keeps them until they are charged.
pub(crate) fn ensure(fs: &Fs, owners: Owners) -> Result<Kept> {
    let mut kept = Kept::default();
    for accounts in fs.quota.accounts() {
        ensure_one(fs, accounts, owners.id(accounts.kind()), &mut kept)?;
    }
    Ok(kept)
}

/// Creates entries for owners that were charged without one: the file lacked it, or the owner
/// changed late.
pub(crate) fn add_missing_entries(fs: &Fs) -> Result<()> {
    let mut answer = Ok(());
    for accounts in fs.quota.accounts() {
        for id in accounts.take_missing() {
            if let Err(error) = ensure_one(fs, accounts, id, &mut Kept::default()) {
                accounts.put_missing(id);
                answer = answer.and(Err(error));
            }
        }
    }
    answer
}

fn ensure_one(fs: &Fs, accounts: &Accounts, id: u32, kept: &mut Kept) -> Result<()> {
    if accounts.keep(id, kept) {
        return Ok(());
    }
    let _alone = accounts.lock_placing();
    if accounts.keep(id, kept) {
        return Ok(());
    }
    forget_unused(fs, accounts)?;
    let handle = fs.start(credits::MAP + credits::QUOTA_ENTRY)?;
    let grown = lengthen(fs, &handle, accounts);
    // Blocks that were added belong to the file, also if there are no more.
    extend(fs, &handle, accounts)?;
    grown?;
    accounts.assign_slot(&handle, id, kept)
}

/// Removes entries of owners that have neither usage nor limits, when there are many owners.
fn forget_unused(fs: &Fs, accounts: &Accounts) -> Result<()> {
    for id in accounts.idle(REMOVED_MAX) {
        let handle = fs.start(credits::QUOTA_ENTRY)?;
        accounts.forget(&handle, id);
    }
    Ok(())
}

/// Adds the blocks that the next entry may need.
fn lengthen(fs: &Fs, handle: &Handle<'_>, accounts: &Accounts) -> Result<()> {
    while let Some(next) = accounts.file().next_block() {
        grow(fs, handle, accounts, next)?;
    }
    Ok(())
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
///
/// # Errors
/// [`Error::NoSpace`] if the file is as large as a mount takes it.
fn grow(fs: &Fs, handle: &Handle<'_>, accounts: &Accounts, at: LogicalBlock) -> Result<()> {
    if accounts.file().size_bytes() + fs.block_bytes() > FILE_BYTES_MAX {
        return Err(Error::NoSpace);
    }
    let inode = fs.load_inode(accounts.nr())?;
    let block = map::insert_block(fs, handle, &mut handle.write(&inode), at)?;
    let byte = block.0 << fs.base.geometry.block_bits;
    fs.base.device.write_at(byte, &vec![0; fs.block_size()])?;
    handle.write(accounts.file()).grow(block);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::filesystem::Filesystem;
    use crate::types::attr::{Caller, SetAttr};
    use crate::types::options::MountOptions;
    use uext4_device::MemDevice;
    use uext4_mkfs as mkfs;
    use uext4_mkfs::{MkfsOptions, Preset};
    use uext4_sync::Arc;
    use uext4_testkit::oracle;

    /// Identifiers that share no node of the tree below its root.
    #[test]
    fn a_quota_file_becomes_no_larger_than_a_mount_takes_it() {
        let device = Arc::new(MemDevice::new(64 << 20));
        let mut made = MkfsOptions::new(Preset::Ext4);
        made.features.apply_list("quota,project").unwrap();
        mkfs::format(&*device, &made).unwrap();
        let fs = Filesystem::mount(device.clone(), MountOptions::default()).unwrap();
        let (root, caller) = (fs.root().unwrap(), Caller::root());
        let own = |nr: u32| -> Result<()> {
            let file = fs.create(&root, format!("{nr}").as_bytes(), 0o600, &caller)?;
            let set = SetAttr {
                project: Some(nr.wrapping_mul(0x0101_8003)),
                ..SetAttr::default()
            };
            fs.set_attr(&file, &set, &caller).map(drop)
        };
        let refused = (1..1000).find_map(|nr| own(nr).err());
        assert!(matches!(refused, Some(Error::NoSpace)), "{refused:?}");
        own(1001).unwrap_err();
        // The owners that are there go on.
        let owners = fs.quota(QuotaKind::Project).unwrap().len();
        assert!(owners > 100, "{owners}");
        fs.create(&root, b"more", 0o600, &caller).unwrap();
        drop(root);
        fs.unmount().unwrap();
        let scratch = oracle::scratch_dir().unwrap();
        let image = scratch.path().join("image");
        std::fs::write(&image, device.to_bytes()).unwrap();
        oracle::assert_clean(&image);
        Filesystem::mount(device, MountOptions::default()).unwrap();
    }
}
