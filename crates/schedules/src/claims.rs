//! Claims of free clusters near the limit: never more than available, and none is lost.

use crate::explore::explore;
use crate::rig::join;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use uext4_alloc::{FreeCount, Privilege};
use uext4_sync::thread;

/// The margin at which claims become exact: the largest deviation of all shards.
const NEAR: u64 = 3 * 64 * 64;

fn meet(free: u64, claims: [u64; 3]) {
    let count = Arc::new(FreeCount::new(free, 0, 0));
    let claimed = Arc::new(AtomicU64::new(0));
    let claimants: Vec<_> = claims
        .into_iter()
        .map(|n| {
            let (count, claimed) = (count.clone(), claimed.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    if count.try_claim(n, Privilege::User) {
                        let all = claimed.fetch_add(n, SeqCst) + n;
                        assert!(all <= free, "{all} of {free} clusters are claimed");
                    }
                }
                if count.try_claim(n, Privilege::User) {
                    count.give(n);
                }
            })
        })
        .collect();
    join(claimants);
    assert_eq!(count.available(), free - claimed.load(SeqCst));
}

#[test]
fn no_more_is_claimed_than_there_is() {
    explore(300, || meet(100, [30, 40, 50]));
    explore(400, || meet(NEAR + 70, [50, 63, NEAR]));
}
