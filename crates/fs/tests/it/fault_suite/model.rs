//! Model of one thread's files on a failing device: the versions that each block may have.
//!
//! A block contains one version, stamped over its whole length. `acked` was acknowledged by an
//! `fsync` or `sync`; `sure` was written later without a reported error; `tried` is the last
//! attempt. A block may contain any version from the due one (see [`Due`]) to `tried`.

use uext4::{Caller, ErrorCursor, Filesystem, InodeRef, Result, WriteContext};
use uext4_sync::Rng;

const BLOCKS: u64 = 6;
const BLOCK_BYTES: u64 = 4096;
/// Unit that a device keeps or loses as a whole, in bytes.
const PART_BYTES: usize = 1024;

#[derive(Clone, Copy, Default)]
struct Block {
    acked: u32,
    sure: Option<u32>,
    tried: u32,
}

/// A file of one thread.
struct Tracked {
    name: String,
    inode: InodeRef,
    cursor: ErrorCursor,
    blocks: [Block; BLOCKS as usize],
}

/// The files of one thread, and its errors.
pub(crate) struct Model {
    files: Vec<Tracked>,
    rng: Rng,
    /// Number of errors that operations returned.
    pub(crate) errors: u64,
    next_name: u32,
    id: usize,
}

/// The oldest version that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The acknowledged version.
    Acked,
    /// The acknowledged version, on a file system without a journal.
    AckedUnlogged,
    /// Also the version written since, if no error was reported.
    Sure,
}

/// Expected state of a file, independent of the mount.
pub(crate) struct Expected {
    name: String,
    blocks: [Block; BLOCKS as usize],
}

fn stamp(name: &str, block: u64, version: u32) -> Vec<u8> {
    let text = format!("{name} block {block} version {version:08}|");
    text.bytes().cycle().take(BLOCK_BYTES as usize).collect()
}

impl Tracked {
    fn acknowledge(&mut self) {
        for block in &mut self.blocks {
            block.acked = block.sure.unwrap_or(block.acked);
        }
    }

    /// An error was reported, so unacknowledged data may be lost.
    fn forfeit(&mut self) {
        self.blocks.iter_mut().for_each(|block| block.sure = None);
    }

    fn write(&mut self, fs: &Filesystem, first: u64, count: u64) -> Result<()> {
        let mut data = Vec::new();
        for at in first..first + count {
            let block = &mut self.blocks[at as usize];
            block.tried += 1;
            data.extend(stamp(&self.name, at, block.tried));
        }
        let written = fs.write(&self.inode, first * BLOCK_BYTES, &data, &WriteContext::ROOT)?;
        for at in first..first + written.len_bytes as u64 / BLOCK_BYTES {
            let block = &mut self.blocks[at as usize];
            block.sure = Some(block.tried);
        }
        Ok(())
    }

    fn sync(&mut self, synced: Result<()>) -> Result<()> {
        match &synced {
            Ok(()) => self.acknowledge(),
            Err(_) => self.forfeit(),
        }
        synced
    }
}

impl Model {
    /// Creates durable files.
    pub(crate) fn new(fs: &Filesystem, id: usize, mut rng: Rng) -> Self {
        let (root, caller) = (fs.root().unwrap(), Caller::root());
        let dir = fs.mkdir(&root, format!("{id}").as_bytes(), 0o755, &caller);
        let dir = dir.unwrap();
        let files = ["a", "b"].map(|name| {
            let inode = fs.create(&dir, name.as_bytes(), 0o644, &caller).unwrap();
            let mut file = Tracked {
                name: format!("{id}/{name}"),
                cursor: fs.error_cursor(&inode),
                inode,
                blocks: Default::default(),
            };
            file.write(fs, 0, 1 + rng.below(BLOCKS)).unwrap();
            fs.fsync(&file.inode).unwrap();
            file.acknowledge();
            file
        });
        let files = files.into();
        Self {
            files,
            rng,
            errors: 0,
            next_name: 0,
            id,
        }
    }

    /// Runs one step and counts errors.
    pub(crate) fn step(&mut self, fs: &Filesystem) {
        let file = self.rng.below(2) as usize;
        let done = match self.rng.below(20) {
            0..9 => {
                let first = self.rng.below(BLOCKS);
                let count = 1 + self.rng.below((BLOCKS - first).min(3));
                self.files[file].write(fs, first, count)
            }
            9..16 => {
                let file = &mut self.files[file];
                let synced = fs.fsync_open(&file.inode, &file.cursor);
                file.sync(synced)
            }
            16 => {
                let synced = fs.sync();
                let files = self.files.iter_mut();
                files.fold(synced, |synced, file| file.sync(synced))
            }
            17 => self.read(fs, file),
            _ => self.churn(fs),
        };
        self.errors += u64::from(done.is_err());
    }

    /// Creates and removes names in the thread's directory.
    fn churn(&mut self, fs: &Filesystem) -> Result<()> {
        let caller = Caller::root();
        let dir = fs.lookup(&fs.root()?, format!("{}", self.id).as_bytes(), &caller)?;
        let name = format!("passing {}", self.next_name);
        self.next_name += 1;
        let made = fs.create(&dir, name.as_bytes(), 0o644, &caller)?;
        fs.write(&made, 0, &[7; 5000], &WriteContext::ROOT)?;
        if self.rng.chance(1, 2) {
            fs.unlink(&dir, name.as_bytes(), &caller)?;
        }
        Ok(())
    }

    fn read(&mut self, fs: &Filesystem, file: usize) -> Result<()> {
        let file = &self.files[file];
        let mut bytes = vec![0; BLOCK_BYTES as usize];
        fs.read(&file.inode, 0, &mut bytes).map(drop)
    }

    /// Converts the model to expectations, which releases the mount's inodes.
    pub(crate) fn expected(self) -> Vec<Expected> {
        let files = self.files.into_iter().map(|file| Expected {
            name: file.name,
            blocks: file.blocks,
        });
        files.collect()
    }
}

impl Expected {
    /// Checks the file in this mount.
    pub(crate) fn judge(&self, fs: &Filesystem, due: Due) -> std::result::Result<(), String> {
        let (dir, name) = self.name.split_once('/').unwrap();
        let caller = Caller::root();
        let find = || {
            let dir = fs.lookup(&fs.root()?, dir.as_bytes(), &caller)?;
            fs.lookup(&dir, name.as_bytes(), &caller)
        };
        let inode = find().map_err(|error| format!("{}: {error}", self.name))?;
        for (at, block) in (0..).zip(&self.blocks) {
            let least = match due {
                Due::Acked | Due::AckedUnlogged => block.acked,
                Due::Sure => block.sure.unwrap_or(block.acked),
            };
            let mut bytes = vec![0; BLOCK_BYTES as usize];
            fs.read(&inode, at * BLOCK_BYTES, &mut bytes)
                .map_err(|error| format!("{} block {at}: {error}", self.name))?;
            // Without a journal metadata is rewritten and data is not, so an unacknowledged block
            // may show the previous content of the device block.
            if least == 0 && due == Due::AckedUnlogged {
                continue;
            }
            let version = |version: u32| match version {
                0 => vec![0; BLOCK_BYTES as usize],
                _ => stamp(&self.name, at, version),
            };
            let may_be: Vec<Vec<u8>> = (least..=block.tried).map(version).collect();
            // File-system blocks have at least this length.
            let parts = (0..BLOCK_BYTES as usize).step_by(PART_BYTES);
            let is_right = |part: &usize| {
                let part = *part..*part + PART_BYTES;
                may_be
                    .iter()
                    .any(|block| block[part.clone()] == bytes[part.clone()])
            };
            if let Some(part) = parts.into_iter().find(|part| !is_right(part)) {
                let starts = String::from_utf8_lossy(&bytes[part..part + 40]).into_owned();
                let (name, tried) = (&self.name, block.tried);
                return Err(format!(
                    "{name} block {at}: {due:?} {least}..={tried}, but {starts:?}"
                ));
            }
        }
        Ok(())
    }
}
