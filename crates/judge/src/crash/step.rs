//! One step of a workload: an operation of testkit, or one that needs a handle or a device.

use std::collections::BTreeMap;

use anyhow::{Result as Checked, ensure};
use uext4::{Caller, FallocateMode, Filesystem, InodeRef, SetAttr, SetMode, SetTime, Timestamp};
use uext4_testkit::manifest::Source;
use uext4_testkit::model::Model;
use uext4_testkit::ops::{Errno, Op, Target, written_bytes};

use crate::EngineTarget;

/// An access list of owner, one user, group, mask and others, as Linux passes it.
const ACL: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 100, 0, 0, 0, 4, 0, 4, 0, 255, 255,
    255, 255, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
];
/// `FS_NODUMP_FL`.
const NODUMP: u32 = 0x40;
/// The permission bits that go with [`ACL`].
const ACL_MODE: u32 = 0o644;

/// One step. Each is one call of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Op(Op),
    Sync,
    /// An unnamed file, held open.
    Tmpfile {
        held: u64,
    },
    /// Takes the name of a file that is held open.
    UnlinkHeld {
        held: u64,
        path: Vec<u8>,
    },
    WriteHeld {
        held: u64,
        offset: u64,
        len: u32,
        seed: u64,
    },
    /// Names a held file and closes it.
    LinkHeld {
        held: u64,
        path: Vec<u8>,
    },
    Close {
        held: u64,
    },
    Fallocate {
        path: Vec<u8>,
        mode: FallocateMode,
        offset: u64,
        len: u64,
    },
    SetAcl {
        path: Vec<u8>,
    },
    /// An access list that new files of a directory inherit.
    SetDefaultAcl {
        path: Vec<u8>,
    },
    /// Every other block of a file.
    Comb {
        path: Vec<u8>,
        teeth: u64,
        block_size: u32,
    },
    /// `fdatasync` of a regular file: its data and size, not its times or attributes.
    Fdatasync {
        path: Vec<u8>,
    },
    Utimes {
        path: Vec<u8>,
        seconds: i64,
    },
    /// Changes a flag of an inode that means nothing to us (`chattr +d`, `-d`).
    Flag {
        path: Vec<u8>,
    },
    /// Discards free space.
    Trim,
    /// Brings the device to rest, and lets changes in again.
    Freeze,
    /// The last step of every workload.
    Unmount,
}

/// Numbers of inodes that never had a name; the model counts from one.
const UNNAMED_NUMBERS: u64 = 1 << 48;

/// Open files of a workload.
#[derive(Default)]
pub(super) struct Held {
    inodes: BTreeMap<u64, InodeRef>,
    /// What they hold.
    files: BTreeMap<u64, HeldFile>,
    /// Those whose last write found no room: how much of it is on the disk is not known.
    cut_short: BTreeMap<u64, HeldFile>,
    /// The number of an inode before and after it got its first name.
    named: Option<(u64, u64)>,
}

/// The model does not know it: it has no name.
struct HeldFile {
    number: u64,
    name: Name,
    data: Vec<u8>,
}

#[derive(PartialEq)]
enum Name {
    /// It never had one, and may get one.
    Never,
    /// It lost it, and gets none again.
    Lost,
}

impl Held {
    /// Number and content of every inode without a name.
    pub(super) fn contents(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let files = self.files.values().chain(self.cut_short.values());
        files.map(|file| (file.number, &file.data[..]))
    }

    /// The number of an inode until the last step gave it its first name, and since.
    pub(super) fn take_named(&mut self) -> Option<(u64, u64)> {
        self.named.take()
    }

    /// What is left of a file after a step that failed is seen in a crash at most.
    fn end(&mut self, id: u64) {
        self.inodes.remove(&id);
        let file = self.files.remove(&id);
        self.cut_short.extend(file.map(|file| (id, file)));
    }

    fn hold(&mut self, id: u64, number: u64, name: Name, data: Vec<u8>) {
        let file = HeldFile { number, name, data };
        self.files.insert(id, file);
    }

    fn put(&mut self, id: u64, offset: u64, bytes: &[u8]) {
        if let Some(file) = self.files.get_mut(&id) {
            put(&mut file.data, offset as usize, bytes);
        }
    }
}

/// Runs a step on the engine.
pub(super) fn run(step: &Step, fs: &Filesystem, held: &mut Held) -> Result<(), Errno> {
    let mut target = EngineTarget::new(fs);
    let caller = Caller::root();
    let answer = |result: uext4::Result<()>| result.map_err(|error| crate::errno(&error));
    match step {
        Step::Op(op) => target.run(op),
        Step::Sync => answer(fs.sync()),
        Step::Fallocate {
            path,
            mode,
            offset,
            len,
        } => {
            let file = target.file(path)?;
            answer(fs.fallocate(&file, *mode, *offset, *len))
        }
        Step::SetAcl { path } => {
            let file = target.find(path)?;
            let name = b"system.posix_acl_access";
            answer(fs.set_xattr(&file, name, &ACL, SetMode::Any, &caller))
        }
        Step::SetDefaultAcl { path } => {
            let directory = target.find(path)?;
            let name = b"system.posix_acl_default";
            answer(fs.set_xattr(&directory, name, &ACL, SetMode::Any, &caller))
        }
        Step::Comb {
            path,
            teeth,
            block_size,
        } => {
            let file = target.file(path)?;
            let write = |(at, bytes): (u64, Vec<u8>)| target.write_all(&file, at, &bytes);
            comb(*teeth, *block_size).try_for_each(write)
        }
        Step::Fdatasync { path } => {
            let file = target.file(path)?;
            answer(fs.fdatasync(&file))
        }
        Step::Utimes { path, seconds } => {
            let inode = target.find(path)?;
            answer(fs.set_attr(&inode, &times(*seconds), &caller).map(drop))
        }
        Step::Flag { path } => {
            let inode = target.find(path)?;
            let flags = Some(fs.attr(&inode).flags ^ NODUMP);
            let set = SetAttr {
                flags,
                ..SetAttr::default()
            };
            answer(fs.set_attr(&inode, &set, &caller).map(drop))
        }
        Step::Trim => answer(fs.trim(0..u64::MAX, 0).map(drop)),
        Step::Freeze => answer(fs.freeze().and_then(|()| fs.thaw())),
        Step::Unmount => {
            held.inodes.clear();
            answer(fs.unmount())
        }
        held_file => run_held(held_file, fs, held),
    }
}

/// The steps that make, use and end an open file.
fn run_held(step: &Step, fs: &Filesystem, held: &mut Held) -> Result<(), Errno> {
    let target = EngineTarget::new(fs);
    let caller = Caller::root();
    let answer = |result: uext4::Result<()>| result.map_err(|error| crate::errno(&error));
    match step {
        Step::Tmpfile { held: id } => {
            let root = target.find(b"")?;
            let made = fs
                .tmpfile(&root, 0o600, &caller)
                .map_err(|error| crate::errno(&error))?;
            held.inodes.insert(*id, made);
            Ok(())
        }
        Step::UnlinkHeld { held: id, path } => {
            let file = target.file(path)?;
            let (parent, name) = target.place(path)?;
            answer(fs.unlink(&parent, name, &caller))?;
            held.inodes.insert(*id, file);
            Ok(())
        }
        Step::WriteHeld {
            held: id,
            offset,
            len,
            seed,
        } => {
            let file = held.inodes.get(id).ok_or(Errno::ENOENT)?;
            target.write_all(file, *offset, &written_bytes(*seed, *len))
        }
        Step::LinkHeld { held: id, path } => {
            let file = held.inodes.remove(id).ok_or(Errno::ENOENT)?;
            let (parent, name) = target.place(path)?;
            answer(fs.link(&file, &parent, name, &caller))
        }
        Step::Close { held: id } => {
            held.inodes.remove(id);
            // Whatever comes next frees it: here a lookup that finds nothing.
            let _ = target.find(b"no such name");
            Ok(())
        }
        _ => unreachable!("all others are run by `run`"),
    }
}

/// Offsets and bytes of a comb.
fn comb(teeth: u64, block_size: u32) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let tooth = move |n| (2 * n * u64::from(block_size), written_bytes(n, block_size));
    (0..teeth).map(tooth)
}

fn times(seconds: i64) -> SetAttr {
    let time = SetTime::At(Timestamp {
        seconds,
        nanoseconds: 7,
    });
    SetAttr {
        atime: Some(time),
        mtime: Some(time),
        ..SetAttr::default()
    }
}

/// What the step does to the model.
pub(super) fn expect(step: &Step, model: &mut Model, held: &mut Held) -> Result<(), Errno> {
    held.cut_short.clear();
    match step {
        Step::Op(op) => model.run(op),
        Step::Sync | Step::Trim | Step::Freeze | Step::Unmount => Ok(()),
        Step::Close { held: id } => {
            held.files.remove(id);
            Ok(())
        }
        Step::Tmpfile { held: id } => {
            held.hold(*id, UNNAMED_NUMBERS + id, Name::Never, Vec::new());
            Ok(())
        }
        Step::UnlinkHeld { held: id, path } => expect_unlink(*id, path, model, held),
        Step::WriteHeld {
            held: id,
            offset,
            len,
            seed,
        } => {
            held.put(*id, *offset, &written_bytes(*seed, *len));
            held.inodes
                .contains_key(id)
                .then_some(())
                .ok_or(Errno::ENOENT)
        }
        Step::LinkHeld { held: id, path } => expect_link(*id, path, model, held),
        Step::Fallocate {
            path,
            mode,
            offset,
            len,
        } => {
            let files = model.files();
            let size = files.get(path).map_or(0, |(_, data)| data.len() as u64);
            model.write(path, 0, &[])?;
            reshape(model, path, *mode, size, *offset, *len)
        }
        Step::SetDefaultAcl { path } => model.set_default_acl(path, &ACL),
        Step::Comb {
            path,
            teeth,
            block_size,
        } => {
            let write = |(at, bytes): (u64, Vec<u8>)| model.write(path, at, &bytes);
            comb(*teeth, *block_size).try_for_each(write)
        }
        Step::Fdatasync { path } => model.write(path, 0, &[]),
        Step::SetAcl { path } => model.set_acl(path, &ACL, ACL_MODE),
        Step::Utimes { path, .. } | Step::Flag { path } => {
            let numbers = model.numbers();
            numbers
                .contains_key(path)
                .then_some(())
                .ok_or(Errno::ENOENT)
        }
    }
}

/// A file that stays open loses its name.
fn expect_unlink(id: u64, path: &[u8], model: &mut Model, held: &mut Held) -> Result<(), Errno> {
    model.write(path, 0, &[])?;
    let found = model.files().remove(path);
    let (number, data) = found.map_or((0, &[][..]), |found| found);
    let data = data.to_vec();
    model.run(&Op::Unlink {
        path: path.to_vec(),
    })?;
    held.hold(id, number, Name::Lost, data);
    Ok(())
}

/// A file without a name gets one.
fn expect_link(id: u64, path: &[u8], model: &mut Model, held: &mut Held) -> Result<(), Errno> {
    let file = held.files.remove(&id);
    let file = file.filter(|file| file.name == Name::Never);
    let HeldFile { number, data, .. } = file.ok_or(Errno::ENOENT)?;
    model.run(&Op::Create {
        path: path.to_vec(),
        mode: 0o600,
    })?;
    let named = model.numbers().get(path).copied();
    held.named = named.map(|named| (number, named));
    model.write(path, 0, &data)
}

/// What a step that found no room did to the model: names and attributes are as before, and data
/// is as much as there was room for.
///
/// # Errors
/// The file holds something else.
pub(super) fn expect_part(
    step: &Step,
    fs: &Filesystem,
    model: &mut Model,
    held: &mut Held,
) -> Checked<()> {
    match step {
        Step::WriteHeld {
            held: id,
            offset,
            len,
            seed,
        } => {
            held.cut_short.clear();
            held.put(*id, *offset, &written_bytes(*seed, *len));
            held.end(*id);
            Ok(())
        }
        Step::LinkHeld { held: id, .. } => {
            held.cut_short.clear();
            held.end(*id);
            Ok(())
        }
        Step::Op(Op::Write { path, .. } | Op::Truncate { path, .. })
        | Step::Fallocate { path, .. } => {
            let mut whole = model.clone();
            let done = expect(step, &mut whole, held);
            ensure!(done.is_ok(), "the model says {done:?}, and we find no room");
            let found = content(fs, path)?;
            let (old, new) = (data_of(model, path), data_of(&whole, path));
            ensure!(
                is_between(&found, &old, &new),
                "the file is neither what it was nor what it shall be"
            );
            let size_bytes = found.len() as u64;
            let path = path.clone();
            let resized = model.run(&Op::Truncate {
                path: path.clone(),
                size_bytes,
            });
            let written = resized.and_then(|()| model.write(&path, 0, &found));
            ensure!(written.is_ok(), "the file is there");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn content(fs: &Filesystem, path: &[u8]) -> Checked<Vec<u8>> {
    let mut data = Vec::new();
    let target = EngineTarget::new(fs);
    target.read(path, 1 << 20, &mut |bytes| data.extend_from_slice(bytes))?;
    Ok(data)
}

fn data_of(model: &Model, path: &[u8]) -> Vec<u8> {
    let files = model.files();
    files
        .get(path)
        .map_or(Vec::new(), |(_, data)| data.to_vec())
}

/// Whether every byte is old or new, and so is the size or what lies between.
fn is_between(found: &[u8], old: &[u8], new: &[u8]) -> bool {
    let sizes = old.len().min(new.len())..=old.len().max(new.len());
    let byte = |data: &[u8], at: usize| data.get(at).copied().unwrap_or(0);
    let fits = |(at, found): (usize, &u8)| *found == byte(old, at) || *found == byte(new, at);
    sizes.contains(&found.len()) && found.iter().enumerate().all(fits)
}

fn put(data: &mut Vec<u8>, start: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = start + bytes.len();
    if data.len() < end {
        data.resize(end, 0);
    }
    data[start..end].copy_from_slice(bytes);
}

fn reshape(
    model: &mut Model,
    path: &[u8],
    mode: FallocateMode,
    size: u64,
    offset: u64,
    len: u64,
) -> Result<(), Errno> {
    use FallocateMode::{
        Allocate, CollapseRange, InsertRange, PunchHole, WriteZeroes, ZeroRange, ZeroRangeKeepSize,
    };
    let end = offset + len;
    if matches!(mode, CollapseRange | InsertRange) {
        return shift(model, path, mode, offset as usize, len as usize);
    }
    if matches!(mode, Allocate | ZeroRange | WriteZeroes) && end > size {
        let size_bytes = end;
        model.run(&Op::Truncate {
            path: path.to_vec(),
            size_bytes,
        })?;
    }
    let reads_zero = matches!(
        mode,
        PunchHole | ZeroRange | ZeroRangeKeepSize | WriteZeroes
    );
    if reads_zero && offset < size {
        let zeroes = vec![0; (end.min(size) - offset) as usize];
        model.write(path, offset, &zeroes)?;
    }
    Ok(())
}

fn shift(
    model: &mut Model,
    path: &[u8],
    mode: FallocateMode,
    offset: usize,
    len: usize,
) -> Result<(), Errno> {
    let mut data = data_of(model, path);
    if mode == FallocateMode::CollapseRange {
        data.drain(offset..offset + len);
    } else {
        data.splice(offset..offset, std::iter::repeat_n(0, len));
    }
    let (path, size_bytes) = (path.to_vec(), data.len() as u64);
    model.run(&Op::Truncate {
        path: path.clone(),
        size_bytes,
    })?;
    model.write(&path, 0, &data)
}

impl Step {
    /// The file that may have holes while the step is half done.
    pub(super) fn moves(&self) -> Option<&[u8]> {
        use FallocateMode::{CollapseRange, InsertRange};
        match self {
            Step::Fallocate {
                path,
                mode: CollapseRange | InsertRange,
                ..
            } => Some(path),
            _ => None,
        }
    }

    /// Whether it is there to commit.
    pub(super) fn commits(&self) -> bool {
        use Step::{Fdatasync, Freeze, Sync, Unmount};
        let step = matches!(self, Sync | Freeze | Unmount | Fdatasync { .. });
        step || matches!(self, Step::Op(Op::Fsync { .. }))
    }

    /// What it does, in a word or two.
    pub(super) fn kind(&self) -> String {
        let text = match self {
            Step::Op(Op::Rename { how, .. }) => format!("Rename {how:?}"),
            Step::Op(Op::Write {
                offset_bytes: 0, ..
            }) => "Write at 0".into(),
            Step::Op(op) => format!("{op:?}"),
            Step::Fallocate { mode, .. } => format!("Fallocate {mode:?}"),
            other => format!("{other:?}"),
        };
        let end = text.find(" {").unwrap_or(text.len());
        text[..end].to_owned()
    }

    /// The file whose size the step may change bit by bit.
    pub(super) fn gradual(&self) -> Option<&[u8]> {
        match self {
            Step::Op(Op::Write { path, .. } | Op::Truncate { path, .. })
            | Step::Fallocate { path, .. } => Some(path),
            _ => None,
        }
    }
}
