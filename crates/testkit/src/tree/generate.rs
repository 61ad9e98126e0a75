//! Generates a [`TreeSpec`] from a seed.

use super::attributes::attributes;
use super::content::{Content, Piece, Style};
use super::names::name;
use super::{Device, Node, NodeKind, Privilege, Shape, TreeSpec};
use crate::rng::Rng;

/// Longest path: below a mount point it stays under `PATH_MAX`.
const PATH_MAX_BYTES: usize = 3000;
/// Share of the one wide directory in all entries, in percent.
const WIDE_PERCENT: usize = 20;
/// Depth of the one deep chain of directories.
const DEEP_LEVELS: usize = 40;
/// Longest target of a fast symlink, which fits into the inode.
const FAST_SYMLINK_MAX: u64 = 59;
/// Holes are multiples of this or of odd sizes.
const HOLE_BYTES: u64 = 64 << 10;

impl TreeSpec {
    /// The tree that `seed` and `shape` determine.
    pub fn generate(seed: u64, shape: &Shape) -> Self {
        let mut generator = Generator::new(seed, shape);
        generator.deep_chain();
        generator.wide_directory();
        while generator.nodes.len() < shape.entries {
            generator.anything();
        }
        Self {
            nodes: generator.nodes,
        }
    }
}

struct Generator<'a> {
    rng: Rng,
    shape: &'a Shape,
    nodes: Vec<Node>,
    /// Directories that may get more children.
    directories: Vec<Vec<u8>>,
    /// Indexes of inodes that may get another name.
    linkable: Vec<usize>,
    data_left_bytes: u64,
}

impl<'a> Generator<'a> {
    fn new(seed: u64, shape: &'a Shape) -> Self {
        Self {
            rng: Rng::new(seed),
            shape,
            nodes: Vec::with_capacity(shape.entries),
            directories: vec![Vec::new()],
            linkable: Vec::new(),
            data_left_bytes: shape.data_max_bytes,
        }
    }

    fn deep_chain(&mut self) {
        let mut path = Vec::new();
        for level in 0..DEEP_LEVELS.min(self.shape.entries / 8) {
            path = join(&path, format!("deep{level}").as_bytes());
            self.push(path.clone(), NodeKind::Directory);
        }
    }

    fn wide_directory(&mut self) {
        let path = b"wide".to_vec();
        self.push(path.clone(), NodeKind::Directory);
        for number in 0..self.shape.entries * WIDE_PERCENT / 100 {
            let seed = self.rng.next_u64();
            let content = Content::dense(self.rng.below(3) * 100, seed, Style::Text);
            let path = join(&path, format!("entry with number {number:07}").as_bytes());
            self.push(path, NodeKind::File(content));
        }
    }

    fn anything(&mut self) {
        let parent = self.parent();
        let number = self.nodes.len();
        let path = join(&parent, &name(&mut self.rng, number));
        let kind = self.kind();
        if path.len() <= PATH_MAX_BYTES {
            self.push(path, kind);
        }
    }

    /// Mostly a recent directory, so that trees get deep.
    fn parent(&mut self) -> Vec<u8> {
        let recent = self.directories.len().saturating_sub(8);
        if self.rng.chance(40) {
            self.rng.pick(&self.directories[recent..]).clone()
        } else {
            self.rng.pick(&self.directories).clone()
        }
    }

    fn kind(&mut self) -> NodeKind {
        let is_root = self.shape.privilege == Privilege::Root;
        match self.rng.below(100) {
            0..=11 => NodeKind::Directory,
            12..=17 => NodeKind::Symlink(self.target()),
            18..=22 if !self.linkable.is_empty() => {
                NodeKind::HardLink(*self.rng.pick(&self.linkable))
            }
            23 if is_root => NodeKind::CharDevice(self.device()),
            24 if is_root => NodeKind::BlockDevice(self.device()),
            25 => NodeKind::Fifo,
            26 => NodeKind::Socket,
            27..=30 => NodeKind::File(self.sparse()),
            _ => NodeKind::File(self.dense()),
        }
    }

    fn target(&mut self) -> Vec<u8> {
        let max = self.shape.symlink_max_bytes as u64;
        let len = match self.rng.below(10) {
            0..=5 => self.rng.between(1, FAST_SYMLINK_MAX),
            6 => FAST_SYMLINK_MAX,
            7 => FAST_SYMLINK_MAX + 1,
            8 => max,
            _ => self.rng.between(FAST_SYMLINK_MAX + 1, max),
        };
        (0..len)
            .map(|at| {
                if at % 7 == 3 {
                    b'/'
                } else {
                    b'a' + (at % 26) as u8
                }
            })
            .collect()
    }

    fn device(&mut self) -> Device {
        // Old (8:8 bits) and new (12:20 bits) encodings differ on disk.
        if self.rng.chance(50) {
            Device {
                major: self.rng.below(256) as u32,
                minor: self.rng.below(256) as u32,
            }
        } else {
            Device {
                major: self.rng.between(256, 4095) as u32,
                minor: self.rng.between(256, (1 << 20) - 1) as u32,
            }
        }
    }

    fn dense(&mut self) -> Content {
        let size = match self.rng.below(1000) {
            0..=49 => 0,
            50..=449 => self.rng.below(1 << 10),
            450..=849 => self.rng.below(16 << 10),
            850..=969 => self.rng.below(64 << 10),
            970..=995 => self.rng.below(512 << 10),
            _ => self.rng.between(1 << 20, 6 << 20),
        };
        let size = if size <= self.data_left_bytes {
            size
        } else {
            self.rng.below(100)
        };
        let style = *self.rng.pick(&[Style::Text, Style::Text, Style::Random]);
        self.spend(Content::dense(size, self.rng.clone().next_u64(), style))
    }

    /// Holes at the start, in the middle or at the end, aligned or not.
    fn sparse(&mut self) -> Content {
        let mut pieces = Vec::new();
        let mut at = if self.rng.chance(60) { self.hole() } else { 0 };
        for _ in 0..self.rng.below(5) {
            let len_bytes = self.rng.between(1, 9000);
            let seed = self.rng.next_u64();
            pieces.push(Piece {
                offset_bytes: at,
                len_bytes,
                seed,
                style: Style::Random,
            });
            at += len_bytes + self.hole();
        }
        let end = pieces
            .last()
            .map_or(0, |last| last.offset_bytes + last.len_bytes);
        let size_bytes = if self.rng.chance(50) {
            end + self.hole()
        } else {
            end
        };
        self.spend(Content { size_bytes, pieces })
    }

    fn hole(&mut self) -> u64 {
        let blocks = self.rng.between(1, 64) * HOLE_BYTES;
        if self.rng.chance(50) {
            blocks
        } else {
            blocks + self.rng.below(5000)
        }
    }

    fn spend(&mut self, content: Content) -> Content {
        self.data_left_bytes = self.data_left_bytes.saturating_sub(content.data_bytes());
        content
    }

    fn push(&mut self, path: Vec<u8>, kind: NodeKind) {
        let index = self.nodes.len();
        let mut rng = self.rng.fork(index as u64);
        let attributes = match kind {
            NodeKind::HardLink(first) => self.nodes[first].attributes.clone(),
            _ => attributes(&mut rng, self.shape, &kind),
        };
        match kind {
            NodeKind::Directory => self.directories.push(path.clone()),
            NodeKind::HardLink(_) => {}
            _ => self.linkable.push(index),
        }
        self.nodes.push(Node {
            path,
            kind,
            attributes,
        });
    }
}

fn join(parent: &[u8], name: &[u8]) -> Vec<u8> {
    if parent.is_empty() {
        name.to_vec()
    } else {
        [parent, b"/", name].concat()
    }
}
