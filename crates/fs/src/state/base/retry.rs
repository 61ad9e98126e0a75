//! Retry policy. Only the outermost level of an operation retries; inner levels report what they
//! lack and return.
//!
//! | retry | repeated while | ends |
//! | --- | --- | --- |
//! | optimistic ([`uext4_sync::VersionedLock::tries`]) | the structure changes | with the lock |
//! | lock-free progress ([`Retries`]) | other threads made progress since | at a bound |
//!
//! Progress is a changed name, space given back, or space taken ahead of a search.

/// Retries of one operation in all.
const RETRIES_MAX: u32 = 64;

/// The retries of one operation so far.
#[derive(Default)]
pub(crate) struct Retries(u32);

impl Retries {
    /// Counts one more retry; false when there were enough.
    pub(crate) fn may_retry(&mut self) -> bool {
        self.0 += 1;
        self.0 <= RETRIES_MAX
    }
}
