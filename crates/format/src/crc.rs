//! crc32c with a start value, until every caller goes through `checksum`.

/// Continues the raw crc32c `seed` (no inversion before or after) over `bytes`.
pub(crate) fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    let algorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
    let mut digest = crc_fast::Digest::new_with_init_state(algorithm, u64::from(seed));
    digest.update(bytes);
    !(digest.finalize() as u32)
}
