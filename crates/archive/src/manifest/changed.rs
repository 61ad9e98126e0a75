//! A sink that changes attributes on their way to another sink.

use super::contexts::FileContexts;
use super::mtree::{EntryType, Line, Mtree};
use super::owners::{IdRange, map};
use crate::fault::{Fault, shown};
use std::collections::HashSet;
use uext4_builder::{Attributes, Entry, Node, Result, Sink, Xattr};
use uext4_format::Timestamp;
use uext4_format::acl::{IdKind, replace_ids};

const LABEL: &[u8] = b"security.selinux";
const ACL: &[u8] = b"system.posix_acl_";

/// How modification times change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// Times of the sources, unless the mtree has others.
    #[default]
    Source,
    /// This one, unless the mtree has another.
    At(Timestamp),
    /// Those of the sources and of the mtree, and this one where they are later.
    NotAfter(Timestamp),
}

impl Times {
    /// Sets a time; [`Times::clamp`] comes after the mtree.
    fn set(self, mtime: &mut Timestamp) {
        if let Times::At(time) = self {
            *mtime = time;
        }
    }

    fn clamp(self, mtime: &mut Timestamp) {
        if let Times::NotAfter(latest) = self
            && *mtime > latest
        {
            *mtime = latest;
        }
    }
}

/// What a [`Changed`] sink replaces in the attributes of its source.
#[derive(Debug, Default)]
pub struct Changes {
    /// Where users move, in ACLs too; a number in none of these is refused.
    pub users: Vec<IdRange>,
    /// Where groups move, in ACLs too; a number in none of these is refused.
    pub groups: Vec<IdRange>,
    /// User and group of all files.
    pub owner: Option<(u32, u32)>,
    /// Modification times of what sources have.
    pub times: Times,
    /// An mtree specification with attributes for single paths.
    pub mtree: Option<Mtree>,
    /// Labels by path, instead of those of the source.
    pub contexts: Option<FileContexts>,
}

/// A sink before another one.
pub struct Changed<'a> {
    sink: &'a mut dyn Sink,
    changes: &'a Changes,
    seen: HashSet<&'a [u8]>,
}

impl<'a> Changed<'a> {
    /// Changes what goes to `sink`.
    #[must_use]
    pub fn new(sink: &'a mut dyn Sink, changes: &'a Changes) -> Changed<'a> {
        Changed {
            sink,
            changes,
            seen: HashSet::new(),
        }
    }

    /// Adds what the mtree has and no source had, to the current layer.
    ///
    /// # Errors
    /// A regular file that is missing and not `optional`, or a line without what its type needs;
    /// those of the sink.
    pub fn finish(self) -> Result<()> {
        let Some(mtree) = &self.changes.mtree else {
            return Ok(());
        };
        for (path, line) in &mtree.lines {
            if self.seen.contains(&path[..]) {
                continue;
            }
            let Some(node) = node(line).map_err(|fault| refused(mtree, line, fault))? else {
                continue;
            };
            let permissions = if node_is_directory(&node) {
                0o755
            } else {
                0o644
            };
            let mut entry = Entry {
                path: path.clone(),
                attributes: Attributes {
                    permissions,
                    ..Attributes::default()
                },
                node,
            };
            self.changes.times.set(&mut entry.attributes.mtime);
            apply(line, &mut entry);
            self.changes.times.clamp(&mut entry.attributes.mtime);
            self.changes
                .label(&entry.path, &entry.node, &mut entry.attributes);
            self.sink.add(entry)?;
        }
        Ok(())
    }
}

impl Changes {
    /// Changes a directory that no source has, for [`uext4_builder::Builder::describe`]. Its owner
    /// stays if no map has it.
    pub fn describe(&self, path: &[u8], attributes: &mut Attributes) {
        let (uid, gid) = (attributes.uid, attributes.gid);
        attributes.uid = map(&self.users, uid).unwrap_or(uid);
        attributes.gid = map(&self.groups, gid).unwrap_or(gid);
        if let Some((uid, gid)) = self.owner {
            (attributes.uid, attributes.gid) = (uid, gid);
        }
        self.label(path, &Node::Directory, attributes);
    }

    fn owners(&self, attributes: &mut Attributes) -> std::result::Result<(), Fault> {
        let moved = |kind, id| {
            let (ranges, what) = match kind {
                IdKind::User => (&self.users, "user"),
                IdKind::Group => (&self.groups, "group"),
            };
            map(ranges, id).ok_or_else(|| {
                let problem = format!("has the {what} {id}, which no map has");
                Fault::refused(problem, "add a map FROM:TO:COUNT for it")
            })
        };
        attributes.uid = moved(IdKind::User, attributes.uid)?;
        attributes.gid = moved(IdKind::Group, attributes.gid)?;
        let lists = attributes.xattrs.iter_mut();
        for list in lists.filter(|xattr| xattr.name.starts_with(ACL)) {
            replace_ids(&mut list.value, moved)?;
        }
        if let Some((uid, gid)) = self.owner {
            (attributes.uid, attributes.gid) = (uid, gid);
        }
        Ok(())
    }

    fn label(&self, path: &[u8], node: &Node<'_>, attributes: &mut Attributes) {
        let Some(contexts) = &self.contexts else {
            return;
        };
        let xattrs = &mut attributes.xattrs;
        xattrs.retain(|xattr| xattr.name != LABEL);
        let label = contexts.label(path, node);
        xattrs.extend(label.map(|value| Xattr {
            name: LABEL.to_vec(),
            value: value.to_vec(),
        }));
    }
}

impl Sink for Changed<'_> {
    fn next_layer(&mut self) -> Result<()> {
        self.sink.next_layer()
    }

    fn add(&mut self, mut entry: Entry<'_>) -> Result<()> {
        let mtree = self.changes.mtree.as_ref();
        let found = mtree.and_then(|mtree| {
            let (path, line) = mtree.lines.get_key_value(&entry.path)?;
            Some((mtree, path, line))
        });
        if let Some((mtree, path, line)) = found {
            self.seen.insert(path);
            check_type(line, &entry.node).map_err(|fault| refused(mtree, line, fault))?;
        }
        if !matches!(entry.node, Node::Link(_)) {
            let name = format!("the file {}", shown(&entry.path));
            let owners = self.changes.owners(&mut entry.attributes);
            owners.map_err(|fault| fault.about(&name).of_source("the maps of owners"))?;
            self.changes.times.set(&mut entry.attributes.mtime);
            if let Some((_, _, line)) = found {
                apply(line, &mut entry);
            }
            self.changes.times.clamp(&mut entry.attributes.mtime);
            self.changes
                .label(&entry.path, &entry.node, &mut entry.attributes);
        }
        self.sink.add(entry)
    }

    fn hide(&mut self, path: &[u8]) -> Result<()> {
        self.sink.hide(path)
    }

    fn hide_below(&mut self, path: &[u8]) -> Result<()> {
        self.sink.hide_below(path)
    }
}

fn refused(mtree: &Mtree, line: &Line, fault: Fault) -> uext4_builder::Error {
    let subject = format!("line {}", line.number);
    fault.about(&subject).of_source(&mtree.name)
}

fn node_is_directory(node: &Node<'_>) -> bool {
    matches!(node, Node::Directory)
}

/// Sets what a line says.
fn apply(line: &Line, entry: &mut Entry<'_>) {
    let attributes = &mut entry.attributes;
    attributes.permissions = line.mode.unwrap_or(attributes.permissions);
    attributes.uid = line.uid.unwrap_or(attributes.uid);
    attributes.gid = line.gid.unwrap_or(attributes.gid);
    attributes.mtime = line.mtime.unwrap_or(attributes.mtime);
    for xattr in &line.xattrs {
        attributes.xattrs.retain(|other| other.name != xattr.name);
        attributes.xattrs.push(xattr.clone());
    }
    if let (Node::CharDevice(number) | Node::BlockDevice(number), Some(device)) =
        (&mut entry.node, line.device)
    {
        *number = device;
    }
    if let (Node::Symlink(target), Some(link)) = (&mut entry.node, &line.target) {
        target.clone_from(link);
    }
}

/// The type of a file cannot be changed: an ordinary file has contents that a device has not.
fn check_type(line: &Line, node: &Node<'_>) -> std::result::Result<(), Fault> {
    let kind = match node {
        Node::Directory => EntryType::Directory,
        Node::File(_) => EntryType::File,
        Node::Symlink(_) => EntryType::Symlink,
        Node::Link(_) => return Ok(()),
        Node::CharDevice(_) => EntryType::CharDevice,
        Node::BlockDevice(_) => EntryType::BlockDevice,
        Node::Fifo => EntryType::Fifo,
        Node::Socket => EntryType::Socket,
    };
    match line.kind {
        Some(other) if other != kind => Err(Fault::refused(
            "has another type than the file",
            "remove the file from the source, or correct the line",
        )),
        _ => Ok(()),
    }
}

/// The file that a line describes completely; `None` if it may be missing.
fn node(line: &Line) -> std::result::Result<Option<Node<'static>>, Fault> {
    Ok(Some(match line.kind {
        None | Some(EntryType::File) if line.is_optional => return Ok(None),
        None | Some(EntryType::File) => {
            let problem = "is for a file that no source has";
            return Err(Fault::refused(
                problem,
                "add the file, or the word optional to the line",
            ));
        }
        Some(EntryType::Directory) => Node::Directory,
        Some(EntryType::Symlink) => {
            Node::Symlink(line.target.clone().ok_or_else(|| missing("link=TARGET"))?)
        }
        Some(EntryType::CharDevice) => {
            Node::CharDevice(line.device.ok_or_else(|| missing("device=NUMBER"))?)
        }
        Some(EntryType::BlockDevice) => {
            Node::BlockDevice(line.device.ok_or_else(|| missing("device=NUMBER"))?)
        }
        Some(EntryType::Fifo) => Node::Fifo,
        Some(EntryType::Socket) => Node::Socket,
    }))
}

fn missing(what: &str) -> Fault {
    let problem = format!("is a new file without {what}");
    Fault::refused(problem, "add it to the line")
}
