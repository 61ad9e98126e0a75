//! Which files the server reaches (Landlock).

use super::Files;
use crate::options::MountOptions;
use crate::{pressure, runtime_dir};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use std::io;
use std::path::PathBuf;

/// Newest version whose rights are used; an older kernel enforces those that it knows.
const VERSION: ABI = ABI::V6;

/// Read: cores and groups of callers.
const READ: [&str; 3] = ["/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup"];
/// Written: how far the kernel reads ahead.
const WRITE: [&str; 1] = ["/sys/devices/virtual/bdi"];
/// Read and written.
const BOTH: [&str; 2] = ["/dev/fuse", "/dev/null"];

/// Restricts this thread, and those that it starts, to the image and what the server needs.
pub(super) fn restrict(options: &MountOptions) -> io::Result<Files> {
    // Only what is there can be named, and nothing beside it can be made later.
    runtime_dir::make(&runtime_dir::own())?;
    match ruleset(options).map_err(io::Error::other)?.ruleset {
        RulesetStatus::NotEnforced => Ok(Files::Open),
        _ => Ok(Files::Restricted),
    }
}

fn ruleset(options: &MountOptions) -> Result<RestrictionStatus, RulesetError> {
    let both = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let own: BitFlags<AccessFs> = both
        | AccessFs::ReadDir
        | AccessFs::MakeReg
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
        .add_rules(path_beneath_rules([runtime_dir::own()], own))?
        .restrict_self()
}
