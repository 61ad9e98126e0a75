//! Reservations for delayed data: made at the write, used at writeback.
//!
//! A reservation is a count, without a location. Reservations for data respect the clusters held
//! back from the writer. Reservations for map blocks cover the worst case and come from the
//! clusters held back for metadata; like the kernel's, `statfs` does not show them.

use super::{Reserve, Space};
use crate::types::error::{Error, Result};

impl Space {
    /// Reserves space for data accepted now, and for the worst-case growth of their map.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; nothing is reserved then.
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

    /// Returns reservations of data that are not written.
    pub(crate) fn undelay(&self, data_clusters: u64, tree_clusters: u64) {
        self.claims.end_delay(data_clusters, tree_clusters);
        self.claims.give(data_clusters + tree_clusters);
    }

    /// Counts reservations as used on disk.
    pub(crate) fn use_delayed(&self, data_clusters: u64, tree_clusters: u64) {
        self.claims.end_delay(data_clusters, tree_clusters);
    }

    /// Claims clusters for delayed data that were freed in the running transaction, ahead of their
    /// return: the data could not be mapped and keep their reservation.
    pub(crate) fn claim_freed(&self, clusters: u64) {
        self.claims.withdraw(clusters);
    }

    /// Clusters reserved for delayed data (`delayed_allocation_blocks`).
    pub(crate) fn delayed_clusters(&self) -> u64 {
        self.claims.delayed()
    }

    /// Clusters reserved for the maps of files with delayed data.
    pub(crate) fn delayed_tree_clusters(&self) -> u64 {
        self.claims.delayed_tree()
    }
}
