//! A digest of parts of a file, which tells two states of it apart without reading all of it.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use uext4_num::{clamp_usize, u64_of};

/// Bytes at the begin, where a file system or a qcow2 image has its tables.
const BEGIN_BYTES: u64 = 1 << 20;
/// Bytes of each further sample.
const SAMPLE_BYTES: u64 = 4096;
/// Number of further samples.
const SAMPLES: u64 = 64;

/// SHA-256 of the size, the first MiB and 64 samples of a file.
///
/// # Errors
/// Of the system.
pub fn samples_of(file: &File) -> io::Result<[u8; 32]> {
    let len = file.metadata()?.len();
    let mut hash = Sha256::new();
    hash.update(len.to_le_bytes());
    let later = (1..=SAMPLES).map(|nr| (len / (SAMPLES + 1)).saturating_mul(nr));
    let begin = std::iter::once((0, BEGIN_BYTES));
    for (at, bytes) in begin.chain(later.map(|at| (at, SAMPLE_BYTES))) {
        let bytes = bytes.min(len.saturating_sub(at));
        let mut sample = vec![0; clamp_usize(bytes)];
        file.read_exact_at(&mut sample, at)?;
        hash.update(u64_of(sample.len()).to_le_bytes());
        hash.update(&sample);
    }
    Ok(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_at_the_begin_and_of_the_size_is_seen() {
        let file = tempfile::tempfile().expect("there is room");
        let digest = || samples_of(&file).expect("it is readable");
        assert_eq!(digest(), digest());
        for (at, bytes) in [(0, &b"x"[..]), (1024, b"superblock"), (9 << 20, b"end")] {
            let before = digest();
            file.write_all_at(bytes, at).expect("there is room");
            assert_ne!(digest(), before, "{at}");
        }
    }
}
