//! Document 002, third part: the list of blocks that wait for their checkpoint.

use super::{Design, Found, Metric, Published, Shape, Side, Source, UEXT4};
use super::{key, lab, line, times};
use crate::report::plot::Scale;

pub(super) const DESIGN: Design = Design {
    document: "002",
    title: "Blocks that wait for their checkpoint",
    change: "Before: each commit scans the list of blocks. After: counters, so that a commit costs \
             the same for any number of blocks.",
    source: "Jan Kara, \"Ext4 Filesystem Scaling\", SUSE Labs; fs_mark, 100,000 files of 4 KB, each \
             with fsync. A scan that ends at the first block that stays: from O(N^2) to O(N).",
    published: &[Published {
        title: "Profile of the journal's thread before the change",
        headers: &["function", "share of time, percent"],
        rows: &[
            &["in the kernel", "44.08"],
            &["`journal_clean_one_cp_list`", "23.76"],
            &["`__jbd2_journal_clean_checkpoint`", "17.22"],
        ],
    }],
    runs: &[lab(
        "checkpoint --systems uext4,kernel-ext4 --files 2000 --runs 1 --queue-max 100000",
        "checkpoint --systems uext4,kernel-ext4 --files 100000 --runs 3 --queue-max 1000000",
    )],
    lines: &[
        line("1,000 blocks", Side::After, queue("queue-1000")),
        line("10,000 blocks", Side::After, queue("queue-10000")),
        line("100,000 blocks", Side::After, queue("queue-100000")),
        line("1,000,000 blocks", Side::After, queue("queue-1000000")),
    ],
    shape: Shape::Amounts(&[Metric {
        name: "bookkeeping per block committed",
        title: "bookkeeping per block committed, by blocks that wait (ns)",
        scale: Scale::Linear,
    }]),
    finding,
};

const fn queue(variant: &'static str) -> Source {
    Source::At(1, key("checkpoint", variant, UEXT4))
}

fn finding(found: &Found) -> Option<String> {
    let (few, many) = (
        found.value("1,000 blocks", 0)?,
        found.value("100,000 blocks", 0)?,
    );
    Some(format!(
        "With a hundred times the blocks waiting, a committed block takes {many:.0} ns of \
         bookkeeping instead of {few:.0} ns, {} as much, where a scan of the list takes a hundred \
         times as much.",
        times(many, few)
    ))
}
