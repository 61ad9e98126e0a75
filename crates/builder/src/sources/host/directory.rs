//! A directory of the host as a source.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rustix::fs::{Mode, OFlags};

use super::names;
use super::scan::{Ahead, Scanned, ScannedFile, ScannedNode, Scanner};
use crate::error::{Error, Result};
use crate::sources::entry::{Attributes, Entry, Node};
use crate::sources::sink::Sink;

/// Directories that are scanned ahead, for each thread.
const AHEAD_MAX: usize = 4;

/// Whether a path below the directory is left out.
type Exclusion = Box<dyn Fn(&[u8]) -> bool + Send>;

/// A directory of the host as a source, with all that is below it.
pub struct Host {
    root: Arc<OwnedFd>,
    path: PathBuf,
    threads: usize,
    /// First paths in the image of files with several names.
    linked: HashMap<(u64, u64), Vec<u8>>,
    left_out: HashSet<(u64, u64)>,
    excluded: Option<Exclusion>,
    /// The device of the directory, if no other is entered.
    device: Option<u64>,
}

/// A directory that is not in the image yet.
enum Waiting {
    Path(PathBuf),
    Requested(Receiver<Result<Scanned>>),
}

impl Host {
    /// Opens the directory.
    ///
    /// # Errors
    /// [`Error::Source`], for example if it is no directory.
    pub fn open(path: &Path) -> Result<Host> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty());
        let root = root.map_err(|error| Error::unreadable(path, error))?;
        Ok(Host {
            root: Arc::new(root),
            path: path.to_path_buf(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            linked: HashMap::new(),
            left_out: HashSet::new(),
            excluded: None,
            device: None,
        })
    }

    /// Leaves out paths below the directory for which `excluded` returns true, with all below them.
    #[must_use]
    pub fn excluding(mut self, excluded: impl Fn(&[u8]) -> bool + Send + 'static) -> Host {
        self.excluded = Some(Box::new(excluded));
        self
    }

    /// Does not enter directories on other file systems: mount points are empty.
    ///
    /// # Errors
    /// [`Error::Source`].
    pub fn on_one_file_system(mut self) -> Result<Host> {
        let stat = rustix::fs::fstat(&*self.root);
        let stat = stat.map_err(|error| Error::unreadable(&self.path, error))?;
        self.device = Some(stat.st_dev);
        Ok(self)
    }

    /// Leaves files out, by device and inode number: the image itself may be in its source.
    #[must_use]
    pub fn without(mut self, files: impl IntoIterator<Item = (u64, u64)>) -> Host {
        self.left_out.extend(files);
        self
    }

    /// Scans with this many threads; 0 is as 1. The default is one for each processor.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Host {
        self.threads = threads.max(1);
        self
    }

    /// Adds the directory and everything in it, at a path of the image; empty for the root.
    ///
    /// # Errors
    /// [`Error::Source`], or those of the sink.
    pub fn feed(&mut self, at: &[u8], sink: &mut dyn Sink) -> Result<()> {
        let mut scanner = Scanner::new(self.root.clone(), self.path.clone());
        sink.add(Entry {
            path: at.to_vec(),
            attributes: scanner.root()?,
            node: Node::Directory,
        })?;
        let mut ahead = Ahead::new(&self.root, &self.path, self.threads);
        let mut waiting = vec![Waiting::Path(PathBuf::new())];
        while let Some(next) = waiting.pop() {
            let scanned = match next {
                Waiting::Path(below) => scanner.scan(below),
                Waiting::Requested(scan) => scan.recv().expect("a thread scans what was requested"),
            }?;
            let first = waiting.len();
            for file in scanned.files {
                let name = names::part(scanned.directory.name(file.name));
                let child = scanned.directory.path.join(name);
                if self.add(file, &child, at, sink)? {
                    waiting.push(Waiting::Path(child));
                }
            }
            waiting[first..].reverse();
            let soon = waiting.len().saturating_sub(self.threads * AHEAD_MAX);
            for one in waiting[soon..].iter_mut().rev() {
                if let Waiting::Path(below) = one {
                    *one = Waiting::Requested(ahead.request(std::mem::take(below)));
                }
            }
        }
        Ok(())
    }

    /// Adds one file; returns whether it is a directory.
    fn add(
        &mut self,
        file: ScannedFile,
        child: &Path,
        at: &[u8],
        sink: &mut dyn Sink,
    ) -> Result<bool> {
        let below = child.as_os_str().as_bytes();
        let is_excluded = self
            .excluded
            .as_ref()
            .is_some_and(|excluded| excluded(below));
        if is_excluded || self.left_out.contains(&file.identity) {
            return Ok(false);
        }
        let path = join(at, below);
        let is_directory = matches!(file.kind, ScannedNode::Directory);
        let is_entered = self.device.is_none_or(|device| device == file.identity.0);
        let linked = file.has_more_names.then_some(file.identity);
        if let Some(first) = linked.and_then(|id| self.linked.get(&id)) {
            sink.add(Entry {
                path,
                attributes: Attributes::default(),
                node: Node::Link(first.clone()),
            })?;
            return Ok(false);
        }
        if let Some(id) = linked {
            self.linked.insert(id, path.clone());
        }
        sink.add(Entry {
            path,
            attributes: file.attributes,
            node: file.kind.into(),
        })?;
        Ok(is_directory && is_entered)
    }
}

fn join(at: &[u8], below: &[u8]) -> Vec<u8> {
    if at.is_empty() {
        return below.to_vec();
    }
    [at, below].join(&b'/')
}
