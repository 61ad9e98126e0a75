//! Space for data that wait in memory: claimed at the write, taken when they are written out.
//!
//! A claim is a number, no place. Claims for data respect what is held back from the writer. Claims
//! for blocks of the file's tree cover the worst case and come out of what is held back for
//! metadata, so `statfs` does not show them, as the kernel does not.

use super::{Reserve, Space};
use crate::{Error, Result};

impl Space {
    /// Claims space for data that are accepted now, and for what their map may need.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; nothing is claimed then.
    pub(crate) fn delay(
        &self,
        data_clusters: u64,
        tree_clusters: u64,
        reserve: Reserve,
    ) -> Result<()> {
        let privilege = reserve.privilege();
        if self.claims.delay(data_clusters, tree_clusters, privilege) {
            Ok(())
        } else {
            Err(Error::NoSpace)
        }
    }

    /// Gives claims back: the data are not written.
    pub(crate) fn undelay(&self, data_clusters: u64, tree_clusters: u64) {
        self.claims.end_delay(data_clusters, tree_clusters);
        self.claims.give(data_clusters + tree_clusters);
    }

    /// Claims are in use on disk now.
    pub(crate) fn use_delayed(&self, data_clusters: u64, tree_clusters: u64) {
        self.claims.end_delay(data_clusters, tree_clusters);
    }

    /// Clusters claimed for data that wait (`delayed_allocation_blocks`).
    pub(crate) fn delayed_clusters(&self) -> u64 {
        self.claims.delayed()
    }

    /// Clusters claimed for the maps of files whose data wait.
    pub(crate) fn delayed_tree_clusters(&self) -> u64 {
        self.claims.delayed_tree()
    }
}
