//! Tests of the cache.

use super::*;
use uext4_format::BlockNr;
use uext4_sync::atomic::AtomicBool;

impl Cached for u64 {}

fn cache<V: Cached>() -> Cache<BlockNr, V> {
    cache_of(1 << 20)
}

fn cache_of<V: Cached>(objects: u64) -> Cache<BlockNr, V> {
    Cache::new(Allotment {
        bytes: Arc::new(AtomicU64::new(objects << 10)),
        parts: 1,
        object_bytes: 1 << 10,
    })
}

#[test]
fn what_is_used_or_was_looked_up_stays_when_some_is_dropped() {
    let cache = cache::<u64>();
    let nr = BlockNr;
    let used: Vec<_> = (0..100).map(|i| cache.get_or_insert(nr(i), i)).collect();
    (100..1000).for_each(|i| _ = cache.get_or_insert(nr(i), i));
    (100..200).for_each(|i| _ = cache.get(nr(i)));
    let dropped = cache.shed();
    assert!((200..=300).contains(&dropped), "{dropped}");
    assert_eq!(cache.counts().entries, 1000 - dropped);
    let is_there = |i| cache.get(nr(i)).is_some_and(|found| *found == i);
    assert!((0..200).all(is_there));
    drop(used);
}

struct Known(AtomicBool);

impl Cached for Known {
    fn take_used(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

#[test]
fn what_was_used_without_asking_has_a_second_chance() {
    let cache = cache::<Known>();
    let nr = BlockNr;
    let known = |i| Known(AtomicBool::new(i < 10));
    (0..100).for_each(|i| _ = cache.get_or_insert(nr(i), known(i)));
    assert_eq!(cache.shed(), 25);
    assert!((0..10).all(|i| cache.get(nr(i)).is_some()));
}

/// While one thread reads, another one loads and changes the object, and it is written and
/// evicted: the first read is stale.
#[test]
fn what_was_read_before_the_present_state_left_is_read_again() {
    let cache = cache::<u64>();
    let mut device = [1, 2].into_iter();
    let found = cache.load(BlockNr(7), || {
        let read = device.next().expect("read twice");
        if read == 1 {
            drop(cache.get_or_insert(BlockNr(7), 2));
            assert_eq!(cache.shed(), 1);
        }
        Ok::<_, ()>(Found::alone(read))
    });
    assert_eq!(*found.expect("no errors"), 2);
}

#[test]
fn what_is_replaced_is_found_no_more() {
    let cache = cache::<u64>();
    let (new, before) = cache.replace(BlockNr(7), 1);
    assert_eq!((*new, before.map(|before| *before)), (1, None));
    let (new, before) = cache.replace(BlockNr(7), 2);
    assert_eq!((*new, before.map(|before| *before)), (2, Some(1)));
    let found = cache.get(BlockNr(7)).expect("it is there");
    assert!(Arc::ptr_eq(&found, &new));
    assert_eq!(cache.counts().entries, 1);
}

#[test]
fn what_is_found_beside_it_is_cached_unless_it_is_there() {
    let cache = cache::<u64>();
    cache.get_or_insert(BlockNr(11), 0);
    let beside = |i| (BlockNr(i), i);
    let found = || {
        let (wanted, beside) = (10, (11..300).map(beside).collect());
        Ok::<_, ()>(Found { wanted, beside })
    };
    assert_eq!(cache.load(BlockNr(10), found).map(|found| *found), Ok(10));
    let there = |i: u64| cache.get(BlockNr(i)).map(|found| *found);
    assert_eq!(
        (there(11), there(12), there(255)),
        (Some(0), Some(12), Some(255))
    );
    assert_eq!(there(256), None, "of other blocks");
}

/// Consecutive numbers are in one shard.
#[test]
fn a_hot_run_stays_while_there_is_space_in_other_shards() {
    let (cache, nr) = (cache_of(4 << 10), BlockNr);
    for _ in 0..3 {
        (0..4000).for_each(|i| _ = cache.get_or_insert(nr(i), i));
    }
    assert_eq!(cache.counts().evictions, 0);
}

#[test]
fn what_is_read_once_goes_and_what_is_read_again_stays() {
    const OBJECTS: u64 = 4 << 10;
    let (cache, nr) = (cache_of(OBJECTS), BlockNr);
    let (mut misses, mut most) = (0, 0);
    for i in 0..20 * OBJECTS {
        _ = cache.get_or_insert(nr(1 << 30 | i), i);
        let hot = nr(i % 300);
        misses += u64::from(cache.get(hot).is_none());
        _ = cache.get_or_insert(hot, i % 300);
        most = most.max(cache.counts().entries);
    }
    assert!(most < OBJECTS + OBJECTS / 4, "{most} of {OBJECTS}");
    assert!(misses < 600, "{misses}: a second chance keeps hot objects");
    assert!(cache.counts().entries > OBJECTS / 8 * 7);
}

#[test]
fn what_is_held_lets_others_in_and_goes_later() {
    const OBJECTS: u64 = 1000;
    let (cache, nr) = (cache_of(OBJECTS), BlockNr);
    let held: Vec<_> = (0..5000).map(|i| cache.get_or_insert(nr(i), i)).collect();
    assert_eq!(cache.counts().entries, 5000);
    drop(held);
    (5000..15_000).for_each(|i| drop(cache.get_or_insert(nr(i), i)));
    let entries = cache.counts().entries;
    assert!(entries <= OBJECTS + OBJECTS / 4, "{entries}");
}

#[test]
fn what_is_held_for_a_while_does_not_keep_the_hands() {
    const OBJECTS: u64 = 1000;
    const HELD: usize = 700;
    let (cache, nr) = (cache_of(OBJECTS), BlockNr);
    let mut held = std::collections::VecDeque::new();
    for i in 0..30_000 {
        held.push_back(cache.get_or_insert(nr(i), i));
        cache.get(nr(i));
        if held.len() > HELD {
            held.pop_front();
        }
        let entries = cache.counts().entries;
        assert!(entries <= OBJECTS + u64_of(HELD), "{entries} at {i}");
    }
}

/// No shard goes on as the limit before allowed.
#[test]
fn a_lower_limit_is_kept_soon() {
    let cache = cache_of(1 << 20);
    let first = cache.shard(BlockNr(0));
    let mut numbers = (0..)
        .map(BlockNr)
        .filter(|nr| std::ptr::eq(cache.shard(*nr), first));
    let mut add = |entries| {
        for nr in numbers.by_ref().take(entries) {
            _ = cache.get_or_insert(nr, nr.0);
        }
        cache.counts()
    };
    assert_eq!(add(6000).evictions, 0);
    cache.allotment.bytes.store(1000 << 10, Ordering::Relaxed);
    assert!(add(cache.shards.len()).evictions > 0);
    let entries = add(6000).entries;
    assert!(entries < 1250, "{entries}");
}
