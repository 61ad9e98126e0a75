//! Digests of blobs, and readers that verify them.

use crate::fault::{Checked, DAMAGED, Fault};
use sha2::{Digest as _, Sha256, Sha512};
use std::fmt;
use std::io::{self, Read};
use uext4_num::u64_of;

/// A digest `ALGORITHM:HEX`, which is also a safe name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    algorithm: Algorithm,
    hex: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Sha256,
    Sha512,
}

impl Digest {
    /// Reads a digest; hexadecimal digits are small letters.
    pub(crate) fn parse(text: &str) -> Checked<Digest> {
        let bad = || {
            let text = crate::fault::shown(text.as_bytes());
            let problem = format!("it has the digest {text}, which is neither sha256 nor sha512");
            Fault::refused(problem, "make the image again with another tool")
        };
        let (name, hex) = text.split_once(':').ok_or_else(bad)?;
        let (algorithm, digits) = match name {
            "sha256" => (Algorithm::Sha256, 64),
            "sha512" => (Algorithm::Sha512, 128),
            _ => return Err(bad()),
        };
        let mut bytes = hex.bytes();
        if hex.len() != digits || !bytes.all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(bad());
        }
        Ok(Digest {
            algorithm,
            hex: hex.to_owned(),
        })
    }

    /// Path of the blob in an OCI layout.
    pub(crate) fn path(&self) -> String {
        format!("blobs/{}/{}", self.algorithm.name(), self.hex)
    }
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex)
    }
}

enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    fn new(algorithm: Algorithm) -> Hasher {
        match algorithm {
            Algorithm::Sha256 => Hasher::Sha256(Sha256::new()),
            Algorithm::Sha512 => Hasher::Sha512(Sha512::new()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Sha512(hasher) => hasher.update(bytes),
        }
    }

    fn hex(&self) -> String {
        let bytes = match self {
            Hasher::Sha256(hasher) => hasher.clone().finalize().to_vec(),
            Hasher::Sha512(hasher) => hasher.clone().finalize().to_vec(),
        };
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// What bytes must be.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) digest: Digest,
    /// Their number, if known.
    pub(crate) bytes: Option<u64>,
}

/// A stream whose end is an error unless its bytes are the expected ones.
pub(crate) struct Verified<R> {
    reader: R,
    expected: Expected,
    hasher: Hasher,
    bytes: u64,
}

impl<R: Read> Verified<R> {
    pub(crate) fn new(reader: R, expected: Expected) -> Verified<R> {
        let hasher = Hasher::new(expected.digest.algorithm);
        Verified {
            reader,
            expected,
            hasher,
            bytes: 0,
        }
    }

    fn check_size(&self, is_right: impl FnOnce(u64) -> bool) -> io::Result<()> {
        match self.expected.bytes {
            Some(bytes) if !is_right(bytes) => {
                let digest = &self.expected.digest;
                let problem = format!("the blob {digest} has another size than {bytes} bytes");
                Err(Fault::refused(problem, DAMAGED).into())
            }
            _ => Ok(()),
        }
    }

    fn check_digest(&self) -> io::Result<()> {
        let digest = &self.expected.digest;
        if self.hasher.hex() == digest.hex {
            return Ok(());
        }
        let problem = format!("the blob {digest} has contents of another digest");
        Err(Fault::refused(problem, DAMAGED).into())
    }
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buf)?;
        self.bytes += u64_of(count);
        self.hasher.update(&buf[..count]);
        self.check_size(|bytes| self.bytes <= bytes)?;
        if count == 0 && !buf.is_empty() {
            self.check_size(|bytes| self.bytes == bytes)?;
            self.check_digest()?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn read(bytes: &[u8], digest: &str, size: Option<u64>) -> Result<Vec<u8>, String> {
        let digest = Digest::parse(digest).map_err(|_| "digest")?;
        let expected = Expected {
            digest,
            bytes: size,
        };
        let mut read = Vec::new();
        let mut verified = Verified::new(bytes, expected);
        let result = verified.read_to_end(&mut read);
        result.map(|_| read).map_err(|error| error.to_string())
    }

    #[test]
    fn only_the_right_bytes_end() {
        assert_eq!(read(b"abc", ABC, Some(3)).as_deref(), Ok(b"abc".as_slice()));
        assert_eq!(read(b"abc", ABC, None).as_deref(), Ok(b"abc".as_slice()));
        assert!(
            read(b"abd", ABC, Some(3))
                .unwrap_err()
                .contains("another digest")
        );
        for size in [2, 4] {
            assert!(
                read(b"abc", ABC, Some(size))
                    .unwrap_err()
                    .contains("another size")
            );
        }
    }

    #[test]
    fn a_digest_is_a_safe_name() {
        let long = format!("sha512:{}", "0".repeat(128));
        assert!(Digest::parse(&long).is_ok());
        for bad in [
            "sha256:../../etc/passwd",
            "md5:00",
            "sha256",
            &ABC[..70],
            &ABC.to_uppercase(),
        ] {
            assert!(Digest::parse(bad).is_err(), "{bad}");
        }
        assert!(
            Digest::parse(ABC)
                .unwrap()
                .path()
                .starts_with("blobs/sha256/ba78")
        );
    }
}
