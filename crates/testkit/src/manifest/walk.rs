//! Walks a [`Source`] into a [`Manifest`].

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::entry::{DataRun, Entry, FileKind, Hasher, Manifest};

/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;

/// Result of a `stat`: an entry without names, content and attributes.
#[derive(Clone, Debug)]
pub struct Stat {
    /// Inode number, to find hard links.
    pub inode: u64,
    /// The fields that `stat` fills; the others are as in [`Entry::new`].
    pub entry: Entry,
}

/// A tree that can be walked. Paths are relative to its root, without a leading slash.
pub trait Source {
    /// Names in a directory, without `.` and `..`, in any order.
    ///
    /// # Errors
    /// The error of the file system.
    fn list(&self, path: &[u8]) -> Result<Vec<Vec<u8>>>;
    /// Attributes of a path; a symlink at the end is not followed.
    ///
    /// # Errors
    /// The error of the file system.
    fn stat(&self, path: &[u8]) -> Result<Stat>;
    /// Target of a symlink.
    ///
    /// # Errors
    /// The error of the file system.
    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>>;
    /// Extended attributes of all namespaces with their full names.
    ///
    /// # Errors
    /// The error of the file system.
    fn xattrs(&self, path: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>>;
    /// Passes the content of a regular file to `sink` in order, in pieces of about `piece_bytes`.
    ///
    /// # Errors
    /// The error of the file system.
    fn read(&self, path: &[u8], piece_bytes: usize, sink: &mut dyn FnMut(&[u8])) -> Result<()>;
    /// Runs of data of a regular file; `None` when the source cannot tell.
    ///
    /// # Errors
    /// The error of the file system.
    fn data_runs(&self, path: &[u8]) -> Result<Option<Vec<DataRun>>>;
}

impl Manifest {
    /// Walks all of `source` from its root. `lost+found` in the root is left out.
    ///
    /// # Errors
    /// The error of the file system, with the path.
    pub fn of(source: &dyn Source) -> Result<Self> {
        let mut walk = Walk {
            source,
            manifest: Self::default(),
            inodes: BTreeMap::new(),
        };
        let mut waiting = vec![Vec::new()];
        while let Some(path) = waiting.pop() {
            let children = walk
                .visit(&path)
                .with_context(|| format!("at \"{}\"", path.escape_ascii()))?;
            waiting.extend(children);
        }
        walk.name_link_groups();
        Ok(walk.manifest)
    }
}

struct Walk<'a> {
    source: &'a dyn Source,
    manifest: Manifest,
    /// Paths of every inode that is not a directory.
    inodes: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Walk<'_> {
    /// Adds one path; returns its children.
    fn visit(&mut self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let Stat { inode, mut entry } = self.source.stat(path)?;
        entry.xattrs = self.source.xattrs(path)?;
        let mut children = Vec::new();
        match entry.kind {
            FileKind::Directory => children = self.children(path)?,
            FileKind::Symlink => entry.target = Some(self.source.read_link(path)?),
            FileKind::File => {
                entry.hash = Some(self.hash(path)?);
                entry.data_runs = self.source.data_runs(path)?;
            }
            _ => {}
        }
        if entry.kind != FileKind::Directory {
            self.inodes.entry(inode).or_default().push(path.to_vec());
        }
        self.manifest.entries.insert(path.to_vec(), entry);
        Ok(children)
    }

    fn children(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let names = self.source.list(path)?;
        if path.is_empty() {
            return Ok(names
                .into_iter()
                .filter(|name| name != b"lost+found")
                .collect());
        }
        Ok(names
            .into_iter()
            .map(|name| [path, b"/", &name].concat())
            .collect())
    }

    fn hash(&self, path: &[u8]) -> Result<u128> {
        let mut hasher = Hasher::new();
        self.source
            .read(path, READ_BYTES, &mut |bytes| hasher.update(bytes))?;
        Ok(hasher.finish())
    }

    fn name_link_groups(&mut self) {
        for paths in self.inodes.values().filter(|paths| paths.len() > 1) {
            let first = paths.iter().min();
            for path in paths {
                if let Some(entry) = self.manifest.entries.get_mut(path) {
                    entry.link_group = first.cloned();
                }
            }
        }
    }
}
