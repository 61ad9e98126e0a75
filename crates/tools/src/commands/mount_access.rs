//! Mounts that can only be read although nobody asked for that: the kernel and `mount(8)` fall back
//! to a read-only mount as well, and say so.

use crate::image::{ImageArgs, Purpose};
use uext4::{Access, MountOptions, format::Support};

/// Makes a mount read-only that can be nothing else, and says why. `look_inside` says whether the
/// superblock may be read already; what cannot be opened or read is told by the mount itself.
pub(super) fn settle(image: &ImageArgs, options: &mut MountOptions, look_inside: LookInside) {
    if options.access == Access::ReadOnly {
        return;
    }
    let why = match uext4::device::write_protected(&image.image) {
        true => Some("the device is write-protected".to_owned()),
        false if look_inside == LookInside::Yes => feature_in_the_way(image),
        false => None,
    };
    if let Some(why) = why {
        options.access = Access::ReadOnly;
        eprintln!("uext4: note: {}: {why}; mounted read-only", image.name());
    }
}

/// Whether the image's bytes are looked at before the server is locked in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookInside {
    Yes,
    No,
}

/// A feature with which the file system can only be read.
fn feature_in_the_way(image: &ImageArgs) -> Option<String> {
    let device = image.device(Purpose::Read).ok()?;
    let disk = uext4::read_superblock(&*device, None).ok()?;
    let feature = disk
        .features()
        .iter()
        .find(|feature| uext4::support(*feature) == Support::ReadOnly)?;
    let name = match feature.name() {
        Some(name) => format!("the feature {name}"),
        None => format!("the unknown feature bit {:#x}", feature.bit),
    };
    Some(format!("{name} can only be read"))
}
