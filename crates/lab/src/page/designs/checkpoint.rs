//! Document 002, third part: the list of blocks that wait for their checkpoint.

use super::design::{Design, KUNPENG, Metric, Numbers, Published, Shape, Side, Source, UEXT4};
use super::design::{key, lab, line, simulator, times};
use crate::report::plot::Scale;

pub(super) const DESIGN: Design = Design {
    document: "002",
    title: "Blocks that wait for their checkpoint",
    change: "Before: each commit scans the list of blocks. After: counters, so that a commit costs \
             the same for any number of blocks.",
    source: "Jan Kara, \"Ext4 Filesystem Scaling\", SUSE Labs; fs_mark, 100,000 files of 4 KB, \
             each with fsync. A scan that ends at the first block that stays: from O(N^2) to O(N).",
    published: &[Published {
        title: "Profile of the journal's thread before the change",
        headers: &["function", "share of time, percent"],
        rows: &[
            &["in the kernel", "44.08"],
            &["`journal_clean_one_cp_list`", "23.76"],
            &["`__jbd2_journal_clean_checkpoint`", "17.22"],
        ],
    }],
    runs: &[
        lab(
            "checkpoint --systems uext4,kernel-ext4 --files 2000 --runs 1 --queue-max 100000",
            "checkpoint --systems uext4,kernel-ext4 --files 100000 --runs 3 --queue-max 1000000",
        ),
        simulator(
            "checkpoint --sizes 1000,10000",
            "checkpoint --sizes 1000,10000,30000",
        ),
    ],
    lines: &[
        line("list scan, 1,000 blocks", Side::Before, queue("scan-1000")),
        line(
            "list scan, 10,000 blocks",
            Side::Before,
            queue("scan-10000"),
        ),
        line(
            "list scan, 100,000 blocks",
            Side::Before,
            queue("scan-100000"),
        ),
        line("counters, 1,000 blocks", Side::After, queue("queue-1000")),
        line("counters, 10,000 blocks", Side::After, queue("queue-10000")),
        line(
            "counters, 100,000 blocks",
            Side::After,
            queue("queue-100000"),
        ),
        line(
            "simulated, list scan, 1,000 blocks",
            Side::Before,
            simulated("list-scan, 1000"),
        ),
        line(
            "simulated, list scan, 10,000 blocks",
            Side::Before,
            simulated("list-scan, 10000"),
        ),
        line(
            "simulated, list scan, 30,000 blocks",
            Side::Before,
            simulated("list-scan, 30000"),
        ),
        line(
            "simulated, counters, 1,000 blocks",
            Side::After,
            simulated("counters, 1000"),
        ),
        line(
            "simulated, counters, 10,000 blocks",
            Side::After,
            simulated("counters, 10000"),
        ),
        line(
            "simulated, counters, 30,000 blocks",
            Side::After,
            simulated("counters, 30000"),
        ),
    ],
    shape: Shape::Amounts(&[
        Metric {
            name: "bookkeeping per block committed",
            title: "bookkeeping per block committed, by blocks that wait (ns)",
            scale: Scale::Log,
        },
        Metric {
            name: "all calls",
            title: "all commits until as many blocks wait, simulated (ms)",
            scale: Scale::Log,
        },
    ]),
    finding,
};

const fn simulated(variant: &'static str) -> Source {
    Source::At(1, key("checkpoint", variant, KUNPENG))
}

const fn queue(variant: &'static str) -> Source {
    Source::At(1, key("checkpoint", variant, UEXT4))
}

fn finding(found: &Numbers) -> Option<String> {
    let grows = |few, many| Some(times(found.value(many, 1)?, found.value(few, 1)?));
    let scan = grows(
        "simulated, list scan, 1,000 blocks",
        "simulated, list scan, 10,000 blocks",
    )?;
    let counters = grows(
        "simulated, counters, 1,000 blocks",
        "simulated, counters, 10,000 blocks",
    )?;
    Some(format!(
        "For ten times as many blocks all simulated commits take {scan} as long with the scan, and \
         {counters} with counters (published: O(N^2) and O(N))."
    ))
}
