//! Allocation of given blocks and inode numbers, for recovery.

use super::Space;
use super::loaders::BitmapLoader;
use crate::state::base::Base;
use crate::types::error::{Error, Result};
use uext4_alloc::{Goal, Privilege, Request, Run};
use uext4_format::{BlockRun, Corrupt, CorruptKind, DamageLocation, FileType, InodeNr};
use uext4_journal::Handle;

/// Whether a number was free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    /// It was free, and is allocated now.
    Free,
    /// It is in use; nothing changed.
    InUse,
}

impl Space {
    /// Reserves exactly these blocks; whole clusters. Returns the pieces to commit, one per group.
    ///
    /// # Errors
    /// [`Error::NoSpace`], with nothing reserved, unless all of them are free.
    pub(crate) fn reserve_exactly(&self, base: &Base, run: BlockRun) -> Result<Vec<BlockRun>> {
        let mut pieces = Vec::new();
        for (group, from, len) in self.engine.volume().split(self.to_run(run)) {
            let first = self.engine.volume().first_cluster(group).0 + u64::from(from);
            let piece = Run::new(uext4_alloc::ClusterNr(first), len);
            if let Err(error) = self.reserve_run(base, piece) {
                pieces.into_iter().for_each(|piece| self.unreserve(piece));
                return Err(error);
            }
            pieces.push(self.to_blocks(piece));
        }
        Ok(pieces)
    }

    fn reserve_run(&self, base: &Base, piece: Run) -> Result<()> {
        self.claims
            .claim(piece.len, piece.len, Privilege::Metadata)?;
        let loader = BitmapLoader {
            base,
            space: self,
            failed: Default::default(),
        };
        let request = Request::new(piece.len)
            .goal(Goal::Only(piece.start))
            .min_len(piece.len);
        let answer = self
            .engine
            .allocate(&request, &loader)
            .map_err(|error| match error {
                uext4_alloc::Error::NoSpace => Error::NoSpace,
                uext4_alloc::Error::Unreadable(_) => loader.failed.take().unwrap_or(Error::NoSpace),
            });
        match answer {
            Ok(run) if run == piece => Ok(()),
            other => {
                if let Ok(run) = &other {
                    self.engine.release(*run);
                }
                self.claims.give(piece.len.into());
                Err(other.err().unwrap_or(Error::NoSpace))
            }
        }
    }

    /// Allocates this inode number in the handle's transaction, unless it is in use.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a number that no file may have.
    pub(crate) fn take_inode(
        &self,
        base: &Base,
        handle: &Handle<'_>,
        nr: InodeNr,
        kind: FileType,
    ) -> Result<Was> {
        let ordinary = nr.0 >= self.geometry().first_inode;
        let place = self.geometry().split_inode(nr).filter(|_| ordinary);
        let bad = Corrupt::new(
            DamageLocation::Inode(nr),
            "inode number",
            CorruptKind::NumberRange,
        );
        let (group_nr, index) = place.ok_or(bad)?;
        let group = self.group(group_nr)?;
        let bits = self.inode_bits(base, group_nr, group)?;
        handle.touch(&group.inodes);
        if !bits.set(index) {
            return Ok(Was::InUse);
        }
        self.took(base, handle, group_nr, index, kind)?;
        Ok(Was::Free)
    }
}
