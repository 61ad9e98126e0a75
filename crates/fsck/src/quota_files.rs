//! Check of quota files: their trees, and what they say that owners use.
//!
//! Behind all other passes, because whatever these change is counted here.

use crate::state::{Check, Step, Stop};
use crate::usages::{Owners, Usage};
use uext4_format::quota::{QUOTA_BLOCK_BYTES, QuotaEntry, QuotaInfo, QuotaKind, QuotaTree};
use uext4_format::{BlockNr, Checksums, CorruptKind, DamageLocation, FileType, Inode, InodeNr};
use uext4_num::{clamp_usize, u64_of};

/// Memory for a block of 1 KiB and what it leads to, in bytes.
const BYTES_PER_BLOCK: u64 = 6 << 10;

/// Memory for an entry and its place, in bytes.
const BYTES_PER_ENTRY: u64 = 88;

/// What a sound file holds.
pub(crate) struct Content {
    pub(crate) info: QuotaInfo,
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

    /// Blocks of 1 KiB in the file.
    pub(crate) fn n_parts(&self) -> u64 {
        self.size / u64_of(QUOTA_BLOCK_BYTES)
    }
}

impl Check<'_> {
    pub(crate) fn check_quotas(&mut self) -> Step {
        for (kind, nr) in self.superblock.quota_files() {
            if !self.is_met(nr) {
                self.check_quota(kind, nr)?;
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

    fn check_quota(&mut self, kind: QuotaKind, nr: InodeNr) -> Step {
        let place = DamageLocation::Inode(nr);
        match self.quota_content(kind, nr)? {
            Err(problem) => self.add_problem(place, "quota tree", problem),
            // Damage elsewhere has consequences here.
            Ok(content) if !self.report.is_clean() => self.give_back(content.bytes()),
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
        let read = |at: u32| {
            taken += BYTES_PER_BLOCK;
            self.take(BYTES_PER_BLOCK).map_err(Unread::Stopped)?;
            let block = self.quota_block(&mut blocks, at.into());
            let block = block.map_err(Unread::Stopped)?;
            block.ok_or(Unread::Corrupt(CorruptKind::BlockBehindEnd))
        };
        let read = QuotaTree::read(kind, read, Unread::Corrupt);
        self.give_back(taken);
        match read {
            Ok((tree, mut entries)) => {
                entries.sort_unstable_by_key(|(entry, _)| entry.id);
                let info = tree.info;
                let content = Content { info, entries };
                self.take(content.bytes())?;
                Ok(Ok(content))
            }
            Err(Unread::Corrupt(problem)) => Ok(Err(problem)),
            Err(Unread::Stopped(stop)) => Err(stop),
        }
    }

    /// The blocks of a quota file, whose memory the caller gives back; `None` if it is no regular
    /// file in use.
    pub(crate) fn quota_blocks(&mut self, nr: InodeNr) -> Step<Option<QuotaBlocks>> {
        let bytes = self.read_inode(nr)?.unwrap_or_default();
        let inode = Inode::parse(&bytes, nr, &self.geometry, &Checksums::NONE);
        let is_file =
            |inode: &Inode| inode.links != 0 && inode.file_type() == Some(FileType::Regular);
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
    pub(crate) fn quota_block(
        &mut self,
        file: &mut QuotaBlocks,
        at: u64,
    ) -> Step<Option<[u8; QUOTA_BLOCK_BYTES]>> {
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
