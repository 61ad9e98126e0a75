//! Open files of a workload: creation, use and close, in the engine and in the model.

use std::collections::BTreeMap;

use uext4::{Caller, Filesystem, InodeRef};
use uext4_testkit::model::Model;
use uext4_testkit::ops::{Errno, Op, Target, written_bytes};

use super::step::Step;
use crate::EngineTarget;

/// A write to a file that is held open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldWrite {
    pub(super) held: u64,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) seed: u64,
}

impl HeldWrite {
    fn bytes(&self) -> Vec<u8> {
        written_bytes(self.seed, self.len)
    }
}

/// First number for inodes that never had a name; the model counts from one.
const UNNAMED_NUMBERS: u64 = 1 << 48;

/// Open files of a workload.
#[derive(Default)]
pub(super) struct OpenFiles {
    inodes: BTreeMap<u64, InodeRef>,
    /// Expected state of the files, by number.
    files: BTreeMap<u64, OpenFile>,
    /// Files whose last step hit "no space": its extent on disk is unknown.
    cut_short: BTreeMap<u64, OpenFile>,
    /// The numbers of an inode before and after it got its first name.
    named: Option<(u64, u64)>,
}

/// A file without a name, which the model does not have.
struct OpenFile {
    number: u64,
    name: Name,
    data: Vec<u8>,
}

#[derive(PartialEq)]
enum Name {
    /// It never had a name, and may get one.
    Never,
    /// It lost its last name, and cannot get another.
    Lost,
}

impl OpenFiles {
    /// Number and content of every inode without a name.
    pub(super) fn contents(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let files = self.files.values().chain(self.cut_short.values());
        files.map(|file| (file.number, &file.data[..]))
    }

    /// Takes the old and the new number of an inode that the last step gave its first name.
    pub(super) fn take_named(&mut self) -> Option<(u64, u64)> {
        self.named.take()
    }

    /// Ends a file; after a failed step its remains are visible only in a crash.
    pub(super) fn end(&mut self, id: u64) {
        self.inodes.remove(&id);
        let file = self.files.remove(&id);
        self.cut_short.extend(file.map(|file| (id, file)));
    }

    /// Closes all files, ignoring errors.
    pub(super) fn close_all(&mut self) {
        self.inodes.clear();
    }

    /// Forgets the remains of the previous step.
    pub(super) fn begin_step(&mut self) {
        self.cut_short.clear();
    }

    fn insert_held(&mut self, id: u64, number: u64, name: Name, data: Vec<u8>) {
        let file = OpenFile { number, name, data };
        self.files.insert(id, file);
    }

    pub(super) fn put(&mut self, write: &HeldWrite) {
        if let Some(file) = self.files.get_mut(&write.held) {
            put(&mut file.data, write.offset as usize, &write.bytes());
        }
    }
}

/// Runs a step that creates, uses or ends an open file.
pub(super) fn run(step: &Step, fs: &Filesystem, held: &mut OpenFiles) -> Result<(), Errno> {
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
            let (parent, name) = target.parent_and_name(path)?;
            answer(fs.unlink(&parent, name, &caller))?;
            held.inodes.insert(*id, file);
            Ok(())
        }
        Step::WriteHeld(write) => {
            let file = held.inodes.get(&write.held).ok_or(Errno::ENOENT)?;
            target.write_all(file, write.offset, &write.bytes())
        }
        Step::LinkHeld { held: id, path } => {
            let file = held.inodes.remove(id).ok_or(Errno::ENOENT)?;
            let (parent, name) = target.parent_and_name(path)?;
            answer(fs.link(&file, &parent, name, &caller))
        }
        Step::Close { held: id } => {
            held.inodes.remove(id);
            // The next call frees the inode: here a lookup that finds nothing.
            let _ = target.find(b"no such name");
            Ok(())
        }
        _ => unreachable!("all others are run by `step::run`"),
    }
}

/// Applies such a step to the model.
pub(super) fn expect(step: &Step, model: &mut Model, held: &mut OpenFiles) -> Result<(), Errno> {
    match step {
        Step::Tmpfile { held: id } => {
            held.insert_held(*id, UNNAMED_NUMBERS + id, Name::Never, Vec::new());
            Ok(())
        }
        Step::UnlinkHeld { held: id, path } => expect_unlink(*id, path, model, held),
        Step::WriteHeld(write) => {
            held.put(write);
            let is_open = held.inodes.contains_key(&write.held);
            is_open.then_some(()).ok_or(Errno::ENOENT)
        }
        Step::LinkHeld { held: id, path } => expect_link(*id, path, model, held),
        Step::Close { held: id } => {
            held.files.remove(id);
            Ok(())
        }
        _ => unreachable!("all others are expected by `step::expect`"),
    }
}

/// Removes the last name of a file that stays open.
fn expect_unlink(
    id: u64,
    path: &[u8],
    model: &mut Model,
    held: &mut OpenFiles,
) -> Result<(), Errno> {
    model.write(path, 0, &[])?;
    let found = model.files().remove(path);
    let (number, data) = found.map_or((0, &[][..]), |found| found);
    let data = data.to_vec();
    model.run(&Op::Unlink {
        path: path.to_vec(),
    })?;
    held.insert_held(id, number, Name::Lost, data);
    Ok(())
}

/// Gives a file its first name.
fn expect_link(id: u64, path: &[u8], model: &mut Model, held: &mut OpenFiles) -> Result<(), Errno> {
    let file = held.files.remove(&id);
    let file = file.filter(|file| file.name == Name::Never);
    let OpenFile { number, data, .. } = file.ok_or(Errno::ENOENT)?;
    model.run(&Op::Create {
        path: path.to_vec(),
        mode: 0o600,
    })?;
    let named = model.numbers().get(path).copied();
    held.named = named.map(|named| (number, named));
    model.write(path, 0, &data)
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
