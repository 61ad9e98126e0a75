//! Starts and ends the counting of usage by users, groups and projects (feature `quota`).
//!
//! Start: a mount without quota counts the usage of all inodes and writes the quota files; one
//! transaction makes them the file system's, and turns the feature on. End: one transaction turns
//! it off, and the files are emptied afterwards. After a crash before either, the file of projects
//! is an orphan, which the next mount frees, and those of users and groups are reserved inodes with
//! blocks, which e2fsck empties.

use super::{Tuning, orphan_file, reserved};
use crate::mount::check_sound;
use crate::ops::filesystem::Filesystem;
use crate::parts::file::{self, Position, WritePolicy};
use crate::parts::{quota_files, xattr};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef};
use crate::state::quota::{Kept, Owners, Usage};
use crate::state::superblock::read_superblock;
use crate::types::credits;
use crate::types::error::{Error, Result};
use crate::types::options::MountOptions;
use std::collections::BTreeMap;
use uext4_device::BlockDevice;
use uext4_format::quota::{QuotaEntry, QuotaKind};
use uext4_format::{Feature, InodeFlags, InodeNr, Superblock};
use uext4_journal::Handle;
use uext4_mkfs as mkfs;
use uext4_num::{nonnegative, u64_of};
use uext4_sync::Arc;

/// Counts usage by these kinds of owners from now on, and by no others; limits of kinds that stay
/// are kept. The caller is the only user of the device.
///
/// # Errors
/// [`Error::NotSupported`] with the reason, for a kind beside others that are counted already too;
/// [`Error::NoSpace`] if the files do not fit; [`Error::Resize`] if e2fsck has to run first. Those
/// of mounts.
pub fn set_quota(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    kinds: &[QuotaKind],
) -> Result<()> {
    let disk = read_superblock(&**device, None)?;
    let now = counted(&disk);
    let ends: Vec<QuotaKind> = without(&now, kinds);
    let starts = without(kinds, &now);
    if ends.is_empty() && starts.is_empty() {
        return Ok(());
    }
    check(&disk, &now, &starts)?;
    check_sound(device, options)?;
    if !ends.is_empty() {
        end(device, options, &disk, &ends)?;
    }
    if !starts.is_empty() {
        start(device, options, &starts)?;
    }
    // A last mount writes the backups of the superblock.
    let fs = Filesystem::mount(device.clone(), options.clone())?;
    fs.tune(&Tuning::default())?;
    fs.unmount()
}

fn without(some: &[QuotaKind], others: &[QuotaKind]) -> Vec<QuotaKind> {
    let mut left = some.to_vec();
    left.retain(|kind| !others.contains(kind));
    left
}

/// The kinds that a file system counts.
fn counted(disk: &Superblock) -> Vec<QuotaKind> {
    disk.quota_files().map(|(kind, _)| kind).collect()
}

/// The field that names the file of a kind.
fn number(disk: &mut Superblock, kind: QuotaKind) -> &mut u32 {
    match kind {
        QuotaKind::User => &mut disk.usr_quota_inum,
        QuotaKind::Group => &mut disk.grp_quota_inum,
        QuotaKind::Project => &mut disk.prj_quota_inum,
    }
}

/// The reserved inode of a kind; projects have none.
fn reserved_inode(kind: QuotaKind) -> Option<InodeNr> {
    match kind {
        QuotaKind::User => Some(InodeNr::USER_QUOTA),
        QuotaKind::Group => Some(InodeNr::GROUP_QUOTA),
        QuotaKind::Project => None,
    }
}

fn reserved_inodes(kinds: &[QuotaKind]) -> Vec<InodeNr> {
    let kinds = kinds.iter();
    kinds.filter_map(|kind| reserved_inode(*kind)).collect()
}

fn check(disk: &Superblock, now: &[QuotaKind], starts: &[QuotaKind]) -> Result<()> {
    let features = disk.features();
    let problem = if starts.is_empty() {
        return Ok(());
    } else if !now.is_empty() {
        "a kind of quota beside others that are counted; turn the others off first"
    } else if starts.contains(&QuotaKind::Project) && !features.has(Feature::PROJECT) {
        "project quota without the feature project; turn that on first"
    } else {
        return Ok(());
    };
    Err(Error::NotSupported(problem))
}

fn start(device: &Arc<dyn BlockDevice>, options: &MountOptions, kinds: &[QuotaKind]) -> Result<()> {
    let disk = read_superblock(&**device, None)?;
    let own = reserved_inodes(kinds);
    own.iter()
        .try_for_each(|nr| reserved::empty_inode(device, options, *nr))?;
    let inode = reserved::new_inode(&disk, options)?;
    reserved::write_inodes(device, options, &own, &inode)?;
    // Inodes that could not be emptied keep their blocks, which the next try frees.
    let made = reserved::on_mount(device, options, |fs| {
        let made = make(fs, kinds);
        if made.is_err() {
            for nr in &own {
                file::truncate(fs, reserved::load(fs, *nr)?.arc(), 0)?;
            }
        }
        Ok(made)
    })?;
    if made.is_err() {
        reserved::clear_inodes(device, options, &own)?;
    }
    made
}

/// Makes the files and turns the feature on.
fn make(fs: &Fs, kinds: &[QuotaKind]) -> Result<()> {
    let mut files = Vec::new();
    for kind in kinds {
        let inode = match reserved_inode(*kind) {
            Some(nr) => reserved::load(fs, nr)?,
            None => orphan_file::make(fs)?,
        };
        files.push((*kind, inode));
    }
    let nameless: Vec<InodeNr> = files.iter().map(|(_, inode)| inode.nr()).collect();
    for (kind, inode) in &files {
        write(
            fs,
            inode,
            &mkfs::quota_file(*kind, &usages(fs, *kind, &nameless)?),
        )?;
    }
    let handle = fs.start(credits::CREATE)?;
    for (kind, inode) in &files {
        if reserved_inode(*kind).is_none() {
            fs.orphans.remove(&fs.base, &handle, inode.arc())?;
            inode.set_links(1);
        }
        let mut state = handle.write(inode.arc());
        state.disk.links = 1;
        state.disk.flags.insert(InodeFlags::IMMUTABLE);
    }
    fs.base.superblock.update(&handle, |disk| {
        let mut features = disk.features();
        features.insert(Feature::QUOTA);
        disk.set_features(features);
        for (kind, inode) in &files {
            *number(disk, *kind) = inode.nr().0;
        }
    });
    Ok(())
}

fn write(fs: &Fs, inode: &InodeRef, bytes: &[u8]) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let position = Position::Offset(u64_of(done));
        done += file::write(
            fs,
            inode.arc(),
            position,
            &bytes[done..],
            WritePolicy::INTERNAL,
        )?
        .len_bytes;
    }
    file::write_out(fs, inode.arc())
}

/// The usage of all owners of a kind. Files without names are not charged, nor are values in inodes
/// (`ea_inode`), which count for each file that refers to them.
fn usages(fs: &Fs, kind: QuotaKind, nameless: &[InodeNr]) -> Result<Vec<QuotaEntry>> {
    let orphans = fs.base.superblock.read().disk.orphan_file_inum;
    let mut usages = BTreeMap::new();
    for nr in fs.space.inodes_in_use(&fs.base) {
        let nr = nr?;
        let is_file = nr == InodeNr::ROOT || nr.0 >= fs.base.geometry.first_inode;
        if !is_file || nr.0 == orphans || nameless.contains(&nr) {
            continue;
        }
        let inode = fs.load_inode(nr)?;
        if inode.holds_value() {
            continue;
        }
        let state = inode.read();
        let id = Owners::of(&state.disk).id(kind);
        let entry = usages.entry(id).or_insert_with(|| QuotaEntry {
            id,
            ..QuotaEntry::default()
        });
        let usage = xattr::usage(fs, &state)?;
        entry.inodes += nonnegative(usage.inodes);
        entry.space_bytes += nonnegative(usage.bytes);
    }
    Ok(usages.into_values().collect())
}

fn end(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
    disk: &Superblock,
    kinds: &[QuotaKind],
) -> Result<()> {
    let is_last = counted(disk).len() == kinds.len();
    reserved::on_mount(device, options, |fs| turn_off(fs, kinds, is_last))?;
    let own = reserved_inodes(kinds);
    reserved::on_mount(device, options, |fs| {
        own.iter()
            .try_for_each(|nr| file::truncate(fs, reserved::load(fs, *nr)?.arc(), 0))
    })?;
    reserved::clear_inodes(device, options, &own)
}

/// Takes the files from the file system. That of projects becomes an orphan, and is not freed here:
/// the log may hold its blocks, and the next mount begins with an empty one.
fn turn_off(fs: &Fs, kinds: &[QuotaKind], is_last: bool) -> Result<()> {
    let project = if kinds.contains(&QuotaKind::Project) {
        Some(fs.load_inode(InodeNr(fs.base.superblock.read().disk.prj_quota_inum))?)
    } else {
        None
    };
    let _kept = match &project {
        Some(inode) => quota_files::ensure(fs, Owners::of(&inode.read().disk))?,
        None => Kept::default(),
    };
    let handle = fs.start(credits::REMOVE)?;
    if let Some(inode) = &project {
        handle.write(inode).disk.links = 0;
        fs.orphans.add(&fs.base, &handle, inode)?;
        charge(fs, &handle, inode, kinds);
    }
    fs.base.superblock.update(&handle, |disk| {
        for kind in kinds {
            *number(disk, *kind) = 0;
        }
        let mut features = disk.features();
        if is_last {
            features.remove(Feature::QUOTA);
        }
        disk.set_features(features);
    });
    Ok(())
}

/// Charges an internal file, which becomes an ordinary one, to the kinds that stay.
fn charge(fs: &Fs, handle: &Handle<'_>, inode: &Inode, ended: &[QuotaKind]) {
    let state = inode.read();
    let owners = Owners::of(&state.disk);
    let usage = Usage {
        inodes: 1,
        ..Usage::sectors(state.disk.sectors(&fs.base.geometry))
    };
    let now = nonnegative(fs.now().seconds);
    for accounts in fs.quota.accounts() {
        if !ended.contains(&accounts.kind()) {
            accounts.charge(handle, owners.id(accounts.kind()), usage, now);
        }
    }
}
