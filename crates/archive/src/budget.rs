//! The limit of bytes after decompression, shared by all streams of a source.

use crate::fault::Refusal;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use uext4_num::u64_of;

/// Without a limit, a compressed source may have so many bytes...
const FREE_BYTES: u64 = 1 << 30;
/// ...and so many more for each byte of it.
const RATIO: u64 = 200;

/// What a source may expand to.
pub(crate) struct Budget {
    limit: Option<u64>,
    read: AtomicU64,
    made: AtomicU64,
}

impl Budget {
    pub(crate) fn new(limit: Option<u64>) -> Arc<Budget> {
        Arc::new(Budget {
            limit,
            read: AtomicU64::new(0),
            made: AtomicU64::new(0),
        })
    }

    /// Counts bytes after decompression.
    fn made(&self, bytes: u64) -> io::Result<()> {
        let made = self.made.fetch_add(bytes, Relaxed).saturating_add(bytes);
        let read = self.read.load(Relaxed);
        let most = self.limit.unwrap_or_else(|| FREE_BYTES + read * RATIO);
        if made <= most {
            return Ok(());
        }
        let problem = match self.limit {
            Some(limit) => format!("it has more than {limit} bytes after decompression, the limit"),
            None => format!("{read} bytes of it expand to more than {most}, the limit by default"),
        };
        let advice = "give a higher limit if the source can be trusted";
        Err(io::Error::other(Refusal { problem, advice }))
    }

    /// Checks a size that is known before reading.
    pub(crate) fn allows(&self, bytes: u64) -> io::Result<()> {
        match self.limit {
            Some(_) => self.made(bytes),
            None => Ok(()),
        }
    }
}

pub(crate) struct Counted<R> {
    pub(crate) reader: R,
    pub(crate) budget: Arc<Budget>,
    pub(crate) side: Side,
}

/// Where a stream is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Bytes that decompression takes.
    Read,
    /// Bytes that decompression gives.
    Made,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buf)?;
        match self.side {
            Side::Read => {
                self.budget.read.fetch_add(u64_of(count), Relaxed);
            }
            Side::Made => self.budget.made(u64_of(count))?,
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_exact_and_named() {
        let budget = Budget::new(Some(100));
        assert!(budget.made(60).is_ok());
        assert!(budget.made(40).is_ok());
        let error = budget.made(1).unwrap_err();
        assert!(error.to_string().contains("more than 100 bytes"), "{error}");
    }

    #[test]
    fn the_default_grows_with_what_was_read() {
        let budget = Budget::new(None);
        assert!(budget.made(FREE_BYTES).is_ok());
        assert!(budget.made(1).is_err());
        budget.read.fetch_add(1, Relaxed);
        assert!(budget.made(RATIO - 1).is_ok());
        assert!(budget.made(1).is_err());
    }
}
