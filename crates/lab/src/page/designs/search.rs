//! Document 001: free-space trees, and a search that reads few bitmaps.

use super::design::{Design, KERNEL, Metric, Numbers, Published, Shape, Side, Source, UEXT4};
use super::design::{key, lab, line, times};
use crate::page::run::{Program, Run};
use crate::report::plot::Scale;

pub(super) const DESIGN: Design = Design {
    document: "001",
    title: "First writes to a large, fragmented volume",
    change: "Before: a cold buddy allocator that searches group after group. After: trees of free \
             space by region, which know the largest extent of each, at four levels of caching.",
    source: "Harshad Shirwadkar, \"ext4: add free-space extent based allocator\", RFC PATCH v2, \
             linux-ext4, 2020-08-21; a fragmented volume of 60 TB.",
    published: &[
        Published {
            title: "First write, 10 MB",
            headers: &["allocator", "memory", "trees", "rate", "time"],
            rows: &[
                &["Buddy Allocator (v5.7)", "-", "-", "6.8 KB/s", "25m51s"],
                &[
                    "with --prefetch_block_bitmap",
                    "-",
                    "-",
                    "28.1 KB/s",
                    "6m14s",
                ],
                &[
                    "free space tree, level 0",
                    "43.5 MB",
                    "201",
                    "2.6 MB/s",
                    "0m8s",
                ],
                &[
                    "free space tree, level 1",
                    "193 MB",
                    "874",
                    "1.5 MB/s",
                    "0m47s",
                ],
                &[
                    "free space tree, level 2",
                    "3.6 GB",
                    "16476",
                    "21.4 KB/s",
                    "8m14s",
                ],
                &[
                    "free space tree, level 3",
                    "6.8 GB",
                    "30720",
                    "9.1 KB/s",
                    "19m22s",
                ],
                &[
                    "level 3, limit of 1 GB",
                    "1023 MB",
                    "30720",
                    "9.3 KB/s",
                    "18m53s",
                ],
            ],
        },
        Published {
            title: "Second write, 100 MB",
            headers: &["allocator", "memory", "trees", "rate", "time"],
            rows: &[
                &["Buddy Allocator (v5.7)", "-", "-", "499 KB/s", "3m30s"],
                &[
                    "with --prefetch_block_bitmap",
                    "-",
                    "-",
                    "185 KB/s",
                    "9m26s",
                ],
                &[
                    "free space tree, level 0",
                    "48.7 MB",
                    "226",
                    "48.2 MB/s",
                    "6s",
                ],
                &[
                    "free space tree, level 1",
                    "221 MB",
                    "1007",
                    "26.8 MB/s",
                    "8s",
                ],
                &[
                    "free space tree, level 2",
                    "6.8 GB",
                    "30720",
                    "178 KB/s",
                    "9m54s",
                ],
                &[
                    "free space tree, level 3",
                    "6.8 GB",
                    "30720",
                    "79 MB/s",
                    "5s",
                ],
                &[
                    "level 3, limit of 1 GB",
                    "1023 MB",
                    "30720",
                    "77.1 MB/s",
                    "7s",
                ],
            ],
        },
    ],
    runs: &[
        lab(
            "fragmented --size 8T --rows cold,cold-prefetch,tree-0,tree-1,tree-2,tree-3,optimized \
             --runs 1 --settle-s 0 --limit-s 20",
            "fragmented --size 60T --rows tree-0,tree-1,tree-2,tree-3,tree-3-limit,optimized \
             --runs 3 --settle-s 0",
        ),
        Run {
            program: Program::Lab,
            quick: None,
            full: Some(
                "fragmented --size 60T --rows cold,cold-prefetch,linear --runs 1 --settle-s 0 \
                 --limit-s 120",
            ),
        },
    ],
    lines: &[
        line(
            "published, buddy",
            Side::Before,
            Source::Published(&[(0, 1_551_000.0), (1, 210_000.0)]),
        ),
        line(
            "published, buddy with prefetch",
            Side::Before,
            Source::Published(&[(0, 374_000.0), (1, 566_000.0)]),
        ),
        line(
            "published, trees, level 0",
            Side::After,
            Source::Published(&[(0, 8_000.0), (1, 6_000.0)]),
        ),
        line(
            "published, trees, level 1",
            Side::After,
            Source::Published(&[(0, 47_000.0), (1, 8_000.0)]),
        ),
        line(
            "published, trees, level 2",
            Side::After,
            Source::Published(&[(0, 494_000.0), (1, 594_000.0)]),
        ),
        line(
            "published, trees, level 3",
            Side::After,
            Source::Published(&[(0, 1_162_000.0), (1, 5_000.0)]),
        ),
        line("uext4, cold buddy", Side::Before, measured("cold", UEXT4)),
        line(
            "uext4, cold buddy with prefetch",
            Side::Before,
            measured("cold-prefetch", UEXT4),
        ),
        line(
            "uext4, linear search",
            Side::Before,
            measured("linear", UEXT4),
        ),
        line(
            "uext4, optimized",
            Side::After,
            measured("optimized", UEXT4),
        ),
        line(
            "uext4, trees, level 0",
            Side::After,
            measured("tree-0", UEXT4),
        ),
        line(
            "uext4, trees, level 1",
            Side::After,
            measured("tree-1", UEXT4),
        ),
        line(
            "uext4, trees, level 2",
            Side::After,
            measured("tree-2", UEXT4),
        ),
        line(
            "uext4, trees, level 3",
            Side::After,
            measured("tree-3", UEXT4),
        ),
        line(
            "kernel, mb_optimize_scan=0",
            Side::Peer,
            measured("linear", KERNEL),
        ),
        line(
            "kernel, mb_optimize_scan=1",
            Side::Peer,
            measured("optimized", KERNEL),
        ),
    ],
    shape: Shape::Amounts(&[
        Metric {
            name: "first 10 MiB",
            title: "first write, 10 MiB (ms)",
            scale: Scale::Log,
        },
        Metric {
            name: "second 100 MiB",
            title: "second write, 100 MiB (ms)",
            scale: Scale::Log,
        },
    ]),
    finding,
};

const fn measured(variant: &'static str, system: &'static str) -> Source {
    Source::At(1, key("fragmented", variant, system))
}

fn finding(found: &Numbers) -> Option<String> {
    let first = |name| found.value(name, 0);
    let tree = first("uext4, trees, level 1")?;
    let published = times(
        first("published, buddy")?,
        first("published, trees, level 0")?,
    );
    let other = first("uext4, cold buddy")?;
    let ours = times(other, tree);
    Some(format!(
        "The first 10 MiB take {tree:.0} ms with trees and {other:.0} ms with the cold buddy \
         allocator, {ours} as long (published, buddy against level 0: {published})."
    ))
}
