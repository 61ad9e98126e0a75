//! Coherence of asynchronous, direct, buffered, mapped and spliced access to one file.
//!
//! `UEXT4_PAGE_CACHE_SECONDS` sets the length of each test, `UEXT4_PAGE_CACHE_SEED` the seed, which
//! a failure prints.

use crate::support::Mounted;
use std::time::Duration;
use uext4_exerciser::one_file::{Until, compare, use_in_all_ways};

/// Number of groups of asynchronous writes, of up to eight each.
const GROUPS: u64 = 600;

fn asked(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn use_one_file(words: &[&str]) {
    let seed = asked("UEXT4_PAGE_CACHE_SEED").unwrap_or(3);
    let until = match asked("UEXT4_PAGE_CACHE_SECONDS") {
        None => Until::Groups(GROUPS),
        Some(seconds) => Until::Time(Duration::from_secs(seconds)),
    };
    let mut mounted = Mounted::with(&["-b", "4096"], words);
    let path = mounted.path("file");
    let expected = use_in_all_ways(&path, seed, until);
    let expected = expected.unwrap_or_else(|error| panic!("{words:?}: {error:?}"));
    mounted.unmount();
    mounted.mount(words);
    let read = std::fs::read(&path).expect("it reads");
    compare(&read, &expected)
        .unwrap_or_else(|error| panic!("{words:?}, next mount, seed {seed}: {error}"));
    mounted.unmount();
}

#[test]
fn all_ways_agree_with_data_held_back() {
    use_one_file(&[]);
}

#[test]
fn all_ways_agree_with_data_written_through() {
    use_one_file(&["through"]);
}
