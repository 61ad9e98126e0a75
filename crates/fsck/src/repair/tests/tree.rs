//! Images with known names for tests of repairs, and what is left of them. e2fsck judges, too.

use super::super::accepted::Accepted;
use super::super::damaged_directory::DirBlock;
use super::super::entries::Entry;
use super::super::patch::Patch;
use super::super::rebuild::Content;
use crate::counts::{Nameless, NewInode};
use crate::repair::repair;
use crate::report::{CheckReport, Limits};
use crate::state::Check;
use crate::subject::{SharedData, Subject};
use crate::{Decisions, RepairAll, RepairReport, code};
use std::collections::BTreeMap;
use std::sync::Arc;
use uext4_device::{BlockDevice, MemDevice};
use uext4_format::dirent::{DirEntries, seal_block};
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::{
    BlockNr, DamageLocation, Feature, FileType, Inode, InodeFlags, InodeNr, LogicalBlock,
    Superblock, inline_data,
};
use uext4_mkfs::{InodeCount, MkfsOptions, Preset, format};
use uext4_sync::RealClock;
use uext4_testkit::oracle;
use uext4_volume::append_extent;
use uext4_volume::superblock::read_primary;

pub(super) const ROOT: InodeNr = InodeNr::ROOT;

/// Whether a changed block gets a checksum.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seal {
    Anew,
    Broken,
}

/// A file system in memory.
pub(super) struct Tree {
    device: Arc<MemDevice>,
}

/// Options of a small file system with blocks of 1 KiB and many inodes.
pub(super) fn options(more: &[Feature], fewer: &[Feature]) -> MkfsOptions {
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.block_size = Some(1024);
    options.inodes = InodeCount::AtLeast(6000);
    for feature in more {
        options.features.insert(*feature);
    }
    for feature in fewer {
        options.features.remove(*feature);
    }
    options
}

impl Tree {
    /// A sound file system with these paths; those that end with a slash are directories.
    pub(super) fn new<S: AsRef<str>>(options: &MkfsOptions, paths: &[S]) -> Self {
        let device = Arc::new(MemDevice::new(16 << 20));
        format(&*device, options).expect("mkfs");
        let image = Self { device };
        image.change(|patch| add_paths(patch, paths));
        let made = image.repaired();
        assert!(made.is_sound(), "{made:#?}");
        image.assert_sound();
        let found = image.paths();
        for path in paths {
            let path = path.as_ref().trim_end_matches('/');
            assert!(found.contains_key(path), "{path}");
        }
        image
    }

    /// One that changes apart from this one.
    pub(super) fn copy(&self) -> Self {
        let device = Arc::new(self.device.snapshot());
        Self { device }
    }

    fn superblock(&self) -> Superblock {
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

    /// Changes what a check has read, with all checksums.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Patch<'_, '_>) -> T) -> T {
        let subject = self.subject();
        let limits = limits();
        let mut check = Check::new(&subject, &limits);
        check.run().expect("everything can be read");
        let mut patch = Patch::new(&mut check);
        let changed = change(&mut patch);
        let block_size = patch.check.block_bytes();
        for (nr, bytes) in patch.blocks {
            let written = self.device.write_at(nr.0 * block_size, &bytes);
            written.expect("memory can be written");
        }
        changed
    }

    pub(super) fn change_superblock(&self, change: impl FnOnce(&mut Superblock)) {
        let mut superblock = self.superblock();
        change(&mut superblock);
        let written = uext4_volume::superblock::write_superblock(&*self.device, &superblock);
        written.expect("memory can be written");
    }

    pub(super) fn bytes_at(&self, byte: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.device.read_at(byte, &mut bytes).expect("a read");
        bytes
    }

    pub(super) fn change_inode(&self, nr: InodeNr, change: impl FnOnce(&mut Inode)) {
        self.change(|patch| {
            let mut inode = patch.inode(nr).expect("a read").expect("an inode");
            change(&mut inode);
            patch.write_inode(nr, &inode).expect("a write");
        });
    }

    /// Changes a block of a directory.
    pub(super) fn change_block(
        &self,
        nr: InodeNr,
        logical: u64,
        seal: Seal,
        change: impl FnOnce(&mut [u8]),
    ) {
        self.change(|patch| {
            let dir = patch.damaged_directory(nr, Accepted::default());
            let dir = dir.expect("a read").expect("an inode");
            let extents = patch.extents_of(nr, &dir.inode).expect("a map");
            let mut blocks = DirBlock::all(&extents);
            let block = blocks.find(|block| block.logical == logical);
            let block = block.expect("a block");
            let mut bytes = patch.read(block.nr).expect("a read");
            change(&mut bytes);
            if let (Seal::Anew, Some(seed)) = (seal, dir.seed) {
                seal_block(&mut bytes, seed);
            }
            patch.write(block.nr, bytes).expect("a write");
        });
    }

    pub(super) fn repaired(&self) -> RepairReport {
        self.repaired_by(&mut RepairAll)
    }

    pub(super) fn repaired_by(&self, decisions: &mut dyn Decisions) -> RepairReport {
        repair(self.subject(), decisions, &limits()).expect("a repair")
    }

    /// Builds directories anew; the image is sound afterwards and has the same paths.
    pub(super) fn optimised(&self) -> crate::Optimised {
        let before = self.paths();
        let done = self.optimise();
        self.assert_sound();
        assert!(self.paths() == before);
        done
    }

    pub(super) fn optimise(&self) -> crate::Optimised {
        crate::repair::optimise(self.subject(), &limits()).expect("no error")
    }

    /// Builds directories anew, without what follows.
    pub(super) fn optimised_once(&self) {
        let mut subject = self.subject();
        let started = subject.clock.monotonic();
        let made = crate::repair::optimise::pass(&mut subject, &limits(), started);
        assert!(made.is_ok());
    }

    /// As [`Self::optimised`], with so much memory.
    pub(super) fn optimised_within(&self, memory_bytes: u64) -> crate::Optimised {
        let limits = Limits {
            memory_bytes,
            ..limits()
        };
        let done = crate::repair::optimise(self.subject(), &limits).expect("no error");
        self.assert_sound();
        done
    }

    /// Adds a file that has all free blocks but a few.
    pub(super) fn fill(&self) {
        self.change(|patch| {
            add_paths(patch, &["filler"]);
            let geometry = patch.check.geometry;
            let blocks = u64::from(geometry.first_data_block)..geometry.blocks_count - 4;
            let mut extents = Vec::new();
            for start in blocks.map(BlockNr) {
                let clusters = patch.check.clusters(start.0..start.0 + 1);
                if patch.check.claimed.has(clusters.start) {
                    continue;
                }
                patch.check.claim(clusters).expect("memory");
                let last: Option<&Extent> = extents.last();
                let logical = last.map_or(0, Extent::logical_end);
                let next = Extent {
                    logical: LogicalBlock(logical as u32),
                    start,
                    len: 1,
                    state: ExtentState::Written,
                };
                append_extent(&mut extents, next);
            }
            let nr = names(patch, ROOT)
                .into_iter()
                .find(|(name, _)| name == "filler");
            let (_, nr) = nr.expect("it was added");
            let mut inode = patch.inode(nr).expect("a read").expect("an inode");
            inode.flags.insert(InodeFlags::EXTENTS);
            inode.size = extents.last().map_or(0, Extent::logical_end) * 1024;
            assert!(patch.set_map(nr, &mut inode, &extents).expect("a map"));
            patch.write_inode(nr, &inode).expect("a write");
        });
        let report = self.repaired();
        assert!(report.is_sound(), "{report:#?}");
        self.assert_sound();
    }

    /// What a check finds, with any number of threads, in memory or with a file.
    pub(super) fn checked(&self) -> CheckReport {
        let check = |threads, spill| {
            let limits = Limits {
                threads,
                spill,
                ..limits()
            };
            crate::whole_check::check(&self.subject(), &limits).expect("a check")
        };
        let report = check(1, None);
        let dir = std::env::temp_dir();
        let others = [check(4, None), check(4, Some(dir))];
        let totals = |report: &CheckReport| {
            let CheckReport {
                n_inodes,
                n_directories,
                n_more,
                incomplete,
                ..
            } = *report;
            (n_inodes, n_directories, n_more, incomplete)
        };
        for other in others {
            assert_eq!(report.findings, other.findings);
            assert_eq!(totals(&report), totals(&other));
        }
        report
    }

    /// The codes of what a check finds, each once.
    pub(super) fn codes(&self) -> Vec<String> {
        let report = self.checked();
        let mut codes: Vec<_> = report.findings.iter().map(|it| code(&it.corrupt)).collect();
        codes.sort();
        codes.dedup();
        codes
    }

    /// Repairs the image, which has these problems, and compares its paths with what is expected.
    pub(super) fn expect_repair(&self, codes: &[&str], paths: &BTreeMap<String, u32>) {
        let found = self.codes();
        for code in codes {
            assert!(found.iter().any(|found| found == code), "{code}: {found:?}");
        }
        let report = self.repaired();
        assert!(report.is_sound(), "{report:#?}");
        assert!(report.n_repaired > 0);
        self.assert_sound();
        let found = self.paths();
        let gone: Vec<_> = paths
            .iter()
            .filter(|(path, nr)| found.get(*path) != Some(nr))
            .collect();
        let new: Vec<_> = found
            .iter()
            .filter(|(path, nr)| paths.get(*path) != Some(nr))
            .collect();
        assert!(
            gone.is_empty() && new.is_empty(),
            "gone: {gone:?}, new: {new:?}"
        );
    }

    /// Neither our check nor e2fsck finds anything.
    pub(super) fn assert_sound(&self) {
        let report = self.checked();
        assert!(report.is_clean(), "{report:#?}");
        let dir = oracle::scratch_dir().expect("a place for the image");
        let path = dir.path().join("image");
        std::fs::write(&path, self.device.to_bytes()).expect("a copy");
        let verdict = oracle::e2fsck(&path).expect("e2fsck runs");
        assert!(verdict.is_silent(), "{}", verdict.output);
    }

    /// The inode of each path.
    pub(super) fn paths(&self) -> BTreeMap<String, u32> {
        self.change(|patch| {
            let mut paths = BTreeMap::new();
            let mut waiting = vec![(ROOT, String::new())];
            while let Some((dir, prefix)) = waiting.pop() {
                for (name, nr) in names(patch, dir) {
                    let path = format!("{prefix}{name}");
                    if patch.check.links.kind(nr) == Some(FileType::Directory) {
                        waiting.push((nr, format!("{path}/")));
                    }
                    assert!(paths.insert(path, nr.0).is_none(), "{name} is there twice");
                }
            }
            paths
        })
    }

    pub(super) fn inode(&self, nr: InodeNr) -> Inode {
        let inode = self.change(|patch| patch.inode(nr));
        inode.expect("a read").expect("an inode")
    }

    pub(super) fn nr_of(&self, path: &str) -> InodeNr {
        InodeNr(self.paths()[path])
    }
}

fn limits() -> Limits {
    Limits {
        findings: 100_000,
        threads: 3,
        ..Limits::default()
    }
}

/// The names in a directory but "." and "..".
fn names(patch: &mut Patch<'_, '_>, nr: InodeNr) -> Vec<(String, InodeNr)> {
    let inode = patch.inode(nr).expect("a read").expect("an inode");
    let place = DamageLocation::Inode(nr);
    let mut names = Vec::new();
    let mut add = |name: &[u8], inode: InodeNr| {
        if inode.0 != 0 && !matches!(name, b"." | b"..") {
            names.push((name.iter().copied().map(char::from).collect(), inode));
        }
    };
    if inode.flags.contains(InodeFlags::INLINE_DATA) {
        let set = uext4_format::xattr::decode_ibody(&inode.tail, place).expect("attributes");
        let name = uext4_format::xattr::XattrName::inline_data();
        let Some(uext4_format::xattr::XattrValue::Here(value)) = set.get(&name) else {
            panic!("no value");
        };
        for entry in inline_data::records(&inode.i_block, value, place).flatten() {
            add(entry.name, entry.inode);
        }
        return names;
    }
    let extents = patch.extents_of(nr, &inode).expect("a map");
    for block in DirBlock::all(&extents) {
        let bytes = patch.read(block.nr).expect("a read");
        for entry in DirEntries::new(&bytes, 0, bytes.len(), place).flatten() {
            add(entry.name, entry.inode);
        }
    }
    names
}

/// Adds files of one byte of mode and no content, and directories.
fn add_paths<S: AsRef<str>>(patch: &mut Patch<'_, '_>, paths: &[S]) {
    let mut known = BTreeMap::from([(String::new(), ROOT)]);
    let mut entries: BTreeMap<InodeNr, Vec<Entry>> = BTreeMap::new();
    for path in paths {
        let path = path.as_ref();
        let kind = if path.ends_with('/') {
            FileType::Directory
        } else {
            FileType::Regular
        };
        let path = path.trim_end_matches('/');
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = known[parent];
        let nr = add_inode(patch, kind, parent);
        known.insert(path.to_string(), nr);
        entries.entry(parent).or_default().push(Entry {
            inode: nr,
            code: patch.code_of(nr),
            name: name.as_bytes().to_vec(),
        });
    }
    for (dir, entries) in entries {
        let wanted = entries.len();
        let added = patch.add_entries(dir, entries).expect("an addition");
        assert_eq!(added.len(), wanted);
    }
}

/// Adds an inode without a name. A file has an owner, so that it is worth a name.
pub(super) fn add_inode(patch: &mut Patch<'_, '_>, kind: FileType, parent: InodeNr) -> InodeNr {
    let nr = patch.take_inode().expect("a read").expect("a free inode");
    let mut inode = Inode::new(&patch.check.geometry, 32);
    inode.mode = kind.mode_bits() | 0o640;
    inode.links = 1;
    if patch.check.geometry.features.has(Feature::EXTENTS) && kind == FileType::Directory {
        inode.flags.insert(InodeFlags::EXTENTS);
    }
    patch.write_inode(nr, &inode).expect("a write");
    patch.check.links.put(&NewInode {
        nr,
        kind,
        links: 1,
        nameless: Nameless::No,
    });
    if kind == FileType::Directory {
        patch.check.links.adopt(nr, parent);
        let content = Content {
            nr,
            parent,
            entries: &[],
            blocks_min: 1,
        };
        let written = patch.write_directory(inode, &content, &[]);
        assert!(written.expect("a write"), "there is space");
    }
    nr
}
