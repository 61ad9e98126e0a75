//! Asking a running mount.

use crate::failure::{Cause, Failure, Result};
use serde_json::Value;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use uext4_fuse::{Ask, Client, Error};

/// Whether the path is a mount point (or a control socket), not an image.
pub(super) fn is_running(target: &Path) -> bool {
    let found = std::fs::metadata(target);
    found.is_ok_and(|found| found.is_dir() || found.file_type().is_socket())
}

/// Connects to the mount, asks, and waits for the answer.
pub(crate) fn ask(target: &Path, ask: &Ask) -> Result<Value> {
    let answered = Client::connect(target).and_then(|client| client.ask(ask));
    answered.map_err(|error| failure(target, &error))
}

/// Why a mount did not do what it was told.
pub(super) fn failure(target: &Path, error: &Error) -> Failure {
    match error {
        Error::NotMounted { path } if !path.exists() => Failure::new(
            error.exit(),
            format!("{}: no such directory", path.display()),
        ),
        Error::NotMounted { .. } => Failure::new(error.exit(), error.to_string())
            .hint("`findmnt -t fuse.uext4` lists those that are"),
        // The server does not say where.
        Error::Refused(why) => Failure::new(error.exit(), format!("{}: {why}", target.display())),
        Error::FileSystem(error) => Failure::at(error, target.display()),
        _ => Failure::new(error.exit(), error.to_string()),
    }
}
