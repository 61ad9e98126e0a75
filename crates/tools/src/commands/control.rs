//! Client of the control socket of a running mount.

use crate::failure::{Cause, Failure, Result};
use crate::image::ImageArgs;
use rustix::fs::FileType;
use serde_json::Value;
use std::path::Path;
use uext4_fuse::{Ask, Client, Error};

/// True if the path is a directory or a socket, so that it names a mount and not an image.
///
/// # Errors
/// A mount was named with an option that only an image can have.
pub(super) fn is_running(target: &ImageArgs) -> Result<bool> {
    let found = uext4_fuse::kind_of(&target.image);
    let is_mount = matches!(found, Some(FileType::Directory | FileType::Socket));
    match target.first_option() {
        Some(option) if is_mount => Err(Failure::usage(format!(
            "{}: {option} is for an image, not for a mount",
            target.image.display()
        ))),
        _ => Ok(is_mount),
    }
}

/// Sends a request to the mount and waits for the answer.
pub(crate) fn ask(target: &Path, ask: &Ask) -> Result<Value> {
    let answered = Client::connect(target).and_then(|client| client.ask(ask));
    answered.map_err(|error| failure(target, &error))
}

/// Converts an error of a request into a failure.
pub(super) fn failure(target: &Path, error: &Error) -> Failure {
    match error {
        Error::NotMounted { path } if !path.exists() => Failure::new(
            error.exit(),
            format!("{}: no such directory", path.display()),
        ),
        Error::NotMounted { .. } => Failure::new(error.exit(), error.to_string())
            .hint("`findmnt -t fuse.uext4` lists those that are"),
        // The server's message has no path.
        Error::Refused(why) => Failure::new(error.exit(), format!("{}: {why}", target.display())),
        Error::FileSystem(error) => Failure::at(error, target.display()),
        _ => Failure::new(error.exit(), error.to_string()),
    }
}
