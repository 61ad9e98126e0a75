//! Kernel side: system calls of a thread with the caller's identity.

use super::{Identity, Op, Side, Stat};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, XattrFlags,
};
use rustix::io::Result;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub(super) struct Host {
    top: PathBuf,
}

impl Host {
    pub(super) fn new(top: &Path) -> Self {
        // All users need access to the mount point and its parent directory.
        for dir in [top, top.parent().expect("a scratch directory")] {
            let _ = std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755));
        }
        Self {
            top: top.to_owned(),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.top.join(path)
    }

    fn change(&self, op: &Op) -> Result<()> {
        let mode = |mode: u16| Mode::from_raw_mode(mode.into());
        let open = |path: &str, flags| rustix::fs::open(self.at(path), flags, Mode::empty());
        match op {
            Op::Create(path, bits) => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
                rustix::fs::open(self.at(path), flags, mode(*bits)).map(drop)
            }
            Op::Mkdir(path, bits) => rustix::fs::mkdir(self.at(path), mode(*bits)),
            Op::Symlink(path) => rustix::fs::symlink("target", self.at(path)),
            Op::Unlink(path) => rustix::fs::unlink(self.at(path)),
            Op::Rmdir(path) => rustix::fs::rmdir(self.at(path)),
            Op::Rename(from, to) => rustix::fs::rename(self.at(from), self.at(to)),
            Op::Link(from, to) => rustix::fs::link(self.at(from), self.at(to)),
            Op::Chmod(path, bits) => rustix::fs::chmod(self.at(path), mode(*bits)),
            Op::Chown(path, uid, gid) => {
                let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                rustix::fs::chown(self.at(path), uid, gid)
            }
            Op::Touch(path) => self.utimens(path, UTIME_NOW, UTIME_NOW),
            Op::SetTimes(path) => self.utimens(path, 5, 6),
            Op::SetAtime(path) => self.utimens(path, UTIME_NOW, UTIME_OMIT),
            Op::Truncate(path, size) => rustix::fs::ftruncate(open(path, OFlags::WRONLY)?, *size),
            Op::Write(path) => {
                rustix::io::pwrite(open(path, OFlags::WRONLY)?, b"data", 0).map(drop)
            }
            Op::Read(path) => {
                rustix::io::pread(open(path, OFlags::RDONLY)?, &mut [0u8; 8][..], 0).map(drop)
            }
            Op::ReadDir(path) => {
                let fd = open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
                let mut room = vec![std::mem::MaybeUninit::uninit(); 4096];
                let mut entries = rustix::fs::RawDir::new(fd, &mut room);
                while let Some(entry) = entries.next() {
                    entry?;
                }
                Ok(())
            }
            Op::ReadLink(path) => rustix::fs::readlink(self.at(path), Vec::new()).map(drop),
            Op::SetXattr(path, name, value) => {
                rustix::fs::setxattr(self.at(path), *name, value, XattrFlags::empty())
            }
            Op::GetXattr(path, name) => {
                let mut value = [0u8; 256];
                rustix::fs::getxattr(self.at(path), *name, &mut value[..]).map(drop)
            }
            Op::RemoveXattr(path, name) => rustix::fs::removexattr(self.at(path), *name),
        }
    }

    fn utimens(&self, path: &str, access: i64, modification: i64) -> Result<()> {
        let time = |nanoseconds| Timespec {
            tv_sec: 1_000_000,
            tv_nsec: nanoseconds,
        };
        let times = Timestamps {
            last_access: time(access),
            last_modification: time(modification),
        };
        rustix::fs::utimensat(CWD, self.at(path), &times, AtFlags::empty())
    }
}

impl Side for Host {
    fn run(&self, caller: Identity, op: &Op) -> i32 {
        // Linux keeps identities per thread; this thread ends with the operation.
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let groups: Vec<Gid> = caller
                    .groups
                    .iter()
                    .map(|gid| Gid::from_raw(*gid))
                    .collect();
                set_thread_groups(&groups).expect("setgroups");
                let gid = Gid::from_raw(caller.gid);
                set_thread_res_gid(gid, gid, gid).expect("setresgid");
                let uid = Uid::from_raw(caller.uid);
                set_thread_res_uid(uid, uid, uid).expect("setresuid");
                self.change(op)
                    .map_or_else(|error| error.raw_os_error(), |()| 0)
            });
            worker.join().expect("no panic")
        })
    }

    fn stat(&self, path: &str) -> Option<Stat> {
        let meta = std::fs::symlink_metadata(self.at(path)).ok()?;
        let time = |seconds: i64, nanoseconds: i64| {
            i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
        };
        Some(Stat {
            mode: meta.mode() & 0o7777,
            links: meta.nlink() as u32,
            uid: meta.uid(),
            gid: meta.gid(),
            size: meta.is_file().then_some(meta.len()),
            times: [
                time(meta.atime(), meta.atime_nsec()),
                time(meta.mtime(), meta.mtime_nsec()),
                time(meta.ctime(), meta.ctime_nsec()),
            ],
        })
    }
}
