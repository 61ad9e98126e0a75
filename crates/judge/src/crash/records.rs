//! Workloads for fast commits: small changes, each followed by an fsync more often than not.

use uext4::FallocateMode;
use uext4_testkit::ops::Op;
use uext4_testkit::rng::Rng;

use super::config::Config;
use super::step::Step;

/// Files of a workload.
const FILES: u64 = 5;
/// Recorded steps.
const STEPS: u64 = 60;
/// Largest offset in blocks.
const BLOCKS: u64 = 40;

fn path(nr: u64) -> Vec<u8> {
    format!("file {nr}").into_bytes()
}

fn write(rng: &mut Rng, path: Vec<u8>, offset_bytes: u64, len: u64) -> Step {
    Step::Op(Op::Write {
        path,
        offset_bytes,
        len_bytes: len as u32,
        seed: rng.next_u64(),
    })
}

/// Files that a full commit has.
pub(super) fn before(config: &Config, seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed).fork(5);
    let mut steps = Vec::new();
    for nr in 0..FILES {
        let (path, mode) = (path(nr), 0o644);
        steps.push(Step::Op(Op::Create {
            path: path.clone(),
            mode,
        }));
        let len = [0, 100, 5_000, 30_000][nr as usize % 4];
        if len > 0 {
            steps.push(write(&mut rng, path.clone(), 0, len));
        }
        if nr == FILES - 1 && config.has_extents() {
            // Enough extents for blocks of the tree.
            let (teeth, block_size) = (12, config.block_size);
            steps.push(Step::Comb {
                path,
                teeth,
                block_size,
            });
        }
    }
    steps
}

/// Changes of data, sizes and attributes.
pub(super) fn files(config: &Config, seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed).fork(6);
    // The first full commit after the mount.
    let mut steps = vec![Step::Op(Op::Chmod {
        path: path(0),
        mode: 0o600,
    })];
    steps.push(Step::Op(Op::Fsync { path: path(0) }));
    for _ in 0..STEPS {
        let file = path(rng.below(FILES));
        steps.push(change(&mut rng, config, file.clone()));
        match rng.below(10) {
            0..=4 => steps.push(Step::Op(Op::Fsync { path: file })),
            5 => steps.push(Step::Fdatasync { path: file }),
            6 => steps.push(Step::Op(Op::Fsync {
                path: path(rng.below(FILES)),
            })),
            _ => {}
        }
    }
    steps
}

fn change(rng: &mut Rng, config: &Config, path: Vec<u8>) -> Step {
    let block = u64::from(config.block_size);
    let at = rng.below(BLOCKS) * block + rng.below(2) * rng.below(block);
    match rng.below(20) {
        0..=6 => {
            let len = [20, 512, block, 3 * block + 7][rng.below(4) as usize];
            write(rng, path, at, len)
        }
        7..=9 => Step::Op(Op::Truncate {
            path,
            size_bytes: at,
        }),
        10 => Step::Op(Op::Chmod {
            path,
            mode: 0o600 + rng.below(64) as u32,
        }),
        11 => Step::Op(Op::Chown {
            path,
            uid: rng.below(9) as u32,
            gid: rng.below(70_000) as u32,
        }),
        12 => Step::Utimes {
            path,
            seconds: rng.below(4_000_000_000) as i64,
        },
        13 if rng.chance(40) => full(rng, path),
        _ if !config.has_extents() => write(rng, path, at, 100),
        _ => Step::Fallocate {
            path,
            mode: *rng.pick(&[
                FallocateMode::Allocate,
                FallocateMode::AllocateKeepSize,
                FallocateMode::PunchHole,
                FallocateMode::PunchHole,
                FallocateMode::ZeroRange,
                FallocateMode::ZeroRangeKeepSize,
                FallocateMode::WriteZeroes,
            ]),
            offset: at,
            len: 1 + rng.below(8 * block),
        },
    }
}

/// A change that needs a full commit.
fn full(rng: &mut Rng, path: Vec<u8>) -> Step {
    match rng.below(4) {
        0 => Step::SetAcl { path },
        1 => Step::Flag { path },
        2 => Step::Sync,
        _ => Step::Freeze,
    }
}
