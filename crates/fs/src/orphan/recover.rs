//! Orphan recovery at mount: truncates or frees the orphans of a crash.

use super::{ON_LIST, Orphans};
use crate::inode::Inode;
use crate::{Error, Fs, Result, credits, file};
use std::collections::HashSet;
use std::sync::Arc;
use uext4_format::InodeNr;
use uext4_format::superblock::state;
use uext4_sync::atomic::Ordering;

/// Result of the recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OrphanReport {
    /// Inodes without a name that were freed.
    pub(crate) freed: u32,
    /// Files with an interrupted truncate that was completed.
    pub(crate) truncated: u32,
}

impl Orphans {
    /// Processes all tracked orphans. Called once, before any other operation. On a file system
    /// with the error state nothing is freed, as in the kernel, and the list and the orphan file's
    /// entries are dropped: e2fsck must run. Damage of one orphan is recorded and leaves it to
    /// e2fsck; the others are processed.
    pub(crate) fn recover(&self, fs: &Fs) -> Result<OrphanReport> {
        if fs.superblock.read().disk.state & state::ERROR != 0 {
            let is_listed = fs.superblock.read().disk.last_orphan != 0;
            let in_file = self
                .file
                .as_ref()
                .is_some_and(|file| file.entries().next().is_some());
            self.left.store(is_listed || in_file, Ordering::Release);
            self.drop_all(fs)?;
            return Ok(OrphanReport::default());
        }
        let mut report = OrphanReport::default();
        let mut damage = Vec::new();
        for inode in self.adopt(fs)? {
            match finish(fs, &inode, &mut report) {
                Err(found @ Error::Corrupt(_)) => {
                    self.remove(fs, &fs.start(credits::REMOVE)?, &inode)?;
                    damage.push(found);
                }
                other => other?,
            }
        }
        // Last: after an error the file system may refuse changes.
        for found in damage {
            let _recorded = fs.note::<()>(Err(found));
        }
        Ok(report)
    }

    fn drop_all(&self, fs: &Fs) -> Result<()> {
        let handle = fs.start(credits::ATTRIBUTES)?;
        fs.superblock.update(&handle, |disk| disk.last_orphan = 0);
        drop(handle);
        let Some(file) = &self.file else {
            return Ok(());
        };
        for (slot, _) in file.entries().collect::<Vec<_>>() {
            file.remove(&fs.start(1)?, slot);
        }
        Ok(())
    }

    /// Adopts the on-disk orphans without processing them, so that more can be added.
    pub(crate) fn take_over(&self, fs: &Fs) -> Result<()> {
        self.adopt(fs).map(|_kept_on_disk| ())
    }

    /// Mirrors the on-disk orphans in memory. Invalid numbers are dropped: the chain ends at the
    /// first one, and an invalid slot is freed.
    fn adopt(&self, fs: &Fs) -> Result<Vec<Arc<Inode>>> {
        let mut found = self.adopt_list(fs)?;
        let Some(file) = &self.file else {
            return Ok(found);
        };
        for (slot, nr) in file.entries().collect::<Vec<_>>() {
            match load_orphan(fs, nr) {
                Some(inode) if inode.orphan.load(Ordering::Acquire) == 0 => {
                    inode.orphan.store(slot + 1, Ordering::Release);
                    found.push(inode);
                }
                _ => file.remove(&fs.start(1)?, slot),
            }
        }
        Ok(found)
    }

    /// The chain stays on disk unchanged, in case of a crash; only the rest behind an invalid
    /// number is cut off.
    fn adopt_list(&self, fs: &Fs) -> Result<Vec<Arc<Inode>>> {
        let mut chain = Vec::new();
        let mut seen = HashSet::new();
        let mut next = fs.superblock.read().disk.last_orphan;
        while next != 0 && seen.insert(next) {
            let Some(inode) = load_orphan(fs, InodeNr(next)) else {
                break;
            };
            next = inode.read().disk.dtime;
            inode.orphan.store(ON_LIST, Ordering::Release);
            chain.push(inode);
        }
        self.list.adopt(&chain);
        if next != 0 {
            let handle = fs.start(credits::ATTRIBUTES)?;
            match chain.last() {
                Some(oldest) => handle.write(oldest).disk.dtime = 0,
                None => fs.superblock.update(&handle, |disk| disk.last_orphan = 0),
            }
        }
        Ok(chain)
    }
}

/// The inode of an entry, if it may be an orphan: it has no name, or it can be truncated. `i_block`
/// of a device node or a short symbolic link has no block pointers.
fn load_orphan(fs: &Fs, nr: InodeNr) -> Option<Arc<Inode>> {
    let first = fs.geometry.first_inode;
    let allocated = nr.0 >= first && fs.space.is_inode_allocated(fs, nr).unwrap_or(false);
    if !allocated {
        return None;
    }
    let inode = fs.load_inode(nr).ok()?;
    let may_be_orphan = {
        let state = inode.read();
        state.disk.links == 0 || file::can_be_cut(fs, &state)
    };
    may_be_orphan.then_some(inode)
}

fn finish(fs: &Fs, inode: &Arc<Inode>, report: &mut OrphanReport) -> Result<()> {
    if inode.read().disk.links == 0 {
        inode.set_links(0);
        report.freed += 1;
        return fs.evict(inode);
    }
    report.truncated += 1;
    file::finish_truncate(fs, inode)
}
