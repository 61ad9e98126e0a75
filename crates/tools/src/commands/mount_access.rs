//! Fallback to a read-only mount, with a note, as in the kernel and `mount(8)`: for a
//! write-protected device or a feature without write support.

use crate::image::{ImageArgs, Purpose};
use uext4::{Access, MountOptions, format::Support};

/// Sets the mount to read-only if writing is impossible, and prints the reason. `look_inside` says
/// whether the superblock may be read already. The mount itself reports errors of opening and
/// reading.
pub(super) fn fall_back_to_read_only(
    image: &ImageArgs,
    options: &mut MountOptions,
    look_inside: LookInside,
) {
    if options.access == Access::ReadOnly {
        return;
    }
    let why = if uext4::device::write_protected(&image.image) {
        Some("the device is write-protected".to_owned())
    } else if look_inside == LookInside::Yes {
        unsupported_feature(image)
    } else {
        None
    };
    if let Some(why) = why {
        options.access = Access::ReadOnly;
        eprintln!("uext4: note: {}: {why}; mounted read-only", image.name());
    }
}

/// Whether the superblock is read before the server enters its sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookInside {
    Yes,
    No,
}

/// A feature for which uext4 has no write support, in words.
fn unsupported_feature(image: &ImageArgs) -> Option<String> {
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
