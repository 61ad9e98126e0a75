//! One step of a workload: an operation of testkit, or one that needs a handle or a device.

use anyhow::{Result as Checked, ensure};
use std::ops::ControlFlow;
use uext4::{
    Caller, CompactOptions, DefragOptions, Destination, FallocateMode, Filesystem, SetAttr,
    SetMode, SetTime, Timestamp, WriteContext,
};
use uext4_testkit::manifest::Source;
use uext4_testkit::model::Model;
use uext4_testkit::ops::{Errno, Op, Target, written_bytes};

use super::held::{self, HeldWrite, OpenFiles};
use super::plot::LONG;
use crate::EngineTarget;

/// An ACL with owner, one user, group, mask and others, in the kernel's format.
const ACL: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 100, 0, 0, 0, 4, 0, 4, 0, 255, 255,
    255, 255, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
];
/// `FS_NODUMP_FL` of the ioctl for inode flags.
const NODUMP: u32 = 0x40;
/// The permission bits that match [`ACL`].
const ACL_MODE: u32 = 0o644;

/// One step. Each is one call of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Op(Op),
    Sync,
    /// Opens a file without a name, and keeps it as `held`.
    Tmpfile {
        held: u64,
    },
    /// Removes the name of a held file.
    UnlinkHeld {
        held: u64,
        path: Vec<u8>,
    },
    WriteHeld(HeldWrite),
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
    /// Sets a default ACL on a directory.
    SetDefaultAcl {
        path: Vec<u8>,
    },
    /// Writes every other block of a file.
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
    /// Changes an inode flag without effect on the engine (`chattr +d`, `-d`).
    Flag {
        path: Vec<u8>,
    },
    /// Moves the data of a file to other blocks, near this byte of the file system.
    Relocate {
        path: Vec<u8>,
        near_byte: u64,
    },
    /// Moves the data of a file into fewer extents.
    Defragment {
        path: Vec<u8>,
    },
    /// Moves data of all files to the front.
    Compact,
    /// Discards all free space.
    Trim,
    /// Freezes the file system and thaws it.
    Freeze,
    /// The last step of every workload.
    Unmount,
}

/// Runs a step on the engine.
pub(super) fn run(step: &Step, fs: &Filesystem, held: &mut OpenFiles) -> Result<(), Errno> {
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
            answer(fs.fallocate(&file, *mode, *offset..*offset + *len, &WriteContext::ROOT))
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
            comb(*teeth, *block_size)
                .try_for_each(|(at, bytes)| target.write_all(&file, at, &bytes))
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
        Step::Relocate { .. } | Step::Defragment { .. } | Step::Compact => {
            move_data(step, fs, &target)
        }
        Step::Trim => answer(fs.trim(0..u64::MAX, 0).map(drop)),
        Step::Freeze => answer(fs.freeze().and_then(|()| fs.thaw())),
        Step::Unmount => {
            held.close_all();
            answer(fs.unmount())
        }
        held_file => held::run(held_file, fs, held),
    }
}

/// Runs a step that moves data.
fn move_data(step: &Step, fs: &Filesystem, target: &EngineTarget<'_>) -> Result<(), Errno> {
    let answer = |result: uext4::Result<()>| result.map_err(|error| crate::errno(&error));
    match step {
        Step::Relocate { path, near_byte } => {
            let to = Destination::Near(*near_byte);
            answer(fs.relocate(&target.file(path)?, 0..u64::MAX, to).map(drop))
        }
        Step::Defragment { path } => {
            let file = target.file(path)?;
            let options = DefragOptions::default();
            let done = fs.defragment(&file, &options, &mut |_| ControlFlow::Continue(()));
            answer(done.map(drop))
        }
        _ => {
            let options = CompactOptions::default();
            let done = fs.compact(&options, &mut |_| ControlFlow::Continue(()));
            answer(done.map(drop))
        }
    }
}

/// Offsets and contents of a comb's blocks.
fn comb(teeth: u64, block_size: u32) -> impl Iterator<Item = (u64, Vec<u8>)> {
    (0..teeth).map(move |n| (2 * n * u64::from(block_size), written_bytes(n, block_size)))
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

/// Applies the step to the model.
pub(super) fn expect(step: &Step, model: &mut Model, held: &mut OpenFiles) -> Result<(), Errno> {
    held.begin_step();
    match step {
        Step::Op(op) => model.run(op),
        Step::Sync | Step::Trim | Step::Freeze | Step::Compact | Step::Unmount => Ok(()),
        // Nothing that a user sees changes; the path must be that of a regular file.
        Step::Relocate { path, .. } | Step::Defragment { path } => model.write(path, 0, &[]),
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
        } => comb(*teeth, *block_size).try_for_each(|(at, bytes)| model.write(path, at, &bytes)),
        Step::Fdatasync { path } => model.write(path, 0, &[]),
        Step::SetAcl { path } => model.set_acl(path, &ACL, ACL_MODE),
        Step::Utimes { path, .. } | Step::Flag { path } => {
            let numbers = model.numbers();
            numbers
                .contains_key(path)
                .then_some(())
                .ok_or(Errno::ENOENT)
        }
        held_file => held::expect(held_file, model, held),
    }
}

/// Applies a step that hit "no space" to the model: names and attributes are unchanged, data may be
/// written in part.
///
/// # Errors
/// The file's content is not between old and new.
pub(super) fn expect_part(
    step: &Step,
    fs: &Filesystem,
    model: &mut Model,
    held: &mut OpenFiles,
) -> Checked<()> {
    match step {
        Step::WriteHeld(write) => {
            held.begin_step();
            held.put(write);
            held.end(write.held);
            Ok(())
        }
        Step::LinkHeld { held: id, .. } => {
            held.begin_step();
            held.end(*id);
            Ok(())
        }
        Step::Op(Op::Write { path, .. } | Op::Truncate { path, .. })
        | Step::Fallocate { path, .. } => {
            let mut whole = model.clone();
            let done = expect(step, &mut whole, held);
            ensure!(
                done.is_ok(),
                "the model says {done:?}, and we find no space"
            );
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

/// Whether every byte is old or new, and the size is between the old and the new one.
fn is_between(found: &[u8], old: &[u8], new: &[u8]) -> bool {
    let sizes = old.len().min(new.len())..=old.len().max(new.len());
    sizes.contains(&found.len())
        && found
            .iter()
            .enumerate()
            .all(|(at, found)| *found == byte_or_zero(old, at) || *found == byte_or_zero(new, at))
}

fn byte_or_zero(data: &[u8], at: usize) -> u8 {
    data.get(at).copied().unwrap_or(0)
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
    /// The file that may have holes while the step is in progress: it has more extents than one
    /// transaction changes.
    pub(super) fn moves(&self) -> Option<&[u8]> {
        use FallocateMode::{CollapseRange, InsertRange};
        match self {
            Step::Fallocate {
                path,
                mode: CollapseRange | InsertRange,
                ..
            } if path == LONG => Some(path),
            _ => None,
        }
    }

    /// The file whose data behind a place move, and by how many bytes.
    pub(super) fn shifts(&self) -> Option<(&[u8], i64)> {
        use FallocateMode::{CollapseRange, InsertRange};
        match self {
            Step::Fallocate {
                path, mode, len, ..
            } => match mode {
                CollapseRange => Some((path, -(*len as i64))),
                InsertRange => Some((path, *len as i64)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether its purpose is a commit.
    pub(super) fn commits(&self) -> bool {
        use Step::{Fdatasync, Freeze, Sync, Unmount};
        let step = matches!(self, Sync | Freeze | Unmount | Fdatasync { .. });
        step || matches!(self, Step::Op(Op::Fsync { .. }))
    }

    /// Its kind, in a word or two.
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
        let end = text.find(['{', '(']).unwrap_or(text.len());
        text[..end].trim_end().to_owned()
    }

    /// The file whose size the step may change gradually.
    pub(super) fn gradual(&self) -> Option<&[u8]> {
        match self {
            Step::Op(Op::Write { path, .. } | Op::Truncate { path, .. })
            | Step::Fallocate { path, .. } => Some(path),
            _ => None,
        }
    }
}
