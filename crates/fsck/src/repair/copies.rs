//! Backups of the superblock and of descriptors, brought up to date at the end of a repair.
//!
//! A backup is of use only if it leads to the same structures as the primary one: it is compared
//! by what says where they are, not by counts and times, which it may have of any age. e2fsck does
//! the same without a word (`e2fsck/super.c`, `check_backup_super_block`).
//!
//! They are written outside the log: nothing reads them while the primary ones are sound.

use crate::subject::Subject;
use std::ops::Range;
use uext4_format::superblock::SUPERBLOCK_BYTES;
use uext4_format::{BlockNr, Feature, Features, GroupDescriptor, GroupNr, Superblock};
use uext4_num::usize_of;
use uext4_volume::Result;
use uext4_volume::superblock::backup;

/// Descriptors that a repair may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Descriptors {
    Changed,
    Unchanged,
}

/// Writes the backups that are not of this superblock, and descriptors that lead elsewhere: those
/// are compared if a superblock was stale, or descriptors changed. Returns how many cannot be read
/// or written, which is no damage of the file system.
pub(super) fn refresh(subject: &Subject, descriptors: Descriptors) -> Result<u64> {
    let geometry = &subject.geometry;
    let groups = || (1..geometry.group_count).map(GroupNr);
    let mut is_stale = descriptors == Descriptors::Changed;
    let (mut n_failed, mut has_written) = (0, false);
    for group in groups() {
        let block = geometry.superblock_block(group);
        if let Some(block) = block.filter(|block| geometry.contains(*block)) {
            match refresh_superblock(subject, group, block) {
                Ok(written) => has_written |= written,
                Err(_) => n_failed += 1,
            }
        }
    }
    is_stale |= has_written;
    for group in groups().filter(|_| is_stale) {
        let Some((first, run)) = geometry.descriptor_run(group) else {
            continue;
        };
        for at in 0..run.len_blocks {
            let copy = BlockNr(run.start.0 + u64::from(at));
            match refresh_descriptors(subject, first.saturating_add(at), copy) {
                Ok(written) => has_written |= written,
                Err(_) => n_failed += 1,
            }
        }
    }
    if has_written {
        subject.device.flush()?;
    }
    Ok(n_failed)
}

/// Writes the backup in a group, unless it leads to the same structures.
fn refresh_superblock(subject: &Subject, group: GroupNr, block: BlockNr) -> Result<bool> {
    let offset = block.0 << subject.geometry.block_bits;
    let mut bytes = [0; SUPERBLOCK_BYTES];
    subject.device.read_at(offset, &mut bytes)?;
    let copy = Superblock::parse(&bytes);
    if copy.is_ok_and(|copy| lasting(&copy) == lasting(&subject.superblock)) {
        return Ok(false);
    }
    let bytes = backup(&subject.superblock, group);
    subject.device.write_at(offset, &bytes)?;
    Ok(true)
}

/// What of a superblock stays the same in use.
fn lasting(disk: &Superblock) -> ([[u8; 16]; 2], Features, [u64; 18]) {
    let mut features = disk.features();
    for of_use in [
        Feature::RECOVER,
        Feature::ORPHAN_PRESENT,
        Feature::LARGE_FILE,
    ] {
        features.remove(of_use);
    }
    let [backup, other] = disk.backup_bgs.map(u64::from);
    let numbers = [
        disk.blocks_count,
        disk.inodes_count.into(),
        disk.first_data_block.into(),
        disk.log_block_size.into(),
        disk.log_cluster_size.into(),
        disk.blocks_per_group.into(),
        disk.clusters_per_group.into(),
        disk.inodes_per_group.into(),
        disk.inode_size.into(),
        disk.desc_size.into(),
        disk.rev_level.into(),
        disk.reserved_gdt_blocks.into(),
        disk.first_meta_bg.into(),
        disk.log_groups_per_flex.into(),
        disk.journal_inum.into(),
        disk.checksum_seed.into(),
        backup,
        other,
    ];
    ([disk.uuid, disk.journal_uuid], features, numbers)
}

/// Writes a copy of a block of descriptors, if it leads elsewhere than the primary one.
fn refresh_descriptors(subject: &Subject, index: u32, copy: BlockNr) -> Result<bool> {
    let geometry = &subject.geometry;
    let primary = geometry.descriptor_block(index);
    if primary == copy || !geometry.contains(copy) {
        return Ok(false);
    }
    let wanted = read(subject, primary)?;
    let there = read(subject, copy)?;
    let groups = groups_of(subject, index);
    if leads_to(subject, &wanted, &groups) == leads_to(subject, &there, &groups) {
        return Ok(false);
    }
    let offset = copy.0 << geometry.block_bits;
    subject.device.write_at(offset, &wanted)?;
    Ok(true)
}

/// The groups whose descriptors a block has.
fn groups_of(subject: &Subject, index: u32) -> Range<u32> {
    let per_block = subject.geometry.descriptors_per_block();
    let first = index.saturating_mul(per_block);
    first
        ..first
            .saturating_add(per_block)
            .min(subject.geometry.group_count)
}

/// Where the descriptors of a block lead to; `None` for each that is damaged.
fn leads_to(subject: &Subject, bytes: &[u8], groups: &Range<u32>) -> Vec<Option<[BlockNr; 3]>> {
    let geometry = &subject.geometry;
    let checksums = subject.superblock.checksums();
    let each = bytes.chunks(usize::from(geometry.desc_size));
    each.zip(groups.clone())
        .map(|(bytes, group)| {
            let parsed = GroupDescriptor::parse(bytes, GroupNr(group), geometry, &checksums);
            let descriptor = parsed.ok()?;
            Some([
                descriptor.block_bitmap,
                descriptor.inode_bitmap,
                descriptor.inode_table,
            ])
        })
        .collect()
}

fn read(subject: &Subject, block: BlockNr) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize_of(subject.geometry.block_size())];
    let offset = block.0 << subject.geometry.block_bits;
    subject.device.read_at(offset, &mut bytes)?;
    Ok(bytes)
}
