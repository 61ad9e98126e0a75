//! Default size of the metadata cache of a server.
//!
//! The kernel caches names and attributes of a mount itself, so a server is asked for them once. It
//! keeps less than the library in a program that has no other cache.

use uext4::{Filesystem, Result};

const TUNABLE: &str = "metadata_cache";
/// Most bytes, unless the mount options name a size.
const BYTES_MAX: u64 = 256 << 20;

/// Lowers the cache to [`BYTES_MAX`]; a size that was asked for stays.
///
/// # Errors
/// Those of [`Filesystem::set_tunable`].
pub(crate) fn bound(filesystem: &Filesystem) -> Result<()> {
    let is_default = filesystem.options().metadata_cache_bytes.is_none();
    match filesystem.tunable(TUNABLE) {
        Some(bytes) if is_default && bytes > BYTES_MAX => {
            filesystem.set_tunable(TUNABLE, BYTES_MAX)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4::MountOptions;
    use uext4::device::{Access, FileDevice};
    use uext4_sync::Arc;
    use uext4_testkit::oracle;

    #[test]
    fn a_server_keeps_less_by_default_and_what_was_asked_for() {
        let (_dir, image) = oracle::mke2fs_image(8 << 20, &[]).unwrap();
        for (options, expected) in [("", BYTES_MAX), ("metadata_cache=300M", 300 << 20)] {
            let device = FileDevice::open(&image, Access::ReadWrite).unwrap();
            let options = MountOptions::default().parse(options).unwrap();
            let fs = Filesystem::mount(Arc::new(device), options).unwrap();
            let default = fs.tunable(TUNABLE).unwrap();
            bound(&fs).unwrap();
            assert_eq!(fs.tunable(TUNABLE), Some(expected.min(default)));
        }
    }
}
