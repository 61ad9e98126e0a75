//! The fast commits behind the transactions of a log.

use crate::map::{Nodes, Part, Trust, walk};
use crate::{Image, Memory, Result, Ring};
use std::ops::Range;
use uext4_format::fast_commit::{Record, Scan, Verdict, head_tid};
use uext4_format::{Checksums, Inode, Tid};
use uext4_num::u64_of;

/// Memory for each byte of a record, with the record around it.
const PER_BYTE: u64 = 16;
/// Memory for each run of blocks, in bytes.
const RUN_BYTES: u64 = 16;

/// The fast commits of one transaction.
#[derive(Debug)]
pub struct FastCommits {
    /// The transaction that they belong to.
    pub tid: Tid,
    /// Whether a replay applies them: they follow the last transaction of the log.
    pub is_live: bool,
    /// Position in the log of the area.
    pub first: u32,
    /// Complete fast commits.
    pub commits: u32,
    /// Their records.
    pub records: Vec<Record>,
}

/// Reads the area of fast commits; `None` if it has none.
///
/// # Errors
/// Those of the device; too little memory.
pub fn fast_commits(
    ring: &mut Ring,
    inode_size: u16,
    memory: &Memory,
) -> Result<Option<FastCommits>> {
    let (first, end) = ring.superblock().fast_commit_area();
    let end = end.min(ring.blocks.len_blocks());
    if first >= end {
        return Ok(None);
    }
    let Some(tid) = head_tid(ring.blocks.read(first)?) else {
        return Ok(None);
    };
    let mut scan = Scan::new(tid, inode_size);
    for at in first..end {
        let bytes = ring.blocks.read(at)?;
        memory.take(u64_of(bytes.len()).saturating_mul(PER_BYTE))?;
        if scan.push(bytes) == Verdict::Ends {
            break;
        }
    }
    let live = ring.transactions().iter();
    let mut live = live.filter(|one| one.state == crate::TransactionState::Live);
    let next = live
        .next_back()
        .map_or(ring.superblock().sequence, |last| last.tid.next());
    Ok(Some(FastCommits {
        tid,
        is_live: ring.superblock().start != 0 && tid == next,
        first,
        commits: scan.commits(),
        records: scan.into_records(),
    }))
}

impl FastCommits {
    /// Whether a replay changes something: an image is read without these changes.
    pub fn is_waiting(&self) -> bool {
        self.is_live && self.commits > 0
    }
}

/// Blocks that live fast commits use, which no bitmap knows yet.
pub(crate) struct FastBlocks(Vec<Range<u64>>);

impl FastBlocks {
    /// Those of a log.
    pub(crate) fn find(image: &Image, ring: Option<&mut Ring>, memory: &Memory) -> Result<Self> {
        let inode_size = image.geometry().inode_size;
        let fast = match ring {
            // In a log that is clean there are none.
            Some(ring) if ring.superblock().start != 0 => fast_commits(ring, inode_size, memory)?,
            _ => None,
        };
        let mut runs = Vec::new();
        let mut nodes = Nodes::new(image.geometry(), image);
        for record in fast
            .iter()
            .filter(|fast| fast.is_waiting())
            .flat_map(|fast| &fast.records)
        {
            match record {
                Record::AddRange { extent, .. } => {
                    memory.take(RUN_BYTES)?;
                    runs.push(extent.start.0..extent.physical_end());
                }
                Record::Inode { inode, raw } => {
                    let parsed = Inode::parse(raw, *inode, image.geometry(), &Checksums::NONE);
                    if let Some(inode) = parsed.ok().filter(uext4_volume::has_map) {
                        add_map(image, &inode, &mut nodes, &mut runs, memory)?;
                    }
                }
                _ => {}
            }
        }
        runs.sort_unstable_by_key(|run| run.start);
        runs.dedup_by(|later, first| {
            let touches = later.start <= first.end;
            if touches {
                first.end = first.end.max(later.end);
            }
            touches
        });
        Ok(Self(runs))
    }

    /// Whether a block is one of them.
    pub(crate) fn contains(&self, block: u64) -> bool {
        let after = self.0.partition_point(|run| run.start <= block);
        let run = after.checked_sub(1).and_then(|at| self.0.get(at));
        run.is_some_and(|run| run.contains(&block))
    }
}

fn add_map(
    image: &Image,
    inode: &Inode,
    nodes: &mut Nodes<'_>,
    runs: &mut Vec<Range<u64>>,
    memory: &Memory,
) -> Result<()> {
    let mut failed = Ok(());
    walk(image.geometry(), inode, Trust::Any, nodes, &mut |part| {
        let run = match part {
            Part::Data(extent) => extent.start.0..extent.physical_end(),
            Part::Node(block) => block..block.saturating_add(1),
            Part::Lost(_) => return,
        };
        if failed.is_ok() {
            failed = memory.take(RUN_BYTES);
            runs.push(run);
        }
    });
    failed
}
