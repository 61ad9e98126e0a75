//! Fixed workloads for states that random ones do not reach.
//!
//! A plot has a first part, before the recording, and a second part, which is crashed. In long
//! plots one operation spans two transactions: the transaction is nearly full when it begins, and
//! the seed varies the fill level.

use uext4::FallocateMode;
use uext4_testkit::ops::{Node, Op};
use uext4_testkit::rng::Rng;

use super::beyond::Beyond;
use super::config::Config;
use super::records;
use super::step::Step;

/// Data blocks of the file with many extents, with holes between them.
const TEETH: u64 = 1400;
/// Files with space behind their end.
const BEYOND_FILES: u64 = 5;
/// Directories with a block each to make dirty.
const DIRECTORIES: u64 = 200;
/// Odd, and even, blocks of the scattered file.
const SCATTERED: u64 = 120;
/// More orphans than one block of the orphan file holds.
const ORPHANS: u64 = 270;
/// Names of an index of 1 KiB blocks with one level, and those that add the second.
const NAMES: u64 = 300;
const MORE_NAMES: u64 = 140;
/// Steps between two syncs.
const SYNC_EVERY: u64 = 20;

/// The file with many extents.
pub(super) const LONG: &[u8] = b"long";

/// A fixed workload, aimed at one mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plot {
    /// Truncates a file with many extents.
    Truncate,
    /// Unlinks it while open, and closes it later.
    Reclaim,
    /// Punches nearly all of it.
    Punch,
    /// Collapses a part, which moves the rest.
    Collapse,
    /// Inserts a range inside the file, which moves the rest.
    Insert,
    /// Zeroes a range inside the file.
    Zero,
    /// Zeroes it with written zeros.
    WriteZeroes,
    /// Holds more unnamed files open than the orphan file has slots.
    Orphans,
    /// Grows a directory's index by a level.
    Index,
    /// Holds space behind the end of files, which is written, moved and cut.
    Beyond,
    /// Changes data and attributes of files, with an fsync after most changes.
    Files,
    /// The same with changes of names.
    Names,
    /// Special files of all kinds, in a directory with a default ACL.
    Nodes,
    /// Moves the data of a scattered file, together and to and fro.
    Move,
}

impl Plot {
    /// All plots, each once.
    pub const ALL: [Plot; 14] = [
        Plot::Truncate,
        Plot::Reclaim,
        Plot::Punch,
        Plot::Collapse,
        Plot::Insert,
        Plot::Zero,
        Plot::WriteZeroes,
        Plot::Orphans,
        Plot::Index,
        Plot::Beyond,
        Plot::Files,
        Plot::Names,
        Plot::Nodes,
        Plot::Move,
    ];

    /// Plots whose operation spans two transactions.
    pub const LONG: [Plot; 7] = [
        Plot::Truncate,
        Plot::Reclaim,
        Plot::Punch,
        Plot::Collapse,
        Plot::Insert,
        Plot::Zero,
        Plot::WriteZeroes,
    ];

    /// Its name in the text of a case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Truncate => "truncate",
            Self::Reclaim => "reclaim",
            Self::Punch => "punch",
            Self::Collapse => "collapse",
            Self::Insert => "insert",
            Self::Zero => "zero",
            Self::WriteZeroes => "write-zeroes",
            Self::Orphans => "orphans",
            Self::Index => "index",
            Self::Beyond => "beyond",
            Self::Files => "files",
            Self::Names => "names",
            Self::Nodes => "nodes",
            Self::Move => "move",
        }
    }

    /// The plot of that name.
    pub fn named(name: &str) -> Option<Plot> {
        Self::ALL.into_iter().find(|plot| plot.name() == name)
    }

    /// Whether time passes between its steps, so that each write changes the inode.
    pub(super) fn takes_time(self) -> bool {
        matches!(self, Self::Files | Self::Names)
    }

    /// Whether the configuration has the space and the `fallocate` that the plot needs.
    pub fn fits(self, config: &Config) -> bool {
        let long = Self::LONG.contains(&self);
        let moves = self == Self::Beyond;
        let truncates = matches!(self, Self::Truncate | Self::Reclaim);
        config.full_percent == 0
            && !(long && config.is_bigalloc())
            && ((!long && !moves) || truncates || config.has_extents())
    }

    /// Steps before the recording, which make what it needs.
    pub(super) fn before(self, config: &Config, seed: u64) -> Vec<Step> {
        match self {
            Self::Files | Self::Names => records::before(config, seed),
            Self::Orphans => orphans_before(),
            Self::Index => index_before(),
            Self::Nodes => vec![mkdir(b"acls"), default_acl(b"acls")],
            Self::Beyond => Vec::new(),
            Self::Move => scattered(config),
            _ => long_before(config),
        }
    }

    pub(super) fn recorded(self, config: &Config, seed: u64) -> Vec<Step> {
        let block = u64::from(config.block_size);
        match self {
            Self::Orphans => orphans(),
            Self::Index => index(),
            Self::Nodes => nodes(),
            Self::Move => moves(seed),
            Self::Beyond => beyond(config, seed),
            Self::Files => records::files(config, seed),
            Self::Names => records::names(config, seed),
            Self::Truncate => long(seed, vec![truncate(3 * block / 2)]),
            Self::Reclaim => {
                let path = LONG.to_vec();
                let unlink = Step::UnlinkHeld { held: 1, path };
                let mut steps = vec![unlink, Step::Sync];
                steps.extend(long(seed, vec![Step::Close { held: 1 }]));
                steps
            }
            Self::Punch => long(seed, vec![shape(FallocateMode::PunchHole, block, 1, TEETH)]),
            Self::Collapse => long(
                seed,
                vec![shape(FallocateMode::CollapseRange, block, 8, 160)],
            ),
            Self::Insert => long(seed, vec![shape(FallocateMode::InsertRange, block, 8, 160)]),
            Self::Zero => long(
                seed,
                vec![shape(FallocateMode::ZeroRangeKeepSize, block, 1, TEETH)],
            ),
            Self::WriteZeroes => {
                let mode = FallocateMode::WriteZeroes;
                long(seed, vec![shape(mode, block, 1, TEETH)])
            }
        }
    }
}

/// A fallocate of a range of the comb, in blocks.
fn shape(mode: FallocateMode, block: u64, start_blocks: u64, len_blocks: u64) -> Step {
    Step::Fallocate {
        path: LONG.to_vec(),
        mode,
        offset: start_blocks * block,
        len: len_blocks * block,
    }
}

fn truncate(size_bytes: u64) -> Step {
    Step::Op(Op::Truncate {
        path: LONG.to_vec(),
        size_bytes,
    })
}

fn mkdir(path: &[u8]) -> Step {
    Step::Op(Op::Mkdir {
        path: path.to_vec(),
        mode: 0o755,
    })
}

fn create(path: Vec<u8>) -> Step {
    Step::Op(Op::Create { path, mode: 0o664 })
}

fn default_acl(path: &[u8]) -> Step {
    Step::SetDefaultAcl {
        path: path.to_vec(),
    }
}

fn directory(n: u64) -> Vec<u8> {
    format!("many/{n}").into_bytes()
}

fn long_before(config: &Config) -> Vec<Step> {
    let path = LONG.to_vec();
    let mut steps = vec![create(path.clone()), mkdir(b"many")];
    steps.push(Step::Comb {
        path,
        teeth: TEETH,
        block_size: config.block_size,
    });
    steps.extend((0..DIRECTORIES).map(|n| mkdir(&directory(n))));
    steps
}

/// A file whose even blocks were written before the odd ones, and others between.
fn scattered(config: &Config) -> Vec<Step> {
    let (path, block) = (LONG.to_vec(), u64::from(config.block_size));
    let mut steps = vec![create(path.clone())];
    steps.push(Step::Comb {
        path: path.clone(),
        teeth: SCATTERED,
        block_size: config.block_size,
    });
    steps.extend((0..4).map(|n| create(format!("other {n}").into_bytes())));
    steps.extend((0..SCATTERED).flat_map(|n| {
        let other = format!("other {}", n % 4).into_bytes();
        let write = |path: Vec<u8>, at: u64, seed| {
            Step::Op(Op::Write {
                path,
                offset_bytes: at * block,
                len_bytes: config.block_size,
                seed,
            })
        };
        [write(path.clone(), 2 * n + 1, n), write(other, n, n + 1)]
    }));
    steps
}

fn moves(seed: u64) -> Vec<Step> {
    let path = || LONG.to_vec();
    let relocate = |mib: u64| Step::Relocate {
        path: path(),
        near_byte: mib << 20,
    };
    let write = Step::Op(Op::Write {
        path: path(),
        offset_bytes: seed % 9 * 1000,
        len_bytes: 9000,
        seed,
    });
    vec![
        Step::Defragment { path: path() },
        Step::Op(Op::Fsync { path: path() }),
        relocate(seed * 5 % 12),
        write,
        relocate(seed * 7 % 12),
        relocate((seed + 6) * 5 % 12),
        Step::Sync,
        truncate(70_000),
        relocate(seed * 11 % 12),
        Step::Compact,
    ]
}

/// Fills the transaction to a level given by the seed, then runs the operation.
fn long(seed: u64, operation: Vec<Step>) -> Vec<Step> {
    let count = 40 + seed * 8 % 150;
    let mut steps: Vec<Step> = (0..count)
        .map(|n| create([&directory(n)[..], b"/child"].concat()))
        .collect();
    steps.extend(operation);
    steps.push(create(b"after".to_vec()));
    steps.push(Step::Op(Op::Fsync {
        path: b"after".to_vec(),
    }));
    steps
}

fn beyond(config: &Config, seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed).fork(4);
    let name = |what: &str, n: u64| format!("{what} {n}").into_bytes();
    (0..BEYOND_FILES)
        .flat_map(|n| Beyond::new(&mut rng, config, name("held", n), name("other", n)).draw())
        .collect()
}

fn orphans_before() -> Vec<Step> {
    let open = (0..ORPHANS).map(|held| Step::Tmpfile { held });
    let names = (0..8).map(|n| create(format!("named {n}").into_bytes()));
    open.chain(names).collect()
}

/// Removes names while the orphan file is full, then frees slots.
fn orphans() -> Vec<Step> {
    let unlink = |n| Step::UnlinkHeld {
        held: ORPHANS + n,
        path: format!("named {n}").into_bytes(),
    };
    let mut steps: Vec<Step> = (0..4).map(unlink).collect();
    steps.push(Step::Sync);
    steps.push(Step::Close { held: ORPHANS + 1 });
    steps.extend((0..20).map(|held| Step::Close { held }));
    steps.push(Step::Sync);
    steps.extend((4..8).map(unlink));
    steps.push(Step::Close { held: ORPHANS + 2 });
    steps.push(Step::Close { held: ORPHANS + 5 });
    steps
}

fn name(n: u64) -> Vec<u8> {
    format!("index/{n:0210}").into_bytes()
}

fn index_before() -> Vec<Step> {
    let names = (0..NAMES).map(|n| create(name(n)));
    [mkdir(b"index")].into_iter().chain(names).collect()
}

fn index() -> Vec<Step> {
    let mut steps = Vec::new();
    for n in 0..MORE_NAMES {
        steps.push(create(name(NAMES + n)));
        if n % SYNC_EVERY == 0 {
            steps.push(Step::Sync);
            let path = name(n);
            steps.push(Step::Op(Op::Unlink { path }));
        }
    }
    steps
}

fn nodes() -> Vec<Step> {
    let kinds = [
        Node::Socket,
        Node::Char(5, 1),
        Node::Char(300, 70_000),
        Node::Block(7, 0),
        Node::Block(259, 1 << 19),
    ];
    let mut steps = Vec::new();
    for place in ["", "acls/", "acls/below/"] {
        for (n, node) in kinds.into_iter().enumerate() {
            let path = format!("{place}node {n}").into_bytes();
            let mode = 0o666;
            steps.push(Step::Op(Op::Mknod { path, mode, node }));
        }
        steps.push(create(format!("{place}file").into_bytes()));
        steps.push(Step::Sync);
        if place.is_empty() {
            steps.push(mkdir(b"acls/below"));
        }
    }
    for n in 0..kinds.len() {
        let path = format!("acls/node {n}").into_bytes();
        steps.push(Step::Op(Op::Unlink { path }));
    }
    steps
}
