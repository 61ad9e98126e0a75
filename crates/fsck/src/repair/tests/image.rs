//! Images in memory with files, made and damaged by the means of a repair.

use crate::repair::patch::Patch;
use crate::repair::repair;
use crate::report::Limits;
use crate::state::{Check, Step};
use crate::subject::{SharedData, Subject};
use crate::whole_check::check;
use crate::{RepairAll, RepairReport, code};
use std::sync::Arc;
use uext4_device::{BlockDevice, MemDevice};
use uext4_format::dirent::{DirEntryType, DirLeaf, Insertion, LeafTail, NewEntry};
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::{
    BlockNr, DamageLocation, Feature, FileType, GroupNr, Inode, InodeFlags, InodeNr, LogicalBlock,
    Superblock,
};
use uext4_mkfs::{MkfsOptions, Preset, format};
use uext4_sync::RealClock;
use uext4_volume::superblock::{read_primary, write_superblock};

/// Bytes of a block.
pub(super) const BLOCK: u64 = 1024;
/// The first inode behind lost+found.
pub(super) const FIRST: InodeNr = InodeNr(12);
pub(super) const SECOND: InodeNr = InodeNr(13);

pub(super) struct Image {
    pub(super) device: Arc<MemDevice>,
}

impl Image {
    /// A file system of 8 MiB with blocks of 1 KiB, and with or without these features.
    pub(super) fn new(features: &str) -> Self {
        let mut options = MkfsOptions::new(Preset::Ext4);
        options.features.apply_list(features).expect("features");
        if !features.contains("orphan_file") {
            options.features.remove(Feature::ORPHAN_FILE);
        }
        options.block_size = Some(1024);
        if options.features.has(Feature::BIGALLOC) {
            options.cluster_size = Some(4096);
        }
        let device = Arc::new(MemDevice::new(8 << 20));
        format(&*device, &options).expect("mkfs");
        let image = Self { device };
        image.assert_clean();
        image
    }

    /// A file system of so many groups.
    pub(super) fn of_groups(count: u64) -> Self {
        Self::of_groups_with(count, "has_journal", 256)
    }

    /// As [`Self::of_groups`], with or without these features, and with inodes of so many bytes.
    pub(super) fn of_groups_with(count: u64, features: &str, inode_bytes: u16) -> Self {
        let mut options = MkfsOptions {
            block_size: Some(1024),
            inode_size: Some(inode_bytes),
            ..MkfsOptions::new(Preset::Ext4)
        };
        options.features.apply_list(features).expect("features");
        if features.contains("^has_journal") {
            options.features.remove(Feature::ORPHAN_FILE);
        }
        let device = Arc::new(MemDevice::new(count * 8 * BLOCK * BLOCK));
        format(&*device, &options).expect("mkfs");
        Self { device }
    }

    pub(super) fn superblock(&self) -> Superblock {
        read_primary(&*self.device, None).expect("a superblock")
    }

    pub(super) fn subject(&self) -> Subject {
        let superblock = self.superblock();
        Subject {
            device: self.device.clone(),
            geometry: superblock.geometry().expect("a sound superblock"),
            superblock,
            replayed: None,
            shared_data: SharedData::Kept,
            journal_device: None,
            clock: Arc::new(RealClock::new()),
        }
    }

    /// Changes the file system as a repair does.
    pub(super) fn edit<T>(&self, change: impl FnOnce(&mut Patch<'_, '_>) -> Step<T>) -> T {
        let (subject, limits) = (self.subject(), Limits::default());
        let mut check = Check::new(&subject, &limits);
        check.run().expect("the device can be read");
        let mut patch = Patch::new(&mut check);
        let result = change(&mut patch).expect("there is memory");
        for (nr, bytes) in &patch.blocks {
            self.device.write_at(nr.0 * BLOCK, bytes).expect("written");
        }
        if patch.superblock != subject.superblock {
            write_superblock(&*self.device, &patch.superblock).expect("written");
        }
        result
    }

    /// Changes an inode, with its checksum.
    pub(super) fn edit_inode(&self, nr: InodeNr, change: impl FnOnce(&mut Inode)) {
        self.edit(|patch| {
            let mut inode = patch.inode(nr)?.expect("it can be read");
            change(&mut inode);
            patch.write_inode(nr, &inode)
        });
    }

    /// Changes bytes of an inode, and nothing else.
    pub(super) fn put_in_inode(&self, nr: InodeNr, at: usize, bytes: &[u8]) {
        let start = self.edit(|patch| Ok(patch.check.inode_byte(nr).expect("it has one")));
        self.device
            .write_at(start + at as u64, bytes)
            .expect("written");
    }

    pub(super) fn inode(&self, nr: InodeNr) -> Inode {
        self.edit(|patch| Ok(patch.inode(nr)?.expect("it can be read")))
    }

    /// Adds a file in the root whose blocks are one apart, so that each has its own extent. The
    /// first repair counts.
    pub(super) fn add(&self, nr: InodeNr, kind: FileType, contents: &[u8]) {
        self.edit(|patch| {
            let geometry = patch.check.geometry;
            let mut inode = Inode::new(&geometry, 32);
            inode.mode = kind.mode_bits() | 0o644;
            inode.links = 1;
            inode.size = contents.len() as u64;
            if geometry.features.has(Feature::EXTENTS) {
                inode.flags.insert(InodeFlags::EXTENTS);
            }
            let ratio = u64::from(geometry.blocks_per_cluster());
            let (mut extents, mut goal) = (Vec::new(), BlockNr(2000));
            for (at, part) in contents.chunks((BLOCK * ratio) as usize).enumerate() {
                let start = patch.allocate(goal)?.expect("there is space");
                goal = BlockNr(start.0 + 2 * ratio);
                patch
                    .check
                    .device
                    .write_at(start.0 * BLOCK, part)
                    .expect("written");
                extents.push(Extent {
                    logical: LogicalBlock(at as u32 * ratio as u32),
                    start,
                    len: part.len().div_ceil(BLOCK as usize) as u16,
                    state: ExtentState::Written,
                });
            }
            assert!(patch.set_map(nr, &mut inode, &extents)?);
            patch.write_inode(nr, &inode)?;
            let mut descriptor = patch.descriptor(GroupNr(0))?;
            descriptor.itable_unused = 0;
            patch.write_descriptor(GroupNr(0), &descriptor)?;
            link(patch, nr, kind)
        });
        self.repair();
    }

    /// Adds a regular file with contents that follow from its number.
    pub(super) fn add_file(&self, nr: InodeNr, blocks: usize) {
        self.add(nr, FileType::Regular, &contents(nr, blocks));
    }

    /// The bytes of a file, with zeroes for holes.
    pub(super) fn read(&self, nr: InodeNr) -> Vec<u8> {
        self.edit(|patch| {
            let inode = patch.inode(nr)?.expect("it can be read");
            let mut bytes = vec![0; inode.size.next_multiple_of(BLOCK) as usize];
            for extent in patch.extents_of(nr, &inode)? {
                for at in 0..u64::from(extent.len) {
                    let block = patch.read(BlockNr(extent.start.0 + at))?;
                    let start = (u64::from(extent.logical.0) + at) * BLOCK;
                    if let Some(part) = bytes.get_mut(start as usize..(start + BLOCK) as usize) {
                        part.copy_from_slice(&block);
                    }
                }
            }
            bytes.truncate(inode.size as usize);
            Ok(bytes)
        })
    }

    pub(super) fn extents(&self, nr: InodeNr) -> Vec<Extent> {
        self.edit(|patch| {
            let inode = patch.inode(nr)?.expect("it can be read");
            patch.extents_of(nr, &inode)
        })
    }

    /// The codes of what the check finds, each once.
    pub(super) fn codes(&self) -> Vec<String> {
        let report = check(&self.subject(), &Limits::default()).expect("it can be read");
        let mut codes: Vec<String> = report
            .findings
            .iter()
            .map(|finding| code(&finding.corrupt))
            .collect();
        codes.sort();
        codes.dedup();
        codes
    }

    pub(super) fn assert_clean(&self) {
        let report = check(&self.subject(), &Limits::default()).expect("it can be read");
        assert!(report.is_clean(), "{:#?}", report.findings);
    }

    /// Repairs everything; the check finds nothing then.
    pub(super) fn repair(&self) -> RepairReport {
        let report = repair(self.subject(), &mut RepairAll, &Limits::default()).expect("repaired");
        assert!(report.is_sound(), "{report:#?}");
        self.assert_clean();
        report
    }

    /// As [`Self::repair`], after damage that has this code.
    pub(super) fn repair_of(&self, code: &str) {
        let codes = self.codes();
        assert!(codes.iter().any(|one| one == code), "{code}: {codes:?}");
        self.repair();
    }
}

/// Adds an entry to the root.
fn link(patch: &mut Patch<'_, '_>, nr: InodeNr, kind: FileType) -> Step {
    let root = patch.inode(InodeNr::ROOT)?.expect("a root");
    let extents = patch.extents_of(InodeNr::ROOT, &root)?;
    let block = extents.first().expect("a block").start;
    let seed = patch
        .check
        .checksums
        .inode_seed(InodeNr::ROOT, root.generation);
    let tail = match seed {
        Some(_) => LeafTail::Checksum,
        None => LeafTail::None,
    };
    let mut bytes = patch.read(block)?;
    let mut leaf = DirLeaf::new(&mut bytes[..], tail, DamageLocation::Block(block));
    let name = format!("file {nr}");
    let entry = NewEntry {
        inode: nr,
        name: name.as_bytes(),
        kind: DirEntryType::from(kind),
    };
    let inserted = leaf.insert(&entry).expect("a sound block");
    assert!(matches!(inserted, Insertion::Done(_)));
    if let Some(seed) = seed {
        leaf.update_checksum(seed);
    }
    patch.write(block, bytes)
}

/// Bytes that differ from block to block and from file to file.
pub(super) fn contents(nr: InodeNr, blocks: usize) -> Vec<u8> {
    let len = blocks * BLOCK as usize - 100;
    (0..len)
        .map(|at| (at / 7 + at / 1024 * 31 + nr.0 as usize * 13) as u8)
        .collect()
}
