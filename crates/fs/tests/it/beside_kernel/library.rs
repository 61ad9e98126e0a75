//! Library side: the same operations through the API of uext4.

use super::{Identity, Op, Side, Stat, UMASK, split};
use uext4::{
    Caller, Checks, Error, Filesystem, InodeRef, RenameFlags, Result, SetAttr, SetMode, SetTime,
    Timestamp, Visit, Want, WriteContext,
};

pub(super) struct Library {
    fs: Filesystem,
}

impl Library {
    pub(super) fn new(fs: Filesystem) -> Self {
        Self { fs }
    }

    pub(super) fn unmount(&self) {
        self.fs.unmount().expect("unmounts");
    }

    fn dir<'a>(&self, path: &'a str, caller: &Caller) -> Result<(InodeRef, &'a [u8])> {
        let (dir, name) = split(path);
        let root = self.fs.root()?;
        let dir = if dir.is_empty() {
            root
        } else {
            self.fs.lookup(&root, dir.as_bytes(), caller)?
        };
        // A path walk checks the type before it resolves the next component.
        if !dir.is_dir() {
            return Err(Error::NotDirectory);
        }
        self.fs.access(&dir, caller, Want::EXECUTE)?;
        Ok((dir, name.as_bytes()))
    }

    fn inode(&self, path: &str, caller: &Caller) -> Result<InodeRef> {
        let (dir, name) = self.dir(path, caller)?;
        if name.is_empty() {
            Ok(dir)
        } else {
            self.fs.lookup(&dir, name, caller)
        }
    }

    fn open(&self, path: &str, caller: &Caller, want: Want) -> Result<InodeRef> {
        let inode = self.inode(path, caller)?;
        if inode.is_dir() && want == Want::WRITE {
            return Err(Error::IsDirectory);
        }
        self.fs.access(&inode, caller, want)?;
        Ok(inode)
    }

    fn set(&self, path: &str, set: SetAttr, caller: &Caller) -> Result<()> {
        self.fs
            .set_attr(&self.inode(path, caller)?, &set, caller)
            .map(drop)
    }

    fn change(&self, caller: &Caller, op: &Op) -> Result<()> {
        let fs = &self.fs;
        let none = SetAttr::default();
        match op {
            Op::Create(path, mode) => {
                let (dir, name) = self.dir(path, caller)?;
                fs.create(&dir, name, *mode, caller).map(drop)
            }
            Op::Mkdir(path, mode) => {
                let (dir, name) = self.dir(path, caller)?;
                fs.mkdir(&dir, name, *mode, caller).map(drop)
            }
            Op::Symlink(path) => {
                let (dir, name) = self.dir(path, caller)?;
                fs.symlink(&dir, name, b"target", caller).map(drop)
            }
            Op::Unlink(path) => {
                let (dir, name) = self.dir(path, caller)?;
                fs.unlink(&dir, name, caller)
            }
            Op::Rmdir(path) => {
                let (dir, name) = self.dir(path, caller)?;
                fs.rmdir(&dir, name, caller)
            }
            Op::Rename(from, to) => {
                let ((from, old), (to, new)) = (self.dir(from, caller)?, self.dir(to, caller)?);
                fs.rename(&from, old, &to, new, RenameFlags::Replace, caller)
            }
            Op::Link(from, to) => {
                let inode = self.inode(from, caller)?;
                let (dir, name) = self.dir(to, caller)?;
                fs.link(&inode, &dir, name, caller)
            }
            Op::Chmod(path, mode) => self.set(
                path,
                SetAttr {
                    mode: Some(*mode),
                    ..none
                },
                caller,
            ),
            Op::Chown(path, uid, gid) => self.set(
                path,
                SetAttr {
                    uid: *uid,
                    gid: *gid,
                    ..none
                },
                caller,
            ),
            Op::Touch(path) => {
                let now = Some(SetTime::Now);
                self.set(
                    path,
                    SetAttr {
                        atime: now,
                        mtime: now,
                        ..none
                    },
                    caller,
                )
            }
            Op::SetTimes(path) => {
                let at = |nanoseconds| Some(SetTime::At(Timestamp::new(1_000_000, nanoseconds)));
                self.set(
                    path,
                    SetAttr {
                        atime: at(5),
                        mtime: at(6),
                        ..none
                    },
                    caller,
                )
            }
            Op::SetAtime(path) => self.set(
                path,
                SetAttr {
                    atime: Some(SetTime::Now),
                    ..none
                },
                caller,
            ),
            Op::Truncate(path, size) => {
                let inode = self.open(path, caller, Want::WRITE)?;
                let set = SetAttr {
                    size_bytes: Some(*size),
                    ..none
                };
                fs.set_attr(&inode, &set, caller).map(drop)
            }
            Op::Write(path) => {
                let inode = self.open(path, caller, Want::WRITE)?;
                fs.write(&inode, 0, b"data", &WriteContext::by(caller.clone()))
                    .map(drop)
            }
            Op::Read(path) => {
                let inode = self.open(path, caller, Want::READ)?;
                fs.read(&inode, 0, &mut [0; 8]).map(drop)
            }
            Op::ReadDir(path) => {
                let dir = self.inode(path, caller)?;
                if !dir.is_dir() {
                    return Err(Error::NotDirectory);
                }
                fs.access(&dir, caller, Want::READ)?;
                fs.read_dir(&dir, 0, &mut |_| Visit::Continue)
            }
            Op::ReadLink(path) => fs.read_link(&self.inode(path, caller)?).map(drop),
            Op::SetXattr(path, name, value) => {
                let inode = self.inode(path, caller)?;
                fs.set_xattr(&inode, name.as_bytes(), value, SetMode::Any, caller)
            }
            Op::GetXattr(path, name) => fs
                .get_xattr(&self.inode(path, caller)?, name.as_bytes(), caller)
                .map(drop),
            Op::RemoveXattr(path, name) => {
                fs.remove_xattr(&self.inode(path, caller)?, name.as_bytes(), caller)
            }
        }
    }
}

impl Side for Library {
    fn run(&self, caller: Identity, op: &Op) -> i32 {
        let caller = Caller {
            uid: caller.uid,
            gid: caller.gid,
            groups: caller.groups.to_vec(),
            umask: UMASK,
            checks: Checks::Library,
            owner: None,
        };
        self.change(&caller, op)
            .map_or_else(|error| error.errno(), |()| 0)
    }

    fn stat(&self, path: &str) -> Option<Stat> {
        let attr = self.fs.attr(&self.inode(path, &Caller::root()).ok()?);
        let time = |time: Timestamp| {
            i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
        };
        Some(Stat {
            mode: attr.mode.into(),
            links: attr.links,
            uid: attr.uid,
            gid: attr.gid,
            size: (attr.kind == uext4::FileType::Regular).then_some(attr.size_bytes),
            times: [time(attr.atime), time(attr.mtime), time(attr.ctime)],
        })
    }
}
