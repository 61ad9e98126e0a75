//! Limit on concurrent changes by clients.
//!
//! A change waits while the mount is frozen. Without a limit, waiting clients could take all
//! connections and lock out the client that thaws.

use super::wire::{Ask, Refusal};
use uext4_sync::atomic::{AtomicUsize, Ordering};

/// Half of the maximum number of clients.
const CHANGING_MAX: usize = 8;

/// Counter of changes that run or wait for a thaw.
#[derive(Default)]
pub(super) struct WaitSlots(AtomicUsize);

/// A slot of the counter; dropping it frees the slot.
pub(super) struct WaitSlot<'a>(&'a WaitSlots);

impl WaitSlots {
    /// Takes a slot for a request that may wait for a thaw; `None` for other requests.
    ///
    /// # Errors
    /// No slot is free.
    pub(super) fn take(&self, ask: &Ask) -> Result<Option<WaitSlot<'_>>, Refusal> {
        match ask {
            Ask::Set { .. }
            | Ask::Trim { .. }
            | Ask::Defragment { .. }
            | Ask::SetQuota { .. }
            | Ask::SetQuotaGrace { .. } => {}
            _ => return Ok(None),
        }
        let place = WaitSlot(self);
        if self.0.fetch_add(1, Ordering::SeqCst) < CHANGING_MAX {
            Ok(Some(place))
        } else {
            Err(Refusal {
                errno: libc::EBUSY,
                text: format!(
                    "{CHANGING_MAX} clients change something already, or wait for a thaw"
                ),
            })
        }
    }
}

impl Drop for WaitSlot<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_for_changes_are_few_and_come_back() {
        let places = WaitSlots::default();
        let set = Ask::Set {
            name: String::new(),
            value: 0,
        };
        let taken: Vec<_> = (0..CHANGING_MAX).map(|_| places.take(&set)).collect();
        assert!(taken.iter().all(Result::is_ok));
        let refused = places.take(&set).err().expect("all are taken");
        assert_eq!(refused.errno, libc::EBUSY);
        assert!(places.take(&Ask::Thaw {}).is_ok());
        drop(taken);
        assert!(places.take(&set).is_ok());
    }
}
