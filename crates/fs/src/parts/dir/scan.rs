//! Search for a name in any form of directory.

use super::index::{Path, Probe, Target, probe};
use super::quick;
use super::view::{Dir, Form, is_dot};
use crate::cache::dcache::HashedName;
use crate::cache::meta::MetaBlock;
use crate::types::error::{Error, Result};
use uext4_format::dirent::DirEntryType;
use uext4_format::{InodeNr, LogicalBlock};
use uext4_sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) inode: InodeNr,
    pub(super) kind: DirEntryType,
}

impl Dir<'_> {
    /// Passes the blocks that may hold `name` to `visit`, until it returns something. Not for
    /// inline directories. A directory with a broken index is searched block by block.
    pub(super) fn search<T>(
        &self,
        name: &HashedName<'_>,
        visit: impl FnMut(&Arc<MetaBlock>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.search_from(quick::prefetch_leaf(self, name), name, visit)
    }

    /// As [`Self::search`], with the leaf from [`quick::prefetch_leaf`].
    pub(super) fn search_from<T>(
        &self,
        leaf: Option<LogicalBlock>,
        name: &HashedName<'_>,
        mut visit: impl FnMut(&Arc<MetaBlock>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        if is_dot(name.bytes) {
            return match self.block(LogicalBlock(0))? {
                Some(block) => visit(&block),
                None => Ok(None),
            };
        }
        if let Some(block) = leaf.and_then(|leaf| quick::prefetched_leaf(self, leaf)) {
            let answer = visit(&block)?;
            return self.unless_split_off(&block, name.known_major(), answer);
        }
        if self.form == Form::Indexed
            && let Probe::Path(path) = probe(self, Target::Name(name))?
        {
            return self.search_chain(path, visit);
        }
        self.search_all(visit)
    }

    /// The answer of a visited leaf; `Stale` if there is none, and a split has moved the names of
    /// this hash away from it, at the latest now.
    fn unless_split_off<T>(
        &self,
        leaf: &MetaBlock,
        major: Option<u32>,
        answer: Option<T>,
    ) -> Result<Option<T>> {
        match answer {
            None if self.is_split_off(leaf.logical(), major) => Err(Error::Stale),
            answer => Ok(answer),
        }
    }

    /// Visits the leaf of `path` and the leaves that continue its hash.
    pub(super) fn search_chain<T>(
        &self,
        mut path: Path,
        mut visit: impl FnMut(&Arc<MetaBlock>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        loop {
            let block = self.block_or_damage(path.leaf)?;
            let answer = visit(&block)?;
            if let Some(answer) = self.unless_split_off(&block, Some(path.major), answer)? {
                return Ok(Some(answer));
            }
            if !path.continues() || !path.advance(self)? {
                return Ok(None);
            }
        }
    }

    /// Visits all blocks in their order, until `visit` returns a value. Holes are skipped.
    pub(super) fn search_all<T>(
        &self,
        mut visit: impl FnMut(&Arc<MetaBlock>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        for nr in 0..self.blocks {
            let Some(block) = self.block(LogicalBlock(nr))? else {
                continue;
            };
            if let Some(answer) = visit(&block)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// The entry `name` of a block.
    pub(super) fn find_in(
        &self,
        block: &MetaBlock,
        name: &HashedName<'_>,
    ) -> Result<Option<Found>> {
        let state = block.read();
        Ok(self
            .names_in(block, &state)?
            .locate(name.bytes, name.print())
            .map(|entry| Found {
                inode: entry.inode,
                kind: entry.kind,
            }))
    }

    /// The block that holds `name` now, and the entry.
    pub(super) fn locate(&self, name: &HashedName<'_>) -> Result<Option<(Arc<MetaBlock>, Found)>> {
        self.search(name, |block| {
            Ok(self
                .find_in(block, name)?
                .map(|found| (block.clone(), found)))
        })
    }
}
