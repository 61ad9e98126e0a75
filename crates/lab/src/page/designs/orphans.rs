//! Document 002, first part: the list of orphans, and the orphan file.

use super::design::{Design, KERNEL, KUNPENG, Numbers, Published, Shape, Side, Source, UEXT4};
use super::design::{key, lab, line, simulator, times};

pub(super) const DESIGN: Design = Design {
    document: "002",
    title: "Orphans of many processes",
    change: "Before: one list on the disk, behind one lock (`list-mutex`), which is not taken for \
             a file that is in the list already (`list`). After (`file`): an orphan file, in which \
             each core has blocks of its own. `none` does not track orphans.",
    source: "Jan Kara, \"Ext4 Filesystem Scaling\", SUSE Labs; stress-orphan by 16 processes on 8 \
             CPUs, 4 GB of memory, a ramdisk. Its plots are pictures without numbers.",
    published: &[Published {
        title: "The lock of the list during 160 s; 16 processes wait 2288 s (lockstat, us)",
        headers: &[
            "lock",
            "wait-max",
            "wait-total",
            "wait-avg",
            "acquisitions",
            "hold-total",
        ],
        rows: &[&[
            "orphan",
            "12211.31",
            "2288111288.96",
            "244.07",
            "26209088",
            "62275116.77",
        ]],
    }],
    runs: &[
        lab(
            "stress-orphan --workers 1,2 --systems uext4,kernel-ext4 --runs 3 --seconds 0.3",
            "stress-orphan --workers 1,2 --systems uext4,kernel-ext4 --runs 7 --seconds 1",
        ),
        simulator(
            "stress-orphan --cores 1,16,64 --ms 0.5",
            "stress-orphan --cores 1,4,16,64,256",
        ),
    ],
    lines: &[
        line(
            "simulated, list-mutex",
            Side::Before,
            simulated("list-mutex"),
        ),
        line("simulated, list", Side::Before, simulated("list")),
        line("simulated, file", Side::After, simulated("file")),
        line("simulated, none", Side::After, simulated("none")),
        line(
            "2 real cores, list-mutex",
            Side::Before,
            real("list-mutex", UEXT4),
        ),
        line("2 real cores, list", Side::Before, real("list", UEXT4)),
        line("2 real cores, file", Side::After, real("file", UEXT4)),
        line("2 real cores, none", Side::After, real("none", UEXT4)),
        line("kernel, list", Side::Peer, real("list", KERNEL)),
        line("kernel, file", Side::Peer, real("file", KERNEL)),
    ],
    shape: Shape::Scaling {
        metric: "unlinked",
        unit: "open files unlinked by each worker, per second",
    },
    finding,
};

const fn simulated(variant: &'static str) -> Source {
    Source::Scaling(key("stress-orphan", variant, KUNPENG))
}

const fn real(variant: &'static str, system: &'static str) -> Source {
    Source::Scaling(key("stress-orphan", variant, system))
}

fn finding(found: &Numbers) -> Option<String> {
    let list = times(1.0, found.kept("simulated, list-mutex", 16)?);
    let file = found.kept("simulated, file", 16)?;
    let of_none = found.value("simulated, file", 16)? / found.value("simulated, none", 16)?;
    Some(format!(
        "With 16 workers the simulated list makes each {list} slower; with the orphan file each \
         keeps {file:.2} of the rate of one, and {of_none:.2} of the rate without tracking \
         (published: each of 16 processes waits 143 of 160 s for the lock of the list)."
    ))
}
