//! Document 000: searches that skip busy groups, and a goal for each stream.

use super::design::{Design, KERNEL, KUNPENG, Numbers, Published, Shape, Side, Source, UEXT4};
use super::design::{key, lab, line, simulator, times};

pub(super) const DESIGN: Design = Design {
    document: "000",
    title: "Allocation by many writers",
    change: "Before (`blocking`): a search waits for the lock of a busy group, and all searches \
             begin at one goal. After: it skips busy groups, and each stream has its goal.",
    source: "Baokun Li, \"ext4: better scalability for ext4 block allocation\", linux-ext4, \
             2025-05-23; Kunpeng 920, will-it-scale fallocate2 in containers.",
    published: &[Published {
        title: "Average fallocate operations per container per second",
        headers: &["containers", "1", "2", "4", "8", "16", "32", "64"],
        rows: &[
            &[
                "base", "295287", "70665", "33865", "19387", "10104", "5588", "3588",
            ],
            &[
                "linear", "286328", "123102", "119542", "90653", "60344", "35302", "23280",
            ],
            &[
                "mb_optimize_scan",
                "292498",
                "133305",
                "103069",
                "61727",
                "29702",
                "16845",
                "10430",
            ],
        ],
    }],
    runs: &[
        lab(
            "fallocate2 --workers 1,2 --variants blocking,linear,optimized,freespace-tree \
             --runs 3 --seconds 0.3",
            "fallocate2 --workers 1,2 --variants blocking,linear,optimized,freespace-tree \
             --runs 7 --seconds 1",
        ),
        simulator(
            "fallocate2 --cores 1,16,64 --variants blocking,linear,optimized,freespace-tree --ms 1",
            "fallocate2 --cores 1,2,4,8,16,32,64,256",
        ),
    ],
    lines: &[
        line("published, base", Side::Before, Source::Published(&BASE)),
        line("published, linear", Side::After, Source::Published(&LINEAR)),
        line(
            "published, mb_optimize_scan",
            Side::After,
            Source::Published(&OPTIMIZED),
        ),
        line("simulated, blocking", Side::Before, simulated("blocking")),
        line("simulated, linear", Side::After, simulated("linear")),
        line("simulated, optimized", Side::After, simulated("optimized")),
        line(
            "simulated, freespace-tree",
            Side::After,
            simulated("freespace-tree"),
        ),
        line(
            "2 real cores, blocking",
            Side::Before,
            real("blocking", UEXT4),
        ),
        line("2 real cores, linear", Side::After, real("linear", UEXT4)),
        line(
            "2 real cores, optimized",
            Side::After,
            real("optimized", UEXT4),
        ),
        line(
            "2 real cores, freespace-tree",
            Side::After,
            real("freespace-tree", UEXT4),
        ),
        line(
            "kernel, mb_optimize_scan=0",
            Side::Peer,
            real("linear", KERNEL),
        ),
        line(
            "kernel, mb_optimize_scan=1",
            Side::Peer,
            real("optimized", KERNEL),
        ),
    ],
    shape: Shape::Scaling {
        metric: "fallocate",
        unit: "fallocate calls of each worker, per second",
    },
    finding,
};

const BASE: [(u32, f64); 7] = [
    (1, 295_287.0),
    (2, 70_665.0),
    (4, 33_865.0),
    (8, 19_387.0),
    (16, 10_104.0),
    (32, 5_588.0),
    (64, 3_588.0),
];
const LINEAR: [(u32, f64); 7] = [
    (1, 286_328.0),
    (2, 123_102.0),
    (4, 119_542.0),
    (8, 90_653.0),
    (16, 60_344.0),
    (32, 35_302.0),
    (64, 23_280.0),
];
const OPTIMIZED: [(u32, f64); 7] = [
    (1, 292_498.0),
    (2, 133_305.0),
    (4, 103_069.0),
    (8, 61_727.0),
    (16, 29_702.0),
    (32, 16_845.0),
    (64, 10_430.0),
];

const fn simulated(variant: &'static str) -> Source {
    Source::Scaling(key("fallocate2", variant, KUNPENG))
}

const fn real(variant: &'static str, system: &'static str) -> Source {
    Source::Scaling(key("fallocate2", variant, system))
}

fn finding(found: &Numbers) -> Option<String> {
    let lost = |name| Some(times(1.0, found.kept(name, 64)?));
    let (ours, theirs) = (lost("simulated, blocking")?, lost("published, base")?);
    let kept = found.kept("simulated, freespace-tree", 64)?;
    let linear = found.kept("published, linear", 64)?;
    Some(format!(
        "From 1 to 64 workers each worker of the simulated base line becomes {ours} slower \
         (published: {theirs}); after the change it keeps {kept:.2} of the rate of one worker \
         (published, linear: {linear:.2})."
    ))
}
