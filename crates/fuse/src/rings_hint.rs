//! Hint that FUSE over io_uring is available and off, given once per boot.
//!
//! The file [`NAME`] in the user's runtime base holds the boot id of the last hint. A base that
//! survives a boot (`/tmp` on a disk) therefore does not suppress the next one.
//! Reference: kernel doc `filesystems/fuse/fuse-io-uring.rst`.

use crate::runtime_dir;
use std::fs;
use std::path::Path;

/// Module parameter: `Y` offers rings to new mounts. Linux 6.14 has it.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Hidden, so that a listing of the base shows mounts alone.
const NAME: &str = ".io_uring-hint";

/// Whether the kernel offers rings to new mounts.
pub(crate) fn is_offered() -> bool {
    fs::read(PARAMETER).is_ok_and(|value| value.starts_with(b"Y"))
}

/// Path of the kernel's switch for FUSE over io_uring, if it is off and this user has not been told
/// since the last boot. Later calls in the same boot return `None`.
pub fn io_uring_hint() -> Option<&'static Path> {
    let base = runtime_dir::make_base().ok()?;
    is_due(Path::new(PARAMETER), Path::new(BOOT_ID), &base.join(NAME)).then_some(PARAMETER.as_ref())
}

/// Without a boot id or a place for the file nothing is due: the hint would come with each mount.
fn is_due(parameter: &Path, boot_id: &Path, given: &Path) -> bool {
    let is_off = fs::read(parameter).is_ok_and(|value| value.starts_with(b"N"));
    let Some(boot) = is_off.then(|| fs::read(boot_id).ok()).flatten() else {
        return false;
    };
    fs::read(given).ok().as_ref() != Some(&boot) && fs::write(given, boot).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_once_per_boot_while_rings_are_off() {
        let dir = tempfile::tempdir().expect("there is room");
        let at = |name: &str| dir.path().join(name);
        let set = |name: &str, value: &str| fs::write(at(name), value).expect("there is room");
        let due = || is_due(&at("parameter"), &at("boot"), &at("given"));
        set("boot", "first\n");
        assert!(!due(), "the kernel has no rings");
        set("parameter", "Y\n");
        assert!(!due(), "they are on");
        set("parameter", "N\n");
        assert_eq!([due(), due(), due()], [true, false, false]);
        set("boot", "second\n");
        assert_eq!([due(), due()], [true, false]);
        fs::remove_file(at("boot")).expect("it is there");
        assert!(!due(), "boots cannot be told apart");
    }
}
