//! Asking a running mount.

use crate::failure::{Cause, Exit};
use crate::failure::{Failure, Result};
use serde_json::Value;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use uext4_fuse::{Ask, Client};

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

fn failure(target: &Path, error: &uext4_fuse::Error) -> Failure {
    let exit = match error.exit() {
        Exit::Quiet => Exit::Failed,
        exit => exit,
    };
    match error {
        uext4_fuse::Error::NotMounted { .. } => Failure::new(exit, error.to_string()),
        _ => Failure::new(exit, format!("{}: {error}", target.display())),
    }
}
