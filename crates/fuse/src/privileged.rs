//! Process that mounts and unmounts: the server or its keeper.

use crate::attachment::Attachment;
use crate::error::Result;
use crate::keeper::Keeper;
use crate::mount_dir::MountDir;
use crate::mount_point::Lazy;
use crate::options::{Backing, MountOptions, Sandbox};
use crate::transport::DevFuse;
use std::path::Path;
use uext4::Filesystem;
use uext4::device::Claimant;
use uext4_sync::Arc;

/// The process that mounts and unmounts.
#[derive(Clone)]
pub(crate) enum Privileged {
    /// This process has kept its rights.
    Own(Arc<Attachment>),
    /// The keeper of a sandboxed server.
    Keeper(Arc<Keeper>),
}

impl Privileged {
    /// Selects the process for a server with these options. The caller must have one thread.
    pub(crate) fn of(place: MountDir, options: &MountOptions) -> Result<Self> {
        match options.sandbox {
            Sandbox::Off => Ok(Self::own(place)),
            _ => Ok(Self::Keeper(Arc::new(Keeper::start(place, options)?))),
        }
    }

    pub(crate) fn own(place: MountDir) -> Self {
        Self::Own(Arc::new(Attachment::new(place)))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Own(attachment) => attachment.path(),
            Self::Keeper(keeper) => keeper.path(),
        }
    }

    /// Number of the connection to the kernel, once it is mounted.
    pub(crate) fn connection(&self) -> Option<u64> {
        match self {
            Self::Own(attachment) => attachment.connection(),
            Self::Keeper(keeper) => keeper.connection(),
        }
    }

    /// Mounts `filesystem`. A `fuseblk` mount takes over the claim on the block device.
    pub(crate) fn attach(
        &self,
        filesystem: &Filesystem,
        options: &MountOptions,
    ) -> Result<DevFuse> {
        let known = options.backing != Backing::File && !options.read_only;
        if !known || !rustix::process::geteuid().is_root() {
            return self.attach_any(options);
        }
        filesystem.claim_device_for(Claimant::Mount)?;
        if let Ok(device) = self.attach_block(options) {
            return Ok(device);
        }
        // A kernel may refuse to mount a device that is open for writing, here by us.
        let claimed = filesystem.claim_device_for(Claimant::Opener);
        // If another process claimed the device meanwhile, nothing may be written to it.
        claimed.inspect_err(|_| filesystem.abandon())?;
        self.attach_any(options)
    }

    fn attach_any(&self, options: &MountOptions) -> Result<DevFuse> {
        match self {
            Self::Own(attachment) => attachment.attach(options),
            Self::Keeper(keeper) => keeper.attach(),
        }
    }

    fn attach_block(&self, options: &MountOptions) -> Result<DevFuse> {
        match self {
            Self::Own(attachment) => attachment.attach_block(options),
            Self::Keeper(keeper) => keeper.attach_block(),
        }
    }

    pub(crate) fn detach(&self, lazy: Lazy) -> Result<()> {
        match self {
            Self::Own(attachment) => attachment.detach(lazy),
            Self::Keeper(keeper) => keeper.detach(lazy),
        }
    }

    /// Prepares the calling thread, which does nothing else later, to wait for the own mount.
    pub(crate) fn leave(&self) {
        match self {
            // The end of this process is seen by no other one.
            Self::Own(_) => {}
            Self::Keeper(keeper) => keeper.leave(),
        }
    }

    /// Aborts the connection to the kernel. Every request fails, including those not yet sent.
    pub(crate) fn abort(&self) {
        match self {
            Self::Own(attachment) => attachment.abort(),
            Self::Keeper(keeper) => keeper.abort(),
        }
    }
}
