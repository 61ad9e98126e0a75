//! File access of the server (Landlock).

use super::Files;
use crate::options::MountOptions;
use crate::pressure;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use std::io;
use std::path::{Path, PathBuf};

/// Newest Landlock ABI that is used; an older kernel enforces the part that it knows.
const VERSION: ABI = ABI::V6;

/// Readable: CPU topology and groups of callers.
const READ: [&str; 3] = ["/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup"];
/// Writable: settings of mounts for read-ahead and dirty pages.
const WRITE: [&str; 1] = ["/sys/devices/virtual/bdi"];
/// Readable and writable: device files.
const BOTH: [&str; 2] = ["/dev/fuse", "/dev/null"];

/// Restricts this thread and the threads that it starts to the image and the server's own files.
/// `dir` is the directory of the mount; other directories, even of the same user, are unreachable.
pub(super) fn restrict(options: &MountOptions, dir: &Path) -> io::Result<Files> {
    match ruleset(options, dir).map_err(io::Error::other)?.ruleset {
        RulesetStatus::NotEnforced => Ok(Files::Open),
        _ => Ok(Files::Restricted),
    }
}

fn ruleset(options: &MountOptions, dir: &Path) -> Result<RestrictionStatus, RulesetError> {
    let both = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    // The directory is opened to bind the socket in it.
    let own: BitFlags<AccessFs> = AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::MakeSock
        | AccessFs::RemoveFile
        | AccessFs::Truncate;
    let read_write = BOTH.map(PathBuf::from).into_iter().chain(pressure::files());
    let read_write = read_write.chain(options.files.iter().cloned());
    Ruleset::default()
        .handle_access(AccessFs::from_all(VERSION))?
        .handle_access(AccessNet::from_all(VERSION))?
        .scope(Scope::Signal)?
        .create()?
        .add_rules(path_beneath_rules(READ, AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(
            WRITE,
            AccessFs::WriteFile | AccessFs::Truncate,
        ))?
        .add_rules(path_beneath_rules(read_write, both | AccessFs::Truncate))?
        .add_rules(path_beneath_rules([dir], own))?
        .restrict_self()
}
