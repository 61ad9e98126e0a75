//! Check of quota files: their trees, and what they say that owners use.
//!
//! Behind all other passes, because whatever these change is counted here.

use crate::state::{Check, Step, Stop};
use crate::usages::{Owners, Usage};
use uext4_format::quota::{
    ENTRIES_PER_LEAF, LEAF_HEADER_BYTES, LeafHeader, QUOTA_BLOCK_BYTES, QUOTA_ENTRY_BYTES,
    QuotaEntry, QuotaKind, QuotaPart, QuotaTree, node_pointers,
};
use uext4_format::{BlockNr, Checksums, CorruptKind, DamageLocation, FileType, Inode, InodeNr};
use uext4_num::{clamp_usize, u64_of};

/// Memory for a node, for each of its pointers, which may lead to an entry, and for a block of
/// entries, in bytes.
const BYTES_PER_NODE: u64 = 1200;
const BYTES_PER_POINTER: u64 = 280;
const BYTES_PER_LEAF: u64 = 100;

/// Block of the root.
const ROOT: u32 = 1;

/// A block of 1 KiB.
pub(crate) type Part = [u8; QUOTA_BLOCK_BYTES];

/// Memory for an entry and its place, in bytes.
const BYTES_PER_ENTRY: u64 = 88;

/// What a sound file holds.
pub(crate) struct Content {
    /// With their bytes in the file, by number of the owner.
    pub(crate) entries: Vec<(QuotaEntry, u64)>,
}

impl Content {
    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64_of(self.entries.len()) * BYTES_PER_ENTRY
    }
}

/// Reason why a file is not read.
enum Unread {
    Corrupt(CorruptKind),
    Stopped(Stop),
}

/// The blocks of a quota file, with the one that was read last.
pub(crate) struct QuotaBlocks {
    blocks: Vec<(u64, BlockNr)>,
    size: u64,
    last: Option<(BlockNr, Vec<u8>)>,
}

impl QuotaBlocks {
    /// Memory of the list, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64_of(self.blocks.len()) * 16
    }

    /// Whether each block up to the end is there: a mount expects it.
    fn is_whole(&self, block_bytes: u64) -> bool {
        let end = self.size.div_ceil(block_bytes);
        let inside = self.blocks.partition_point(|(logical, _)| *logical < end);
        u64_of(inside) == end
    }

    /// The byte on the device of a byte of the file; `None` in a hole.
    pub(crate) fn byte_of(&self, at: u64, block_bytes: u64) -> Option<u64> {
        let logical = at / block_bytes;
        let found = self
            .blocks
            .binary_search_by_key(&logical, |(logical, _)| *logical);
        let (_, block) = self.blocks.get(found.ok()?)?;
        Some(block.0 * block_bytes + at % block_bytes)
    }

    /// The number of a block of 1 KiB of those that are there, also behind the end.
    pub(crate) fn mapped_part(&self, nth: u64, block_bytes: u64) -> Option<u64> {
        let per_block = block_bytes / u64_of(QUOTA_BLOCK_BYTES);
        let (logical, _) = self.blocks.get(clamp_usize(nth / per_block))?;
        Some(logical * per_block + nth % per_block)
    }

    /// Blocks of 1 KiB in the file.
    pub(crate) fn n_parts(&self) -> u64 {
        self.size / u64_of(QUOTA_BLOCK_BYTES)
    }
}

impl Check<'_> {
    pub(crate) fn check_quotas(&mut self) -> Step {
        // Damage elsewhere has consequences for what the files say.
        let is_comparable = self.report.is_clean();
        for (kind, nr) in self.superblock.quota_files() {
            if !self.is_met(nr) {
                self.check_quota(kind, nr, is_comparable)?;
            }
        }
        Ok(())
    }

    /// Whether an inode has a finding.
    fn is_met(&self, nr: InodeNr) -> bool {
        let mut places = self.report.findings.iter().map(|found| found.corrupt.place);
        places.any(|place| match place {
            DamageLocation::Inode(met) | DamageLocation::InodeBlock(met, _) => met == nr,
            _ => false,
        })
    }

    fn check_quota(&mut self, kind: QuotaKind, nr: InodeNr, is_comparable: bool) -> Step {
        let place = DamageLocation::Inode(nr);
        match self.quota_content(kind, nr)? {
            Err(problem) => self.add_problem(place, "quota tree", problem),
            Ok(content) if !is_comparable => self.give_back(content.bytes()),
            Ok(content) => {
                let owners = self.usages.take(kind);
                if let Some(detail) = difference(kind, &content.entries, &owners) {
                    let problem = CorruptKind::UsageWrong;
                    self.add_detailed(place, "quota usage", problem, detail);
                }
                self.usages.put_back(kind, owners);
                self.give_back(content.bytes());
            }
        }
        Ok(())
    }

    /// The content of a quota file, whose memory the caller gives back, or its problem.
    pub(crate) fn quota_content(
        &mut self,
        kind: QuotaKind,
        nr: InodeNr,
    ) -> Step<Result<Content, CorruptKind>> {
        let Some(mut blocks) = self.quota_blocks(nr)? else {
            return Ok(Err(CorruptKind::InodeFree));
        };
        let mut taken = blocks.bytes();
        if !blocks.is_whole(self.block_bytes()) {
            self.give_back(taken);
            return Ok(Err(CorruptKind::Hole));
        }
        let read = |at: u32, part| {
            let block = self.quota_block(&mut blocks, at.into());
            let block = block.map_err(Unread::Stopped)?;
            let block = block.ok_or(Unread::Corrupt(CorruptKind::BlockBehindEnd))?;
            let bytes = bytes_for(part, &block);
            taken += bytes;
            self.take(bytes).map_err(Unread::Stopped)?;
            Ok(block)
        };
        let content = match QuotaTree::read(kind, read, Unread::Corrupt) {
            Ok((tree, mut entries)) => match self.problem_of_tree(&tree, &entries, &mut blocks)? {
                Some(problem) => Err(problem),
                None => {
                    entries.sort_unstable_by_key(|(entry, _)| entry.id);
                    Ok(Content { entries })
                }
            },
            Err(Unread::Corrupt(problem)) => Err(problem),
            Err(Unread::Stopped(stop)) => return Err(stop),
        };
        self.give_back(taken);
        if let Ok(content) = &content {
            self.take(content.bytes())?;
        }
        Ok(content)
    }

    /// What Linux, e2fsck or a mount refuses in a tree that can be read; and entries that the tree
    /// does not lead to, which may have limits.
    fn problem_of_tree(
        &mut self,
        tree: &QuotaTree,
        entries: &[(QuotaEntry, u64)],
        blocks: &mut QuotaBlocks,
    ) -> Step<Option<CorruptKind>> {
        let info = tree.info;
        if info.blocks <= ROOT || u64::from(info.blocks) > blocks.n_parts() {
            return Ok(Some(CorruptKind::MoreBlocks));
        }
        let mut heads = [info.free_block, info.free_leaf].into_iter();
        if heads.any(|head| head != 0 && !(ROOT + 1..info.blocks).contains(&head)) {
            return Ok(Some(CorruptKind::FreeListOutside));
        }
        if tree.stored_entries() != u64_of(entries.len()) {
            return Ok(Some(CorruptKind::EntryElsewhere));
        }
        for at in ROOT + 1..info.blocks {
            let block = if tree.has_block(at) {
                None
            } else {
                self.quota_block(blocks, at.into())?
            };
            if block.is_some_and(|block| is_leaf(&block) && LeafHeader::decode(&block).entries > 0)
            {
                return Ok(Some(CorruptKind::EntryElsewhere));
            }
        }
        Ok(None)
    }

    /// The blocks of a quota file, whose memory the caller gives back; `None` if it is no regular
    /// file in use.
    pub(crate) fn quota_blocks(&mut self, nr: InodeNr) -> Step<Option<QuotaBlocks>> {
        let bytes = self.read_inode(nr)?.unwrap_or_default();
        let inode = Inode::parse(&bytes, nr, &self.geometry, &Checksums::NONE);
        let Some(inode) = inode.ok().filter(is_file) else {
            return Ok(None);
        };
        let blocks = self.blocks_of(nr, &inode)?;
        Ok(Some(QuotaBlocks {
            size: inode.size,
            blocks,
            last: None,
        }))
    }

    /// A block of 1 KiB; `None` in a hole, and behind the end.
    pub(crate) fn quota_block(&mut self, file: &mut QuotaBlocks, at: u64) -> Step<Option<Part>> {
        let start = at * u64_of(QUOTA_BLOCK_BYTES);
        let block_bytes = self.block_bytes();
        let Some(byte) = file.byte_of(start, block_bytes) else {
            return Ok(None);
        };
        let block = BlockNr(byte / block_bytes);
        let bytes = match file.last.take() {
            Some((last, bytes)) if last == block => bytes,
            _ => self.read(block)?,
        };
        let at = clamp_usize(byte % block_bytes);
        let part = bytes.get(at..).and_then(<[u8]>::first_chunk).copied();
        file.last = Some((block, bytes));
        Ok(part)
    }
}

/// Whether an inode is a regular file in use.
pub(crate) fn is_file(inode: &Inode) -> bool {
    inode.links != 0 && inode.file_type() == Some(FileType::Regular)
}

/// Memory for a block that is read, and for what it leads to, in bytes.
fn bytes_for(part: QuotaPart, block: &Part) -> u64 {
    if part != QuotaPart::Node {
        return BYTES_PER_LEAF;
    }
    let pointers = node_pointers(block).filter(|pointer| *pointer != 0);
    BYTES_PER_NODE + u64_of(pointers.count()) * BYTES_PER_POINTER
}

/// The slots of a block; `None` for one that is no entry in use.
pub(crate) fn entries_of(block: &Part) -> impl Iterator<Item = Option<QuotaEntry>> + '_ {
    let slots = block[LEAF_HEADER_BYTES..].chunks_exact(QUOTA_ENTRY_BYTES);
    slots.take(ENTRIES_PER_LEAF).map(|bytes| {
        let is_padded = bytes[4..8] == [0; 4];
        QuotaEntry::decode(bytes).filter(|_| is_padded)
    })
}

/// Whether a block has as many entries as it says.
pub(crate) fn is_leaf(block: &Part) -> bool {
    let header = LeafHeader::decode(block);
    let is_padded = block[10..LEAF_HEADER_BYTES] == [0; LEAF_HEADER_BYTES - 10];
    let slots = block[LEAF_HEADER_BYTES..].chunks_exact(QUOTA_ENTRY_BYTES);
    let in_use = slots.filter(|bytes| bytes.iter().any(|byte| *byte != 0));
    let (in_use, sound) = (in_use.count(), entries_of(block).flatten().count());
    is_padded && in_use == sound && sound == usize::from(header.entries)
}

/// What a file says otherwise; `None` if nothing.
fn difference(kind: QuotaKind, entries: &[(QuotaEntry, u64)], owners: &Owners) -> Option<String> {
    let stored = entries
        .iter()
        .map(|(entry, _)| (entry.id, Usage::of(entry)));
    let wrong = stored
        .map(|(id, says)| (id, says, owners.get(&id).copied().unwrap_or_default()))
        .filter(|(_, says, is)| says != is);
    let missing = missing(entries, owners).map(|(id, is)| (id, Usage::default(), is));
    let mut all = wrong.chain(missing);
    let (id, says, is) = all.next()?;
    let others = match all.count() {
        0 => String::new(),
        n => format!("; {n} more"),
    };
    Some(format!(
        "{} {id} with {} inodes and {} bytes, not {} and {}{others}",
        kind.name(),
        says.inodes,
        says.bytes,
        is.inodes,
        is.bytes
    ))
}

/// Owners without an entry.
pub(crate) fn missing<'o>(
    entries: &'o [(QuotaEntry, u64)],
    owners: &'o Owners,
) -> impl Iterator<Item = (u32, Usage)> + 'o {
    let all = owners.iter().map(|(id, usage)| (*id, *usage));
    all.filter(|(id, _)| {
        let found = entries.binary_search_by_key(id, |(entry, _)| entry.id);
        found.is_err()
    })
}
