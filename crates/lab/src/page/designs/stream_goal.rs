//! Document 003: the goal of streams without a lock.

use super::design::{
    Design, EPYC, KERNEL, KUNPENG, Numbers, Published, Shape, Side, Source, UEXT4,
};
use super::design::{key, lab, line, simulator, times};

pub(super) const DESIGN: Design = Design {
    document: "003",
    title: "The goal of streams",
    change: "Before (`goal-mutex`): one mutex for the goal of streams. After: relaxed atomics.",
    source: "Baokun Li, \"ext4: remove unnecessary s_md_lock on update s_mb_last_group\", PATCH v3 \
             04/17, linux-ext4, 2025-07-18; will-it-scale fallocate2 in containers.",
    published: &[Published {
        title: "Average fallocate operations per container per second",
        headers: &[
            "machine",
            "mb_optimize_scan",
            "containers",
            "base",
            "patched",
            "base, 1",
            "patched, 1",
        ],
        rows: &[
            &["Kunpeng 920", "0", "80", "4821", "9636", "314065", "337597"],
            &["Kunpeng 920", "1", "80", "4784", "4834", "316344", "341440"],
            &[
                "AMD 9654 * 2",
                "0",
                "96",
                "15371",
                "22341",
                "205851",
                "219707",
            ],
            &[
                "AMD 9654 * 2",
                "1",
                "96",
                "6101",
                "9177",
                "207373",
                "215732",
            ],
        ],
    }],
    runs: &[
        lab(
            "fallocate2 --workers 1,2 --systems uext4 --variants goal-mutex --runs 3 --seconds 0.3",
            "fallocate2 --workers 1,2 --systems uext4 --variants goal-mutex --runs 7 --seconds 1",
        ),
        simulator(
            "fallocate2 --cores 1,80 --variants goal-mutex,linear --ms 1",
            "fallocate2 --cores 1,80 --variants goal-mutex,linear",
        ),
        simulator(
            "fallocate2 --machine epyc-9654 --cores 1,96 --variants goal-mutex,linear --ms 1",
            "fallocate2 --machine epyc-9654 --cores 1,96 --variants goal-mutex,linear",
        ),
    ],
    lines: &[
        line(
            "published, Kunpeng, base",
            Side::Before,
            Source::Published(&[(1, 314_065.0), (80, 4_821.0)]),
        ),
        line(
            "published, Kunpeng, patched",
            Side::After,
            Source::Published(&[(1, 337_597.0), (80, 9_636.0)]),
        ),
        line(
            "published, EPYC, base",
            Side::Before,
            Source::Published(&[(1, 205_851.0), (96, 15_371.0)]),
        ),
        line(
            "published, EPYC, patched",
            Side::After,
            Source::Published(&[(1, 219_707.0), (96, 22_341.0)]),
        ),
        line(
            "simulated, Kunpeng, before",
            Side::Before,
            run("goal-mutex", KUNPENG),
        ),
        line(
            "simulated, Kunpeng, after",
            Side::After,
            run("linear", KUNPENG),
        ),
        line(
            "simulated, EPYC, before",
            Side::Before,
            run("goal-mutex", EPYC),
        ),
        line("simulated, EPYC, after", Side::After, run("linear", EPYC)),
        line(
            "2 real cores, before",
            Side::Before,
            run("goal-mutex", UEXT4),
        ),
        line("2 real cores, after", Side::After, run("linear", UEXT4)),
        line(
            "kernel, mb_optimize_scan=0",
            Side::Peer,
            run("linear", KERNEL),
        ),
    ],
    shape: Shape::Scaling {
        metric: "fallocate",
        unit: "fallocate calls of each worker, per second",
    },
    finding,
};

const fn run(variant: &'static str, system: &'static str) -> Source {
    Source::Scaling(key("fallocate2", variant, system))
}

fn finding(found: &Numbers) -> Option<String> {
    let gain = |before, after, count| {
        Some(times(
            found.value(after, count)?,
            found.value(before, count)?,
        ))
    };
    let kunpeng = gain(
        "simulated, Kunpeng, before",
        "simulated, Kunpeng, after",
        80,
    )?;
    let epyc = gain("simulated, EPYC, before", "simulated, EPYC, after", 96)?;
    Some(format!(
        "After the change a worker has {kunpeng} the simulated rate on 80 cores of Kunpeng \
         (published: {}) and {epyc} on 96 of EPYC (published: {}).",
        gain(
            "published, Kunpeng, base",
            "published, Kunpeng, patched",
            80
        )?,
        gain("published, EPYC, base", "published, EPYC, patched", 96)?,
    ))
}
