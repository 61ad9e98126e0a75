//! Dropping what the superuser may.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
};
use std::io;

/// Keeps the right to open files of others, which Landlock limits to the image: superusers mount
/// images of users. Threads that start later have no more.
pub(super) fn drop_all_but_access() -> io::Result<()> {
    let had = capabilities(None)?;
    let kept = had.permitted & CapabilitySet::DAC_OVERRIDE;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    // Linux before 4.3 has none.
    let _ = clear_ambient_capability_set();
    Ok(())
}
