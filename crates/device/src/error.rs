//! Errors of a device.

/// What went wrong on a device, and where.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The operating system, or an injected fault, failed an access.
    #[error("{op} of {len} bytes at byte {offset} failed: {source}")]
    Io {
        /// `read`, `write`, `flush`, `discard` or `open`.
        op: &'static str,
        /// First byte of the access.
        offset: u64,
        /// Length of the access in bytes.
        len: u64,
        /// The cause.
        source: std::sync::Arc<std::io::Error>,
    },
    /// The access reaches past the end of the device.
    #[error("access of {len} bytes at byte {offset} is past the end of the device ({size_bytes} bytes)")]
    OutOfRange {
        /// First byte of the access.
        offset: u64,
        /// Length of the access in bytes.
        len: u64,
        /// Size of the device in bytes.
        size_bytes: u64,
    },
    /// The device was opened read-only.
    #[error("the device is read-only")]
    ReadOnly,
}
