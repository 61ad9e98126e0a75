//! Orphans that a crash left: truncated or freed at the next mount.

use super::{ON_LIST, Orphans};
use crate::inode::Inode;
use crate::{Fs, Result, credits, file};
use std::collections::HashSet;
use std::sync::Arc;
use uext4_format::InodeNr;
use uext4_format::superblock::state;
use uext4_sync::atomic::Ordering;

/// What recovery did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OrphanReport {
    /// Inodes without a name that were freed.
    pub(crate) freed: u32,
    /// Files whose interrupted truncate was finished.
    pub(crate) truncated: u32,
}

impl Orphans {
    /// Processes everything that is tracked on disk. Called once, before any other operation. On a
    /// file system that is marked with errors nothing is freed, as in the kernel: that is for
    /// e2fsck, and only the list is dropped.
    pub(crate) fn recover(&self, fs: &Fs) -> Result<OrphanReport> {
        if fs.superblock.read().disk.state & state::ERROR != 0 {
            let handle = fs.start(credits::ATTRIBUTES)?;
            fs.superblock.update(&handle, |disk| disk.last_orphan = 0);
            return Ok(OrphanReport::default());
        }
        let mut report = OrphanReport::default();
        for inode in self.adopt(fs)? {
            finish(fs, &inode, &mut report)?;
        }
        Ok(report)
    }

    /// Takes over what is tracked on disk without processing it, so that more can be added.
    pub(crate) fn take_over(&self, fs: &Fs) -> Result<()> {
        self.adopt(fs).map(|_kept_on_disk| ())
    }

    /// Mirrors what is on disk in memory. Numbers that make no sense are dropped: the chain ends
    /// at the first bad one, a bad slot is emptied.
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

    /// The chain stays on disk as it is, for a crash meanwhile; only what follows a bad number is
    /// cut off.
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

fn load_orphan(fs: &Fs, nr: InodeNr) -> Option<Arc<Inode>> {
    let first = fs.geometry.first_inode;
    let allocated = nr.0 >= first && fs.space.is_inode_allocated(fs, nr).unwrap_or(false);
    if !allocated {
        return None;
    }
    fs.inodes.load(fs, nr).ok()
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
