//! Who mounts and unmounts: the server, or its keeper.

use crate::error::Result;
use crate::keeper::Keeper;
use crate::mount_point::{Lazy, attach, detach};
use crate::options::{MountOptions, Sandbox};
use crate::transport::DevFuse;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who mounts and unmounts.
#[derive(Clone)]
pub(crate) enum Hands {
    /// This process.
    Own(PathBuf),
    /// Another, for one that is locked in.
    Keeper(Arc<Keeper>),
}

impl Hands {
    /// Those of a server with these options, which has one thread yet.
    pub(crate) fn of(path: &Path, options: &MountOptions) -> Result<Self> {
        match options.sandbox {
            Sandbox::Off => Ok(Self::Own(path.into())),
            _ => Ok(Self::Keeper(Arc::new(Keeper::start(path, options)?))),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Own(path) => path,
            Self::Keeper(keeper) => keeper.path(),
        }
    }

    pub(crate) fn attach(&self, options: &MountOptions) -> Result<DevFuse> {
        match self {
            Self::Own(path) => attach(path, options),
            Self::Keeper(keeper) => keeper.attach(),
        }
    }

    pub(crate) fn detach(&self, lazy: Lazy) -> Result<()> {
        match self {
            Self::Own(path) => detach(path, lazy),
            Self::Keeper(keeper) => keeper.detach(lazy),
        }
    }
}
