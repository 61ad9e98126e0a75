//! Workloads for fast commits: small changes, each followed by an fsync more often than not.

use uext4::FallocateMode;
use uext4_testkit::ops::{Op, RenameHow};
use uext4_testkit::rng::Rng;

use super::config::Config;
use super::step::Step;

const FILES: u64 = 5;
/// Steps that are recorded.
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

/// Changes of names in two directories, with changes of data between them.
pub(super) fn names(config: &Config, seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed).fork(7);
    let mut known = Known {
        paths: (0..FILES).map(path).collect(),
        next: 0,
    };
    let mut steps = vec![Step::Op(Op::Mkdir {
        path: b"dir".to_vec(),
        mode: 0o755,
    })];
    steps.push(Step::Sync);
    for _ in 0..STEPS {
        steps.push(known.change(&mut rng, config));
        if let Some(file) = known.sync(&mut rng) {
            steps.push(Step::Op(Op::Fsync { path: file }));
        }
    }
    steps
}

struct Known {
    paths: Vec<Vec<u8>>,
    next: u64,
}

impl Known {
    fn fresh(&mut self, rng: &mut Rng) -> Vec<u8> {
        self.next += 1;
        let dir = if rng.chance(50) { "dir/" } else { "" };
        // Long names, so that a small directory has little room.
        let fill = "x".repeat(rng.below(60) as usize);
        format!("{dir}{fill}{}", self.next).into_bytes()
    }

    fn take(&mut self, rng: &mut Rng) -> Vec<u8> {
        let place = rng.below(self.paths.len() as u64) as usize;
        self.paths.swap_remove(place)
    }

    fn sync(&self, rng: &mut Rng) -> Option<Vec<u8>> {
        match rng.below(10) {
            0..=4 => self.paths.last().cloned(),
            5 => Some(rng.pick(&self.paths).clone()),
            6 => Some(b"dir".to_vec()),
            _ => None,
        }
    }

    fn change(&mut self, rng: &mut Rng, config: &Config) -> Step {
        let new = self.fresh(rng);
        if self.paths.len() < 3 {
            return self.create(new);
        }
        match rng.below(20) {
            0..=4 => self.create(new),
            5..=6 => {
                self.paths.push(new.clone());
                let from = rng.pick(&self.paths[..self.paths.len() - 1]).clone();
                Step::Op(Op::Link { from, to: new })
            }
            7..=11 => Step::Op(Op::Unlink {
                path: self.take(rng),
            }),
            12..=14 => {
                let from = self.take(rng);
                let to = if rng.chance(50) { self.take(rng) } else { new };
                self.paths.push(to.clone());
                let how = RenameHow::Replace;
                Step::Op(Op::Rename { from, to, how })
            }
            15 if rng.chance(30) => {
                let target = b"somewhere".to_vec();
                self.create_other(rng, new, target)
            }
            _ => {
                let path = self.paths[self.paths.len() - 1].clone();
                let at = rng.below(8) * u64::from(config.block_size);
                write(rng, path, at, 700)
            }
        }
    }

    fn create(&mut self, path: Vec<u8>) -> Step {
        self.paths.push(path.clone());
        Step::Op(Op::Create { path, mode: 0o640 })
    }

    /// What needs a full commit; its name is used by no later step.
    fn create_other(&mut self, rng: &mut Rng, path: Vec<u8>, target: Vec<u8>) -> Step {
        match rng.below(3) {
            0 => Step::Op(Op::Symlink { path, target }),
            1 => Step::Op(Op::Mkfifo { path, mode: 0o600 }),
            _ => Step::Op(Op::Mkdir { path, mode: 0o700 }),
        }
    }
}
