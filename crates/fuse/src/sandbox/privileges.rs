//! Capabilities of the server.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
};
use std::io;

/// Drops all capabilities except `CAP_DAC_OVERRIDE`, of this thread and the threads that it starts.
/// A superuser mounts images of other users, and Landlock limits the capability to the image.
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
    // Linux before 4.3 has no ambient capabilities.
    let _ = clear_ambient_capability_set();
    Ok(())
}
