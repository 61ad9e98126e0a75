//! SHA-256 and length of what is written, in the form of OCI digests.

use crate::show::hex;
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use uext4_num::u64_of;

/// Length and digest of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) bytes: u64,
    /// `sha256:` and hexadecimal digits; `None` if it was not asked for.
    pub(crate) digest: Option<String>,
}

impl Measured {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: u64_of(bytes.len()),
            digest: Some(name(Sha256::digest(bytes).as_slice())),
        }
    }
}

/// Whether the digest is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digests {
    Yes,
    No,
}

/// A writer that measures what goes through it.
pub(crate) struct Measuring<W> {
    inner: W,
    bytes: u64,
    hash: Option<Sha256>,
}

impl<W: Write> Measuring<W> {
    pub(crate) fn new(inner: W, digests: Digests) -> Self {
        Self {
            inner,
            bytes: 0,
            hash: (digests == Digests::Yes).then(Sha256::new),
        }
    }

    /// The inner writer and what went through.
    pub(crate) fn end(self) -> (W, Measured) {
        let digest = self.hash.map(|hash| name(hash.finalize().as_slice()));
        let bytes = self.bytes;
        (self.inner, Measured { bytes, digest })
    }
}

impl<W: Write> Write for Measuring<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += u64_of(written);
        if let Some(hash) = &mut self.hash {
            hash.update(bytes.split_at(written).0);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn name(digest: &[u8]) -> String {
    format!("sha256:{}", hex(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    #[test]
    fn the_digest_is_that_of_the_standard() {
        let mut stream = Measuring::new(Vec::new(), Digests::Yes);
        stream.write_all(b"a").unwrap();
        stream.write_all(b"bc").unwrap();
        let (bytes, measured) = stream.end();
        let known = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(bytes, b"abc");
        assert_eq!(measured.digest.as_deref(), Some(known));
        assert_eq!(measured.bytes, 3);
        assert_eq!(Measured::of(b"abc").digest.as_deref(), Some(known));
    }
}
