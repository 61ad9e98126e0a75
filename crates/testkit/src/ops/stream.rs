//! Generator of operations. Most use a path created before; some must fail.

use super::{Bytes, Op, RenameHow, XattrHow};
use crate::rng::Rng;

/// Most created paths remembered.
const REMEMBERED: usize = 64;
/// Names of extended attributes: few, so that operations collide.
const XATTR_NAMES: [&str; 5] = [
    "user.a",
    "user.b",
    "trusted.t",
    "security.s",
    "user.a-longer-name",
];

/// What the operations of a stream may use.
#[derive(Clone, Debug)]
pub struct Palette {
    /// Names on each level.
    pub names: Vec<Bytes>,
    /// Most names that a path has.
    pub depth_max: u64,
    /// Largest offset or size of a file, in bytes.
    pub file_max_bytes: u64,
    /// Longest value of an extended attribute. Five of them must fit beside each other.
    pub xattr_max_bytes: u64,
    /// Longest symlink target, below the block size.
    pub symlink_max_bytes: u64,
}

impl Default for Palette {
    fn default() -> Self {
        let mut names: Vec<Bytes> = (b'a'..=b'h').map(|letter| vec![letter]).collect();
        names.extend([
            vec![b'n'; 255],
            vec![0xC3, 0xA9],
            vec![0xFF, 0x80, 0xFE],
            vec![b'm'; 100],
        ]);
        Self {
            names,
            depth_max: 4,
            file_max_bytes: 200 << 10,
            xattr_max_bytes: 120,
            symlink_max_bytes: 900,
        }
    }
}

/// An endless stream of operations.
#[derive(Clone, Debug)]
pub struct Stream {
    rng: Rng,
    palette: Palette,
    made: Vec<Made>,
}

/// A path that an operation may have created.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Made {
    path: Bytes,
    hint: Hint,
}

/// Likely type of a path: the stream does not see the results of its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hint {
    Directory,
    File,
    Other,
}

impl Stream {
    /// The stream of operations that `seed` determines.
    pub fn new(seed: u64, palette: Palette) -> Self {
        Self {
            rng: Rng::new(seed),
            palette,
            made: Vec::new(),
        }
    }

    fn draw(&mut self) -> Op {
        match self.rng.below(100) {
            0..=16 => Op::Create {
                path: self.new_path(Hint::File),
                mode: self.mode(),
            },
            17..=26 => Op::Mkdir {
                path: self.new_path(Hint::Directory),
                mode: self.mode(),
            },
            27..=28 => Op::Mkfifo {
                path: self.new_path(Hint::Other),
                mode: self.mode(),
            },
            29..=32 => self.symlink(),
            33..=38 => Op::Link {
                from: self.likely(Hint::File),
                to: self.new_path(Hint::File),
            },
            39..=44 => Op::Unlink {
                path: self.take(Hint::File),
            },
            45..=48 => Op::Rmdir {
                path: self.take(Hint::Directory),
            },
            49..=61 => self.rename(),
            62..=77 => self.write(),
            78..=84 => self.truncate(),
            85..=87 => Op::Chmod {
                path: self.old_path(),
                mode: self.mode(),
            },
            88..=89 => Op::Chown {
                path: self.old_path(),
                uid: self.id(),
                gid: self.id(),
            },
            90..=95 => self.set_xattr(),
            96..=97 => Op::RemoveXattr {
                path: self.old_path(),
                name: self.xattr_name(),
            },
            _ => Op::Fsync {
                path: self.old_path(),
            },
        }
    }

    /// A path below a directory that may exist, remembered for later operations.
    fn new_path(&mut self, hint: Hint) -> Bytes {
        let parent = if self.rng.chance(70) {
            self.likely(Hint::Directory)
        } else {
            Vec::new()
        };
        let depth = 1 + parent.iter().filter(|byte| **byte == b'/').count() as u64;
        let name = self.name();
        let path = if parent.is_empty() || depth >= self.palette.depth_max {
            name
        } else {
            [&parent[..], b"/", &name].concat()
        };
        self.remember(path.clone(), hint);
        path
    }

    /// Keeps the hint of the first creator of a path.
    fn remember(&mut self, path: Bytes, hint: Hint) {
        if self.made.iter().any(|made| made.path == path) {
            return;
        }
        if self.made.len() == REMEMBERED {
            let slot = self.rng.below(REMEMBERED as u64) as usize;
            self.made.swap_remove(slot);
        }
        self.made.push(Made { path, hint });
    }

    /// Mostly a path created before (maybe removed since), sometimes any.
    fn old_path(&mut self) -> Bytes {
        if !self.made.is_empty() && self.rng.chance(95) {
            self.rng.pick(&self.made).path.clone()
        } else {
            self.name()
        }
    }

    /// Mostly a path with this `hint`.
    fn likely(&mut self, hint: Hint) -> Bytes {
        let fitting: Vec<_> = self.made.iter().filter(|made| made.hint == hint).collect();
        if !fitting.is_empty() && self.rng.chance(95) {
            self.rng.pick(&fitting).path.clone()
        } else {
            self.old_path()
        }
    }

    /// As [`Stream::likely`], and forgets the path.
    fn take(&mut self, hint: Hint) -> Bytes {
        let path = self.likely(hint);
        self.forget(&path);
        path
    }

    fn forget(&mut self, path: &[u8]) -> Option<Made> {
        let slot = self.made.iter().position(|made| made.path == path)?;
        Some(self.made.swap_remove(slot))
    }

    fn name(&mut self) -> Bytes {
        match self.rng.below(200) {
            0 => vec![b'x'; 256],
            _ => self.rng.pick(&self.palette.names).clone(),
        }
    }

    fn mode(&mut self) -> u32 {
        *self
            .rng
            .pick(&[0o644, 0o600, 0o755, 0o777, 0o4755, 0o1777, 0])
    }

    fn id(&mut self) -> u32 {
        *self.rng.pick(&[0, 1, 1000, 65_534, 70_000, 4_000_000_000])
    }

    fn symlink(&mut self) -> Op {
        let max = self.palette.symlink_max_bytes;
        let len = *self.rng.pick(&[1, 30, 59, 60, 61, max]);
        Op::Symlink {
            path: self.new_path(Hint::Other),
            target: vec![b't'; len as usize],
        }
    }

    fn rename(&mut self) -> Op {
        let how = match self.rng.below(20) {
            0..=10 => RenameHow::Replace,
            11..=12 => RenameHow::NoReplace,
            13..=15 => RenameHow::Exchange,
            16..=17 => RenameHow::Whiteout,
            18 => RenameHow::WhiteoutNoReplace,
            _ => RenameHow::NoReplaceExchange,
        };
        let from = self.old_path();
        let hint = self.forget(&from).map_or(Hint::Other, |made| made.hint);
        let to = if self.rng.chance(40) {
            self.likely(hint)
        } else {
            self.new_path(hint)
        };
        Op::Rename { from, to, how }
    }

    fn write(&mut self) -> Op {
        let offset_bytes = if self.rng.chance(60) {
            0
        } else {
            self.rng.below(self.palette.file_max_bytes)
        };
        let room = self.palette.file_max_bytes - offset_bytes;
        let len_bytes = self.rng.below(room.min(20 << 10) + 1) as u32;
        Op::Write {
            path: self.likely(Hint::File),
            offset_bytes,
            len_bytes,
            seed: self.rng.next_u64(),
        }
    }

    fn truncate(&mut self) -> Op {
        let size_bytes = if self.rng.chance(30) {
            0
        } else {
            self.rng.below(self.palette.file_max_bytes)
        };
        Op::Truncate {
            path: self.likely(Hint::File),
            size_bytes,
        }
    }

    fn xattr_name(&mut self) -> String {
        (*self.rng.pick(&XATTR_NAMES)).to_owned()
    }

    fn set_xattr(&mut self) -> Op {
        let len = self.rng.below(self.palette.xattr_max_bytes + 1) as usize;
        let how = *self
            .rng
            .pick(&[XattrHow::Either, XattrHow::Create, XattrHow::Replace]);
        let value = self.rng.bytes(len);
        Op::SetXattr {
            path: self.old_path(),
            name: self.xattr_name(),
            value,
            how,
        }
    }
}

impl Iterator for Stream {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        Some(self.draw())
    }
}
