//! Rename, in all its forms.
//!
//! Locking: moves of a directory to another parent take the one `Rank::Rename` lock, so that no
//! two of them together make a cycle. Then DirIndex of every directory concerned, ascending by
//! inode number: shared when only entries change, of a directory that gets another name, too, so
//! that it is not removed meanwhile; exclusive for directories that are removed, and for the forms
//! of a directory that are not changed otherwise. A full leaf is split beside others.

use super::{
    Hold, Newcomer, check_alive, check_name, check_new_name, check_project, hold_all, look_into,
    touch_dir, with_locks,
};
use crate::access::Want;
use crate::dir::{self, DirError, Index};
use crate::inode::{Inode, NewInode};
use crate::quota::Claim;
use crate::settings::Switch;
use crate::{Caller, Error, Filesystem, Fs, InodeRef, Result, credits, file};
use std::sync::Arc;
use uext4_format::{FileType, InodeNr};
use uext4_journal::Handle;

/// What a rename may do with the names (`renameat2(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameFlags {
    /// Replace the target if it exists.
    Replace,
    /// Fail if the target exists (`RENAME_NOREPLACE`).
    NoReplace,
    /// Exchange source and target, which must both exist (`RENAME_EXCHANGE`).
    Exchange,
    /// Leave a whiteout at the source (`RENAME_WHITEOUT`).
    Whiteout,
    /// Leave a whiteout at the source, and fail if the target exists.
    WhiteoutNoReplace,
}

impl RenameFlags {
    fn keeps_target(self) -> bool {
        matches!(
            self,
            RenameFlags::NoReplace | RenameFlags::WhiteoutNoReplace
        )
    }

    fn leaves_whiteout(self) -> bool {
        matches!(self, RenameFlags::Whiteout | RenameFlags::WhiteoutNoReplace)
    }
}

/// How often a rename starts over because names changed meanwhile.
const TRIES: u32 = 1000;

/// Why a try came to nothing.
enum Missed {
    /// Another thread changed a name: try again.
    Changed,
    /// This is the answer.
    Failed(Error),
}

impl From<Error> for Missed {
    fn from(error: Error) -> Self {
        Missed::Failed(error)
    }
}

/// One side of a rename.
struct Side<'a> {
    dir: &'a Arc<Inode>,
    name: &'a [u8],
}

/// A rename with both sides looked up.
struct Rename<'a> {
    from: &'a Side<'a>,
    to: &'a Side<'a>,
    source: InodeRef,
    target: Option<InodeRef>,
    flags: RenameFlags,
    caller: &'a Caller,
}

impl Filesystem {
    /// Renames `from_name` in `from` to `to_name` in `to`.
    pub fn rename(
        &self,
        from: &InodeRef,
        from_name: &[u8],
        to: &InodeRef,
        to_name: &[u8],
        flags: RenameFlags,
        caller: &Caller,
    ) -> Result<()> {
        self.change(|fs| {
            check_names(from_name, to_name, flags)?;
            for dir in [from, to] {
                check_alive(dir)?;
                fs.may(dir, caller, Want::EXECUTE)?;
            }
            let sides = [(from, from_name), (to, to_name)];
            let [old, new] = sides.map(|(dir, name)| Side {
                dir: dir.arc(),
                name,
            });
            rename(fs, &old, &new, flags, caller)?;
            fs.sync_if_asked(from)?;
            fs.sync_if_asked(to)
        })
    }
}

fn check_names(from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
    check_name(from)?;
    check_name(to)?;
    let dots = |name: &[u8]| name == b"." || name == b"..";
    if dots(from) || dots(to) {
        return Err(if flags.keeps_target() {
            Error::Exists
        } else {
            Error::Busy
        });
    }
    check_new_name(from)
}

/// Names may change hands between the look at them and the change; then everything is done again.
fn rename(
    fs: &Fs,
    from: &Side<'_>,
    to: &Side<'_>,
    flags: RenameFlags,
    caller: &Caller,
) -> Result<()> {
    for _ in 0..TRIES {
        match rename_once(fs, from, to, flags, caller) {
            Err(Missed::Changed) => {}
            Err(Missed::Failed(error)) => return Err(error),
            Ok(()) => return Ok(()),
        }
    }
    Err(Error::Busy)
}

fn rename_once(
    fs: &Fs,
    from: &Side<'_>,
    to: &Side<'_>,
    flags: RenameFlags,
    caller: &Caller,
) -> std::result::Result<(), Missed> {
    let source = find(fs, from)?.ok_or(Error::NotFound)?;
    let moves_dir = source.is_dir() && from.dir.nr() != to.dir.nr();
    let exchange = flags == RenameFlags::Exchange;
    let topology = if moves_dir || exchange {
        Some(fs.rename.lock())
    } else {
        None
    };
    let target = find(fs, to)?;
    let rename = Rename {
        from,
        to,
        source,
        target,
        flags,
        caller,
    };
    rename.check(fs)?;
    if rename.is_same() {
        return Ok(());
    }
    rename.write_out_first(fs);
    let answer = rename.carry_out(fs);
    drop(topology);
    match answer {
        Err(Error::NotFound | Error::Exists) if rename.is_outdated(fs)? => Err(Missed::Changed),
        other => Ok(other?),
    }
}

fn find(fs: &Fs, side: &Side<'_>) -> Result<Option<InodeRef>> {
    look_into(side.dir, || dir::lookup(fs, side.dir, side.name))
}

impl Rename<'_> {
    /// A file that replaces another holds its data on disk before it has the name
    /// (`auto_da_alloc`). Its fsync tells when that failed.
    fn write_out_first(&self, fs: &Fs) {
        let replaces = self.target.is_some() && self.flags != RenameFlags::Exchange;
        if replaces && fs.settings.has(Switch::AutoDaAlloc) {
            let _told_by_fsync = fs.note(file::write_out(fs, self.source.arc()));
        }
    }

    /// In the order in which Linux finds out.
    fn check(&self, fs: &Fs) -> Result<()> {
        self.check_target()?;
        self.check_place(fs)?;
        if self.is_same() {
            return Ok(());
        }
        fs.may_delete(self.from.dir, &self.source, self.caller)?;
        match &self.target {
            Some(target) => fs.may_delete(self.to.dir, target, self.caller)?,
            None => fs.may(self.to.dir, self.caller, Want::WRITE.and(Want::EXECUTE))?,
        }
        let exchanged = self
            .target
            .as_ref()
            .filter(|_| self.flags == RenameFlags::Exchange);
        if let (Some(target), None) = (&self.target, exchanged) {
            match (self.source.is_dir(), target.is_dir()) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                _ => {}
            }
        }
        // A directory that moves must be writable: its `..` changes.
        let moved = [Some(&self.source), exchanged];
        let moved = moved
            .into_iter()
            .flatten()
            .filter(|inode| inode.is_dir() && self.moves());
        moved
            .into_iter()
            .try_for_each(|inode| fs.may(inode, self.caller, Want::WRITE))?;
        check_project(self.to.dir, &self.source)?;
        exchanged.map_or(Ok(()), |target| check_project(self.from.dir, target))
    }

    fn moves(&self) -> bool {
        self.from.dir.nr() != self.to.dir.nr()
    }

    /// Both names stand for one inode: there is nothing to do.
    fn is_same(&self) -> bool {
        self.target
            .as_ref()
            .is_some_and(|target| target.nr() == self.source.nr())
    }

    fn check_target(&self) -> Result<()> {
        match &self.target {
            Some(_) if self.flags.keeps_target() => Err(Error::Exists),
            None if self.flags == RenameFlags::Exchange => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// Nothing moves below itself, and nothing replaces what it stands in.
    fn check_place(&self, fs: &Fs) -> Result<()> {
        if !self.moves() {
            return Ok(());
        }
        let below = |dir: &Arc<Inode>, inode: &InodeRef| {
            Ok::<_, Error>(inode.is_dir() && is_below(fs, dir, inode.nr())?)
        };
        if below(self.to.dir, &self.source)? {
            return Err(Error::Invalid("a directory cannot move below itself"));
        }
        match &self.target {
            Some(target) if below(self.from.dir, target)? => match self.flags {
                RenameFlags::Exchange => {
                    Err(Error::Invalid("a directory cannot move below itself"))
                }
                _ => Err(Error::NotEmpty),
            },
            _ => Ok(()),
        }
    }

    /// True when a name no longer stands for what was looked up.
    fn is_outdated(&self, fs: &Fs) -> Result<bool> {
        let number = |inode: Option<InodeRef>| inode.map(|inode| inode.nr());
        let source = number(find(fs, self.from)?);
        let target = number(find(fs, self.to)?);
        let known = self.target.as_ref().map(|target| target.nr());
        Ok(source != Some(self.source.nr()) || target != known)
    }

    fn carry_out(&self, fs: &Fs) -> Result<()> {
        let change = |index| self.run(fs, index);
        if self.target.is_some() {
            return with_locks(change);
        }
        let newcomer = Newcomer {
            fs,
            dir: self.to.dir,
            name: self.to.name,
            caller: self.caller,
        };
        newcomer.with_locks(change)
    }

    fn run(&self, fs: &Fs, index: Index) -> std::result::Result<(), DirError> {
        let _locks = self.lock(index);
        for dir in [self.from.dir, self.to.dir] {
            check_alive(dir)?;
        }
        if self.flags == RenameFlags::Exchange {
            return self.exchange(fs, index);
        }
        if let Some(target) = self.target.as_ref().filter(|target| target.is_dir())
            && !dir::is_empty(fs, target.arc())?
        {
            return Err(Error::NotEmpty.into());
        }
        let _claim = match self.target {
            Some(_) => Claim::default(),
            None => {
                let (dir, name) = (self.to.dir, self.to.name);
                let way = dir::can_insert(fs, dir, name, index, fs.reserve_of(self.caller))?;
                fs.expect_growth(dir, way.blocks(), self.caller)?
            }
        };
        self.replace(fs, index)
    }

    /// Holds the parents as told, a directory that is renamed shared, one that goes exclusively.
    fn lock(&self, index: Index) -> Vec<Hold<'_>> {
        let parents = [self.from.dir, self.to.dir].map(|dir| (&**dir, index));
        let of_target = match self.flags {
            RenameFlags::Exchange => Index::Shared,
            _ => Index::Exclusive,
        };
        let children = [
            (Some(&self.source), Index::Shared),
            (self.target.as_ref(), of_target),
        ];
        let held = children
            .into_iter()
            .filter_map(|(child, index)| Some((&**child?, index)))
            .filter(|(child, _)| child.is_dir());
        hold_all(parents.into_iter().chain(held).collect())
    }

    fn replace(&self, fs: &Fs, index: Index) -> std::result::Result<(), DirError> {
        let handle = fs.start(credits::RENAME + index.growth_credits())?;
        let whiteout = self.whiteout(fs, &handle)?;
        let step = dir::Move {
            from_dir: self.from.dir,
            from_name: self.from.name,
            to_dir: self.to.dir,
            to_name: self.to.name,
            child: self.source.nr(),
            kind: self.source.kind(),
            victim: self.target.as_ref().map(|target| target.nr()),
            whiteout: whiteout.as_ref().map(|whiteout| whiteout.nr()),
        };
        if let Err(error) = dir::rename(fs, &handle, &step, index) {
            if let Some(whiteout) = &whiteout {
                let now = fs.now();
                fs.drop_last_link(&handle, whiteout.arc(), now)?;
            }
            return Err(error);
        }
        Ok(self.finish(fs, &handle)?)
    }

    fn whiteout(&self, fs: &Fs, handle: &Handle<'_>) -> Result<Option<InodeRef>> {
        if !self.flags.leaves_whiteout() {
            return Ok(None);
        }
        let new = NewInode::new(FileType::CharDevice, 0);
        let inode = fs.new_inode(handle, self.from.dir, &new, self.caller)?;
        Ok(Some(inode))
    }

    /// Link counts and times after the entries have changed.
    fn finish(&self, fs: &Fs, handle: &Handle<'_>) -> Result<()> {
        let now = fs.now();
        let directory = self.source.is_dir();
        handle.write(self.source.arc()).disk.ctime = now;
        if directory && self.from.dir.nr() != self.to.dir.nr() {
            dir::set_parent(fs, handle, self.source.arc(), self.to.dir.nr())?;
            fs.drop_dir_link(handle, self.from.dir);
            if !self.target.as_ref().is_some_and(|target| target.is_dir()) {
                fs.add_dir_link(handle, self.to.dir)?;
            }
        } else if directory && self.target.is_some() {
            fs.drop_dir_link(handle, self.to.dir);
        }
        for dir in [self.from.dir, self.to.dir] {
            touch_dir(handle, dir, now);
        }
        match &self.target {
            Some(target) if target.is_dir() => fs.drop_last_link(handle, target.arc(), now),
            Some(target) => fs.drop_link(handle, target.arc(), now),
            None => Ok(()),
        }
    }

    fn exchange(&self, fs: &Fs, index: Index) -> std::result::Result<(), DirError> {
        let target = self.target.as_ref().ok_or(Error::NotFound)?;
        let handle = fs.start(credits::RENAME)?;
        let step = dir::Exchange {
            one: (
                self.from.dir,
                self.from.name,
                self.source.nr(),
                self.source.kind(),
            ),
            two: (self.to.dir, self.to.name, target.nr(), target.kind()),
        };
        dir::exchange(fs, &handle, &step, index)?;
        let now = fs.now();
        if self.from.dir.nr() != self.to.dir.nr() {
            self.exchange_parents(fs, &handle, target)?;
        }
        for inode in [self.source.arc(), target.arc()] {
            handle.write(inode).disk.ctime = now;
        }
        for dir in [self.from.dir, self.to.dir] {
            touch_dir(&handle, dir, now);
        }
        Ok(())
    }

    fn exchange_parents(&self, fs: &Fs, handle: &Handle<'_>, target: &InodeRef) -> Result<()> {
        if self.source.is_dir() {
            dir::set_parent(fs, handle, self.source.arc(), self.to.dir.nr())?;
        }
        if target.is_dir() {
            dir::set_parent(fs, handle, target.arc(), self.from.dir.nr())?;
        }
        match (self.source.is_dir(), target.is_dir()) {
            (true, false) => {
                fs.drop_dir_link(handle, self.from.dir);
                fs.add_dir_link(handle, self.to.dir)
            }
            (false, true) => {
                fs.drop_dir_link(handle, self.to.dir);
                fs.add_dir_link(handle, self.from.dir)
            }
            _ => Ok(()),
        }
    }
}

/// True when `dir` is `ancestor` or stands below it. The caller holds the topology lock.
fn is_below(fs: &Fs, dir: &Arc<Inode>, ancestor: InodeNr) -> Result<bool> {
    let mut at = dir.clone();
    // A path is at most as deep as there are directories; damage must not make it endless.
    for _ in 0..fs.geometry.inodes_count {
        if at.nr() == ancestor {
            return Ok(true);
        }
        if at.nr() == InodeNr::ROOT {
            return Ok(false);
        }
        let parent = look_into(&at, || {
            check_alive(&at)?;
            dir::parent_of(fs, &at)
        })?;
        at = fs.inodes.load(fs, parent)?;
        if !at.is_dir() {
            return Err(Error::NotFound);
        }
    }
    Err(Error::Loop)
}
