//! Generator of workloads: testkit's stream, with additional steps.

use std::collections::VecDeque;

use uext4::FallocateMode;
use uext4_testkit::model::Model;
use uext4_testkit::ops::{Op, Palette, RenameHow, Stream, XattrHow};
use uext4_testkit::rng::Rng;

use super::beyond::Beyond;
use super::config::Config;
use super::held::HeldWrite;
use super::record::FILLER;
use super::step::Step;

/// Largest file in bytes.
const FILE_MAX_BYTES: u64 = 96 << 10;
/// Most files held open at once.
const HELD_MAX: usize = 4;

pub(super) struct Workload {
    rng: Rng,
    stream: Stream,
    config: Config,
    /// Remaining steps of a scenario in progress.
    queue: VecDeque<Step>,
    held: Vec<u64>,
    next_name: u64,
}

impl Workload {
    pub(super) fn new(seed: u64, config: Config) -> Self {
        let palette = Palette {
            file_max_bytes: FILE_MAX_BYTES,
            ..Palette::default()
        };
        Self {
            rng: Rng::new(seed).fork(1),
            stream: Stream::new(seed, palette),
            config,
            queue: VecDeque::new(),
            held: Vec::new(),
            next_name: 0,
        }
    }

    pub(super) fn draw(&mut self, model: &Model) -> Step {
        if !self.queue.is_empty() && self.rng.chance(70) {
            let step = self.queue.pop_front().expect("not empty");
            return self.fitted(step, model);
        }
        match self.rng.below(100) {
            0..=3 => Step::Sync,
            4..=8 => Step::Op(Op::Fsync {
                path: self.file(model),
            }),
            9..=10 => Step::Fdatasync {
                path: self.file(model),
            },
            11..=14 => self.unnamed(),
            15..=19 => self.use_held(),
            20..=22 => self.unlink_held(model),
            23..=31 if self.config.has_extents() => self.fallocate(model),
            32..=33 => self.acl(),
            34..=36 => self.utimes(model),
            37..=39 => self.large_xattr(model),
            40..=41 => self.scenario(),
            42..=44 => self.exchange(model),
            45..=46 => self.remove_xattr(model),
            47 => Step::Trim,
            48 => Step::Freeze,
            50..=52 if self.config.has_extents() => self.beyond(),
            53..=55 => self.relocation(model),
            49 => Step::Flag {
                path: self.file(model),
            },
            _ => Step::Op(as_one_call(
                self.stream.next().expect("a stream has no end"),
            )),
        }
    }

    /// A file that exists, if there is one.
    fn file(&mut self, model: &Model) -> Vec<u8> {
        let paths = model.files().into_keys().filter(|path| is_ours(path));
        let paths: Vec<Vec<u8>> = paths.collect();
        if paths.is_empty() {
            b"a".to_vec()
        } else {
            self.rng.pick(&paths).clone()
        }
    }

    fn fresh(&mut self, what: &str) -> Vec<u8> {
        self.next_name += 1;
        format!("{what} {}", self.next_name).into_bytes()
    }

    fn next_held(&mut self) -> u64 {
        self.next_name += 1;
        self.held.push(self.next_name);
        self.next_name
    }

    fn unnamed(&mut self) -> Step {
        if self.held.len() >= HELD_MAX {
            return self.use_held();
        }
        Step::Tmpfile {
            held: self.next_held(),
        }
    }

    fn use_held(&mut self) -> Step {
        if self.held.is_empty() {
            return Step::Sync;
        }
        let slot = self.rng.below(self.held.len() as u64) as usize;
        let held = self.held[slot];
        match self.rng.below(4) {
            0 | 1 => Step::WriteHeld(HeldWrite {
                held,
                offset: self.rng.below(FILE_MAX_BYTES),
                len: self.rng.below(9000) as u32,
                seed: self.rng.next_u64(),
            }),
            // The name of an unlinked file cannot come back: that step must fail.
            2 => {
                self.held.swap_remove(slot);
                Step::LinkHeld {
                    held,
                    path: self.fresh("linked"),
                }
            }
            _ => {
                self.held.swap_remove(slot);
                Step::Close { held }
            }
        }
    }

    fn unlink_held(&mut self, model: &Model) -> Step {
        if self.held.len() >= HELD_MAX {
            return self.use_held();
        }
        let path = self.file(model);
        let files = model.files();
        let number = files.get(&path).map(|(number, _)| *number);
        let same = files.values().filter(|(other, _)| Some(*other) == number);
        if same.count() != 1 {
            // With another name the file would survive, and the model does not track handles.
            return Step::Sync;
        }
        Step::UnlinkHeld {
            held: self.next_held(),
            path,
        }
    }

    fn fallocate(&mut self, model: &Model) -> Step {
        use FallocateMode::{Allocate, AllocateKeepSize, PunchHole, ZeroRange, ZeroRangeKeepSize};
        let modes = [
            Allocate,
            AllocateKeepSize,
            PunchHole,
            PunchHole,
            ZeroRange,
            ZeroRangeKeepSize,
        ];
        Step::Fallocate {
            path: self.file(model),
            mode: *self.rng.pick(&modes),
            offset: self.rng.below(FILE_MAX_BYTES / 2),
            len: 1 + self.rng.below(FILE_MAX_BYTES / 2),
        }
    }

    fn acl(&mut self) -> Step {
        let path = self.fresh("acl");
        self.queue.push_back(Step::SetAcl { path: path.clone() });
        Step::Op(Op::Create { path, mode: 0o600 })
    }

    fn utimes(&mut self, model: &Model) -> Step {
        Step::Utimes {
            path: self.file(model),
            seconds: self.rng.below(4_000_000_000) as i64,
        }
    }

    /// Exchanges two existing paths, or renames one over the other with a whiteout.
    fn exchange(&mut self, model: &Model) -> Step {
        let mut paths: Vec<Vec<u8>> = model.numbers().into_keys().collect();
        paths.retain(|path| !path.is_empty() && is_ours(path));
        if paths.is_empty() {
            return Step::Sync;
        }
        Step::Op(Op::Rename {
            from: self.rng.pick(&paths).clone(),
            to: self.rng.pick(&paths).clone(),
            how: if self.rng.chance(25) {
                RenameHow::Whiteout
            } else {
                RenameHow::Exchange
            },
        })
    }

    /// Sets a value that needs a block, or an inode where supported; equal values share one.
    fn large_xattr(&mut self, model: &Model) -> Step {
        let block_size = self.config.block_size as usize;
        let len = if self.config.has_value_inodes() && self.rng.chance(50) {
            block_size * 3
        } else {
            block_size / 2
        };
        let value = vec![b'A' + self.rng.below(2) as u8; len];
        Step::Op(Op::SetXattr {
            path: self.file(model),
            name: "user.large".into(),
            value,
            how: XattrHow::Either,
        })
    }

    /// Removes an attribute that exists.
    fn remove_xattr(&mut self, model: &Model) -> Step {
        let tree = model.manifest();
        let pairs = tree.entries.iter().flat_map(|(path, entry)| {
            let names = entry
                .xattrs
                .keys()
                .filter_map(|name| String::from_utf8(name.clone()).ok())
                .filter(|name| !name.starts_with("system."));
            names.map(|name| (path.clone(), name))
        });
        let pairs: Vec<(Vec<u8>, String)> = pairs.collect();
        if pairs.is_empty() {
            return self.large_xattr(model);
        }
        let (path, name) = self.rng.pick(&pairs).clone();
        Step::Op(Op::RemoveXattr { path, name })
    }

    /// Moves data, which no reader may notice.
    fn relocation(&mut self, model: &Model) -> Step {
        let path = self.file(model);
        match self.rng.below(8) {
            0 => Step::Compact,
            1..=2 => Step::Defragment { path },
            _ => Step::Relocate {
                path,
                near_byte: self.rng.below(16) << 20,
            },
        }
    }

    fn scenario(&mut self) -> Step {
        if !self.queue.is_empty() {
            return Step::Sync;
        }
        if self.rng.chance(50) {
            self.comb()
        } else {
            self.big_directory()
        }
        self.queue.pop_front().expect("a scenario has steps")
    }

    /// Steps on space behind the end of a file.
    fn beyond(&mut self) -> Step {
        if !self.queue.is_empty() {
            return Step::Sync;
        }
        let (path, other) = (self.fresh("held"), self.fresh("other"));
        let steps = Beyond::new(&mut self.rng, &self.config, path, other).draw();
        self.queue.extend(steps);
        self.queue.pop_front().expect("a scenario has steps")
    }

    /// Replaces a range move outside the file by a sync: other steps may have changed the size.
    fn fitted(&self, step: Step, model: &Model) -> Step {
        let Step::Fallocate {
            path,
            mode,
            offset,
            len,
        } = &step
        else {
            return step;
        };
        let files = model.files();
        let size = files.get(path).map_or(0, |(_, data)| data.len() as u64);
        let fits = match mode {
            FallocateMode::CollapseRange => offset + len < size,
            FallocateMode::InsertRange => *offset < size,
            _ => true,
        };
        if fits { step } else { Step::Sync }
    }

    /// A file with many extents, truncated and removed.
    fn comb(&mut self) {
        let path = self.fresh("comb");
        let block = u64::from(self.config.block_size);
        let teeth = self.rng.between(6, 110);
        self.queue.push_back(Step::Op(Op::Create {
            path: path.clone(),
            mode: 0o644,
        }));
        for tooth in 0..teeth {
            self.queue.push_back(Step::Op(Op::Write {
                path: path.clone(),
                offset_bytes: tooth * 2 * block,
                len_bytes: block as u32,
                seed: self.rng.next_u64(),
            }));
        }
        if self.rng.chance(50) {
            self.queue.push_back(Step::Sync);
        }
        for size_bytes in [teeth * block, 3 * block / 2, 0] {
            self.queue.push_back(Step::Op(Op::Truncate {
                path: path.clone(),
                size_bytes,
            }));
        }
        self.queue.push_back(Step::Op(Op::Unlink { path }));
    }

    /// A directory that grows by splits, then is emptied and removed.
    fn big_directory(&mut self) {
        let path = self.fresh("directory");
        let names = self.rng.between(4, 60);
        let child = |n: u64| [&path[..], format!("/{n:0200}").as_bytes()].concat();
        self.queue.push_back(Step::Op(Op::Mkdir {
            path: path.clone(),
            mode: 0o755,
        }));
        for n in 0..names {
            let op = Op::Create {
                path: child(n),
                mode: 0o644,
            };
            self.queue.push_back(Step::Op(op));
        }
        for n in 0..names {
            self.queue
                .push_back(Step::Op(Op::Unlink { path: child(n) }));
        }
        self.queue.push_back(Step::Op(Op::Rmdir { path }));
    }
}

/// Whether a path is not a filler, which stays.
fn is_ours(path: &[u8]) -> bool {
    !path.starts_with(FILLER.as_bytes())
}

/// Removes setuid and setgid from the mode of a new directory, as Linux does; they would need a
/// chmod, a second step.
fn as_one_call(op: Op) -> Op {
    match op {
        Op::Mkdir { path, mode } => Op::Mkdir {
            path,
            mode: mode & 0o1777,
        },
        op => op,
    }
}
