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
/// are compared if a superblock was stale, or descriptors changed.
pub(super) fn refresh(subject: &Subject, descriptors: Descriptors) -> Result<()> {
    let geometry = &subject.geometry;
    let mut is_stale = descriptors == Descriptors::Changed;
    let mut has_written = false;
    for group in (1..geometry.group_count).map(GroupNr) {
        if let Some(block) = geometry.superblock_block(group) {
            let offset = block.0 << geometry.block_bits;
            if !is_current(subject, offset)? {
                let bytes = backup(&subject.superblock, group);
                subject.device.write_at(offset, &bytes)?;
                (is_stale, has_written) = (true, true);
            }
        }
    }
    if is_stale {
        for group in (1..geometry.group_count).map(GroupNr) {
            has_written |= refresh_descriptors(subject, group)?;
        }
    }
    if has_written {
        subject.device.flush()?;
    }
    Ok(())
}

/// Whether a backup at this byte leads to the same structures.
fn is_current(subject: &Subject, offset: u64) -> Result<bool> {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    subject.device.read_at(offset, &mut bytes)?;
    let copy = Superblock::parse(&bytes);
    Ok(copy.is_ok_and(|copy| lasting(&copy) == lasting(&subject.superblock)))
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

/// Writes the copies of descriptor blocks in a group that lead elsewhere than the primary ones.
fn refresh_descriptors(subject: &Subject, holder: GroupNr) -> Result<bool> {
    let geometry = &subject.geometry;
    let Some((first, run)) = geometry.descriptor_run(holder) else {
        return Ok(false);
    };
    let mut has_written = false;
    for at in 0..run.len_blocks {
        let index = first.saturating_add(at);
        let (primary, copy) = (
            geometry.descriptor_block(index),
            BlockNr(run.start.0 + u64::from(at)),
        );
        if primary == copy {
            continue;
        }
        let wanted = read(subject, primary)?;
        let groups = groups_of(subject, index);
        if leads_to(subject, &wanted, &groups) != leads_to(subject, &read(subject, copy)?, &groups)
        {
            let offset = copy.0 << geometry.block_bits;
            subject.device.write_at(offset, &wanted)?;
            has_written = true;
        }
    }
    Ok(has_written)
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
