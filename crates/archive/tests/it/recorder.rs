//! A sink that keeps everything: a plain model of layers, and a manifest of the result.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;
use uext4_archive::{Options, Source};
use uext4_builder::{Attributes, Data, Entry, Error, Node, Result, Sink};
use uext4_testkit::manifest::{Entry as Seen, FileKind, Hasher, Manifest};
use uext4_testkit::tree::{Device, Time};

/// Most bytes of a file that are kept; of longer ones only the hash is.
const KEPT_BYTES: u64 = 1 << 20;

/// A recorded file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) layer: usize,
    pub(crate) attributes: Attributes,
    pub(crate) kind: FileKind,
    pub(crate) device: Option<(u32, u32)>,
    /// Target of a symbolic link, or first path of a hard link.
    pub(crate) target: Option<Vec<u8>>,
    pub(crate) size: u64,
    pub(crate) ranges: Vec<Range<u64>>,
    pub(crate) bytes: Vec<u8>,
    hash: Option<u128>,
    pub(crate) is_later: bool,
    link: bool,
}

/// A recording sink.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) files: BTreeMap<Vec<u8>, File>,
    pub(crate) layer: usize,
    /// Hidden paths with the layer that hides, and whether the path itself is hidden.
    hidden: Vec<(Vec<u8>, usize, bool)>,
    /// Bytes read of files.
    pub(crate) read: u64,
}

impl Recorder {
    /// What a source feeds.
    pub(crate) fn of(source: Source, options: &Options) -> Result<Recorder> {
        let mut recorder = Recorder::default();
        source.feed(&mut recorder, options)?;
        Ok(recorder)
    }

    pub(crate) fn file(&self, path: &str) -> &File {
        let file = self.files.get(path.as_bytes());
        file.unwrap_or_else(|| panic!("{path} is missing"))
    }

    /// All paths as text.
    pub(crate) fn paths(&self) -> Vec<String> {
        let paths = self.files.keys();
        paths.map(|path| path.escape_ascii().to_string()).collect()
    }

    fn is_hidden(&self, path: &[u8]) -> bool {
        let below = |above: &[u8]| {
            let rest = path.strip_prefix(above);
            rest.is_some_and(|rest| above.is_empty() && !rest.is_empty() || rest.starts_with(b"/"))
        };
        let marked = self.hidden.iter().any(|(hidden, layer, itself)| {
            *layer < self.layer && (below(hidden) || *itself && hidden == path)
        });
        let covered = self.files.iter().any(|(upper, file)| {
            file.layer < self.layer
                && (upper == path || file.kind != FileKind::Directory && below(upper))
        });
        marked || covered
    }

    fn contents(&mut self, file: &mut File, data: Data<'_>) -> Result<()> {
        let (ranges, mut stream) = match data {
            Data::Stream { ranges, reader } => (ranges, Contents::Stream(reader)),
            Data::Later {
                ranges,
                file: later,
            } => (ranges, Contents::Later(later)),
        };
        let mut hasher = Hasher::new();
        let mut at = 0;
        for range in &ranges {
            assert!(at <= range.start && range.start < range.end && range.end <= file.size);
            zeroes(&mut hasher, range.start - at);
            at = range.start;
            while at < range.end {
                let mut piece = vec![0; (range.end - at).min(100_000) as usize];
                stream.read(at, &mut piece)?;
                hasher.update(&piece);
                if file.size <= KEPT_BYTES {
                    file.bytes[at as usize..][..piece.len()].copy_from_slice(&piece);
                }
                at += piece.len() as u64;
                self.read += piece.len() as u64;
            }
        }
        zeroes(&mut hasher, file.size - at);
        file.hash = Some(hasher.finish());
        file.is_later = matches!(stream, Contents::Later(_));
        file.ranges = ranges;
        Ok(())
    }

    /// The recorded tree.
    pub(crate) fn manifest(&self) -> Manifest {
        let mut manifest = Manifest::default();
        let mut groups: BTreeMap<&Vec<u8>, Vec<&Vec<u8>>> = BTreeMap::new();
        for (path, file) in &self.files {
            let first = if file.link {
                file.target.as_ref().unwrap()
            } else {
                path
            };
            manifest
                .entries
                .insert(path.clone(), seen(&self.files[first]));
            groups.entry(first).or_default().push(path);
        }
        for paths in groups.values().filter(|paths| paths.len() > 1) {
            for path in paths {
                let entry = manifest.entries.get_mut(*path).unwrap();
                entry.nlink = paths.len() as u64;
                entry.link_group = Some(paths[0].clone());
            }
        }
        for path in self.files.keys().filter(|path| !path.is_empty()) {
            let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            let is_directory = self.files[path].kind == FileKind::Directory;
            let parent = manifest.entries.get_mut(&path[..slash]);
            if let (true, Some(parent)) = (is_directory, parent) {
                parent.nlink += 1;
            }
        }
        manifest
    }
}

enum Contents<'a> {
    Stream(&'a mut dyn Read),
    Later(Box<dyn uext4_builder::ReadAt>),
}

impl Contents<'_> {
    fn read(&mut self, at: u64, piece: &mut [u8]) -> Result<()> {
        let result = match self {
            Contents::Stream(reader) => reader.read_exact(piece),
            Contents::Later(file) => file.read_at(at, piece),
        };
        // The error of the archive must reach the user, whatever the sink makes of it.
        result.map_err(|error| Error::Source {
            source_name: "the recorder".into(),
            error,
        })
    }
}

fn zeroes(hasher: &mut Hasher, mut count: u64) {
    let piece = [0; 65_536];
    // A hole of terabytes is a matter of its size, not of its hash.
    while count > 0 && count < 1 << 34 {
        let part = count.min(65_536);
        hasher.update(&piece[..part as usize]);
        count -= part;
    }
}

fn seen(file: &File) -> Seen {
    let mut seen = Seen::new(file.kind);
    seen.mode = u32::from(file.attributes.permissions);
    (seen.uid, seen.gid) = (file.attributes.uid, file.attributes.gid);
    seen.mtime = Time {
        seconds: file.attributes.mtime.seconds,
        nanos: file.attributes.mtime.nanoseconds,
    };
    if file.kind == FileKind::Directory {
        seen.nlink = 2;
    }
    seen.size_bytes = file
        .target
        .as_ref()
        .map_or(file.size, |target| target.len() as u64);
    seen.device = file.device.map(|(major, minor)| Device { major, minor });
    seen.target = file.target.clone();
    let xattrs = file.attributes.xattrs.iter();
    seen.xattrs = xattrs
        .map(|xattr| (xattr.name.clone(), xattr.value.clone()))
        .collect();
    assert_eq!(seen.xattrs.len(), file.attributes.xattrs.len());
    seen.hash = file.hash;
    seen
}

impl Sink for Recorder {
    fn next_layer(&mut self) -> Result<()> {
        self.layer += 1;
        Ok(())
    }

    fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        if self.is_hidden(&entry.path) {
            return Ok(());
        }
        let mut file = File {
            layer: self.layer,
            attributes: entry.attributes,
            kind: FileKind::Directory,
            device: None,
            target: None,
            size: 0,
            ranges: Vec::new(),
            bytes: Vec::new(),
            hash: None,
            is_later: false,
            link: false,
        };
        match entry.node {
            Node::Directory => {}
            Node::File(content) => {
                file.kind = FileKind::File;
                file.size = content.size;
                if file.size <= KEPT_BYTES {
                    file.bytes = vec![0; file.size as usize];
                }
                self.contents(&mut file, content.data)?;
            }
            Node::Symlink(target) => {
                file.kind = FileKind::Symlink;
                file.target = Some(target);
            }
            Node::Link(target) => {
                let first = self.files.get(&target);
                let first = first.ok_or_else(|| Error::Refused {
                    source_name: "the recorder".into(),
                    problem: "a link without its target".into(),
                    advice: "it has no layers below",
                })?;
                file.kind = first.kind;
                file.link = true;
                file.target = if first.link {
                    first.target.clone()
                } else {
                    Some(target)
                };
            }
            Node::CharDevice(number) => {
                file.kind = FileKind::CharDevice;
                file.device = Some((number.major, number.minor));
            }
            Node::BlockDevice(number) => {
                file.kind = FileKind::BlockDevice;
                file.device = Some((number.major, number.minor));
            }
            Node::Fifo => file.kind = FileKind::Fifo,
            Node::Socket => file.kind = FileKind::Socket,
        }
        self.files.insert(entry.path, file);
        Ok(())
    }

    fn hide(&mut self, path: &[u8]) -> Result<()> {
        self.hidden.push((path.to_vec(), self.layer, true));
        Ok(())
    }

    fn hide_below(&mut self, path: &[u8]) -> Result<()> {
        self.hidden.push((path.to_vec(), self.layer, false));
        Ok(())
    }
}
