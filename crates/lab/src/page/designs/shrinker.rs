//! Document 002, second part: the shrinker of the extent status tree.

use super::design::{
    Design, KERNEL, KUNPENG, Metric, Numbers, Published, Shape, Side, Source, UEXT4,
};
use super::design::{key, lab, line, simulator, times};
use crate::report::plot::Scale;

pub(super) const DESIGN: Design = Design {
    document: "002",
    title: "Shrinker of cached extents",
    change: "Before (full scan): a sorted list of inodes, and whole files are scanned until enough \
             is freed. After: inodes in turn, a scan that resumes where it stopped.",
    source: "Jan Kara, \"Ext4 Filesystem Scaling\", SUSE Labs; two sparse files of 1 GB, 8 CPUs, 4 \
             GB of memory. The plot of the test with many files is a picture without numbers.",
    published: &[Published {
        title: "Longest call of the shrinker",
        headers: &["files", "before", "after"],
        rows: &[&["two of 1 GB", "63132 us", "100 us"]],
    }],
    runs: &[
        lab(
            "shrinker --systems uext4,kernel-ext4 --runs 1",
            "shrinker --systems uext4,kernel-ext4 --runs 3",
        ),
        simulator(
            "shrinker --sizes 1000,10000",
            "shrinker --sizes 1000,10000,50000",
        ),
    ],
    lines: &[
        line(
            "published, two files, before",
            Side::Before,
            Source::Published(&[(0, 63_132.0)]),
        ),
        line(
            "published, two files, after",
            Side::After,
            Source::Published(&[(0, 100.0)]),
        ),
        line(
            "full scan, two files",
            Side::Before,
            measured("full-scan-two-sparse", UEXT4),
        ),
        line(
            "uext4, two files",
            Side::After,
            measured("two-sparse", UEXT4),
        ),
        line(
            "kernel, two files",
            Side::Peer,
            measured("two-sparse", KERNEL),
        ),
        line(
            "full scan, many files",
            Side::Before,
            measured("full-scan-many-files", UEXT4),
        ),
        line(
            "uext4, many files",
            Side::After,
            measured("many-files", UEXT4),
        ),
        line(
            "kernel, many files",
            Side::Peer,
            measured("many-files", KERNEL),
        ),
        line(
            "simulated, full scan, 1,000 files",
            Side::Before,
            simulated("full-scan, 1000"),
        ),
        line(
            "simulated, round robin, 1,000 files",
            Side::After,
            simulated("round-robin, 1000"),
        ),
        line(
            "simulated, full scan, 10,000 files",
            Side::Before,
            simulated("full-scan, 10000"),
        ),
        line(
            "simulated, round robin, 10,000 files",
            Side::After,
            simulated("round-robin, 10000"),
        ),
        line(
            "simulated, full scan, 50,000 files",
            Side::Before,
            simulated("full-scan, 50000"),
        ),
        line(
            "simulated, round robin, 50,000 files",
            Side::After,
            simulated("round-robin, 50000"),
        ),
    ],
    shape: Shape::Amounts(&[
        Metric {
            name: "worst call, wall",
            title: "longest call, wall clock (us)",
            scale: Scale::Log,
        },
        Metric {
            name: "worst call, thread",
            title: "longest call, CPU time of the thread (us)",
            scale: Scale::Log,
        },
        Metric {
            name: "worst call",
            title: "longest call, simulated (us)",
            scale: Scale::Log,
        },
    ]),
    finding,
};

const fn measured(variant: &'static str, system: &'static str) -> Source {
    Source::At(16, key("shrinker", variant, system))
}

const fn simulated(variant: &'static str) -> Source {
    Source::At(16, key("shrinker", variant, KUNPENG))
}

fn finding(found: &Numbers) -> Option<String> {
    let of = |name| found.value(name, 2);
    let before = of("simulated, full scan, 10,000 files")?;
    let after = of("simulated, round robin, 10,000 files")?;
    let ratio = times(before, after);
    let published = times(
        found.value("published, two files, before", 0)?,
        found.value("published, two files, after", 0)?,
    );
    Some(format!(
        "With 10,000 files and 16 simulated workers the longest call takes {:.1} ms when it scans \
         all, and {:.2} ms when it resumes: {ratio} as long (published, two files: {published}).",
        before / 1e3,
        after / 1e3
    ))
}
