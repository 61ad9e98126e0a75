//! Differences between two manifests, in words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::entry::{Entry, FileKind, Manifest};

/// Most differences that [`Manifest::assert_same`] prints.
const SHOWN: usize = 20;

/// A field that may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Permission bits with setuid, setgid and sticky.
    Mode,
    /// User id and group id.
    Owner,
    /// Number of hard links.
    Nlink,
    /// Size, except of directories.
    Size,
    /// Size of a directory: file systems count it differently.
    DirectorySize,
    /// Allocated sectors of 512 bytes.
    AllocatedSectors,
    /// Time of the last access.
    Atime,
    /// Time of the last change of content.
    Mtime,
    /// Modification time of directories only.
    DirectoryMtime,
    /// Time of the last change of the inode.
    Ctime,
    /// Device number of a device node.
    Device,
    /// Target of a symlink.
    Target,
    /// Extended attributes with their values.
    Xattrs,
    /// Content, by its hash.
    Content,
    /// Runs of data and holes, as `SEEK_DATA` and `SEEK_HOLE` give them.
    DataRuns,
    /// Which paths are hard links of one inode.
    LinkGroup,
    /// Hard links of device nodes and pipes: tar stores each name as a separate node.
    SpecialLinks,
    /// Hard links of symlinks: `mke2fs -d` makes a separate inode per name.
    SymlinkLinks,
    /// All fields of the root directory itself.
    Root,
    /// Sockets: an archive cannot hold them.
    Sockets,
}

/// The set of fields to ignore.
#[derive(Clone, Debug)]
pub struct Policy {
    ignored: BTreeSet<Field>,
}

impl Default for Policy {
    /// Compares everything that a faithful copy keeps.
    fn default() -> Self {
        use Field::{AllocatedSectors, Atime, Ctime, DataRuns, DirectorySize};
        Self {
            ignored: [DirectorySize, AllocatedSectors, Atime, Ctime, DataRuns].into(),
        }
    }
}

impl Policy {
    /// Compares what a tar archive keeps.
    pub fn archived() -> Self {
        Self::default()
            .ignore(Field::Sockets)
            .ignore(Field::SpecialLinks)
    }

    /// A policy that ignores nothing.
    pub fn everything() -> Self {
        Self {
            ignored: BTreeSet::new(),
        }
    }

    /// Ignores `field`, and keeps the rest of the policy.
    pub fn ignore(mut self, field: Field) -> Self {
        self.ignored.insert(field);
        self
    }

    /// Compares `field`, if the policy ignored it before.
    pub fn check(mut self, field: Field) -> Self {
        self.ignored.remove(&field);
        self
    }

    fn checks(&self, field: Field) -> bool {
        !self.ignored.contains(&field)
    }

    fn admits(&self, path: &[u8], entry: &Entry) -> bool {
        let is_root = path.is_empty();
        let is_socket = entry.kind == FileKind::Socket;
        (self.checks(Field::Root) || !is_root) && (self.checks(Field::Sockets) || !is_socket)
    }
}

/// One difference between two manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Path from the root of the tree.
    pub path: Vec<u8>,
    /// For a reader: the field and both values, or that one side lacks the path.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\": {}", self.path.escape_ascii(), self.what)
    }
}

impl Manifest {
    /// All differences from `self` (expected) to `found`, sorted by path.
    pub fn diff(&self, found: &Self, policy: &Policy) -> Vec<Difference> {
        let expected = self.admitted(policy);
        let found = found.admitted(policy);
        let paths: BTreeSet<_> = expected.keys().chain(found.keys()).copied().collect();
        let mut differences = Vec::new();
        for path in paths {
            let words = match (expected.get(path), found.get(path)) {
                (Some(a), Some(b)) => entry_differences(a, b, policy),
                (Some(_), None) => vec!["is missing".to_owned()],
                _ => vec!["should not be there".to_owned()],
            };
            let path = path.to_vec();
            differences.extend(words.into_iter().map(|what| Difference {
                path: path.clone(),
                what,
            }));
        }
        differences
    }

    /// Fails with the first differences.
    ///
    /// # Panics
    /// There is a difference.
    #[track_caller]
    pub fn assert_same(&self, found: &Self, policy: &Policy) {
        let differences = self.diff(found, policy);
        let shown: Vec<_> = differences
            .iter()
            .take(SHOWN)
            .map(ToString::to_string)
            .collect();
        assert!(
            differences.is_empty(),
            "{} differences in {} entries:\n{}",
            differences.len(),
            self.entries.len(),
            shown.join("\n")
        );
    }

    fn admitted(&self, policy: &Policy) -> BTreeMap<&[u8], &Entry> {
        let all = self
            .entries
            .iter()
            .map(|(path, entry)| (path.as_slice(), entry));
        all.filter(|(path, entry)| policy.admits(path, entry))
            .collect()
    }
}

fn entry_differences(a: &Entry, b: &Entry, policy: &Policy) -> Vec<String> {
    if a.kind != b.kind {
        return vec![format!("is {:?}, expected {:?}", b.kind, a.kind)];
    }
    let mut out = Collector {
        policy,
        words: Vec::new(),
    };
    let is_dir = a.kind == FileKind::Directory;
    out.compare(
        Field::Mode,
        "mode (octal)",
        &format!("{:o}", a.mode),
        &format!("{:o}", b.mode),
    );
    out.compare(Field::Owner, "owner", &(a.uid, a.gid), &(b.uid, b.gid));
    if has_links_that_count(a.kind, policy) {
        let (a_group, b_group) = (text(&a.link_group), text(&b.link_group));
        out.compare(Field::Nlink, "nlink", &a.nlink, &b.nlink);
        out.compare(Field::LinkGroup, "first hard link", &a_group, &b_group);
    }
    let size = if is_dir {
        Field::DirectorySize
    } else {
        Field::Size
    };
    out.compare(size, "size in bytes", &a.size_bytes, &b.size_bytes);
    let sectors = (a.allocated_sectors, b.allocated_sectors);
    out.compare(
        Field::AllocatedSectors,
        "allocated sectors",
        &sectors.0,
        &sectors.1,
    );
    out.compare(Field::Atime, "atime", &a.atime, &b.atime);
    if !is_dir || policy.checks(Field::DirectoryMtime) {
        out.compare(Field::Mtime, "mtime", &a.mtime, &b.mtime);
    }
    out.compare(Field::Ctime, "ctime", &a.ctime, &b.ctime);
    out.compare(Field::Device, "device", &a.device, &b.device);
    out.compare(Field::Target, "target", &text(&a.target), &text(&b.target));
    out.compare(Field::Content, "content hash", &a.hash, &b.hash);
    if a.data_runs.is_some() && b.data_runs.is_some() {
        out.compare(Field::DataRuns, "runs of data", &a.data_runs, &b.data_runs);
    }
    if policy.checks(Field::Xattrs) {
        out.words.extend(xattr_differences(a, b));
    }
    out.words
}

fn has_links_that_count(kind: FileKind, policy: &Policy) -> bool {
    match kind {
        FileKind::CharDevice | FileKind::BlockDevice | FileKind::Fifo => {
            policy.checks(Field::SpecialLinks)
        }
        FileKind::Symlink => policy.checks(Field::SymlinkLinks),
        _ => true,
    }
}

struct Collector<'a> {
    policy: &'a Policy,
    words: Vec<String>,
}

impl Collector<'_> {
    fn compare<T: PartialEq + fmt::Debug>(&mut self, field: Field, name: &str, a: &T, b: &T) {
        if self.policy.checks(field) && a != b {
            self.words.push(format!("{name} is {b:?}, expected {a:?}"));
        }
    }
}

fn xattr_differences(a: &Entry, b: &Entry) -> Vec<String> {
    let names: BTreeSet<_> = a.xattrs.keys().chain(b.xattrs.keys()).collect();
    let differing = names
        .into_iter()
        .filter(|name| a.xattrs.get(*name) != b.xattrs.get(*name));
    differing
        .map(|name| {
            let (a, b) = (describe(a.xattrs.get(name)), describe(b.xattrs.get(name)));
            format!("xattr {} is {b}, expected {a}", name.escape_ascii())
        })
        .collect()
}

fn describe(value: Option<&Vec<u8>>) -> String {
    match value {
        None => "absent".to_owned(),
        Some(value) => {
            let shown: Vec<u8> = value.iter().copied().take(24).collect();
            format!("{} bytes \"{}\"", value.len(), shown.escape_ascii())
        }
    }
}

fn text(bytes: &Option<Vec<u8>>) -> Option<String> {
    bytes.as_ref().map(|bytes| bytes.escape_ascii().to_string())
}
