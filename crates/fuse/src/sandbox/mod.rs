//! Sandbox of the server: an image that compromises the server reaches nothing but itself.
//!
//! Three layers, installed in this order. Capabilities are dropped (`privileges`) and file access
//! is restricted (`files`, Landlock) while the process has one thread, before the image is read.
//! System calls are restricted (`calls`, seccomp) for all threads once the mount is served.
//! [`crate::keeper`] does what needs more rights, such as the unmount.
//!
//! References: kernel documentation, `userspace-api/landlock`, `userspace-api/seccomp_filter`.

mod calls;
mod files;
mod privileges;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::options::{MountOptions, Sandbox};
use std::fmt;
use std::io;
use std::path::Path;

/// Sandbox with Landlock installed and seccomp pending.
pub(crate) struct HalfLocked {
    files: Files,
}

/// Whether Landlock restricts file access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    Restricted,
    /// Not restricted, so seccomp will forbid all calls that take a path.
    Open,
}

/// Active layers of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locked {
    Both,
    CallsOnly,
    FilesOnly,
    No,
}

impl fmt::Display for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Both => "locked in by Landlock and seccomp",
            Self::CallsOnly => "locked in by seccomp only: the kernel has no Landlock",
            Self::FilesOnly => "locked in by Landlock only: seccomp cannot be installed",
            Self::No => "not locked in",
        })
    }
}

/// Drops capabilities and restricts file access of this thread and the threads that it starts.
/// `dir` is the directory of the mount.
///
/// # Errors
/// With [`Sandbox::Must`]: a step failed, or the kernel has no Landlock.
pub(crate) fn begin(options: &MountOptions, dir: &Path) -> Result<HalfLocked> {
    // With `Sandbox::Best` a step that fails does not keep the others from being taken.
    let taken = |step: io::Result<()>| match step {
        Err(error) if options.sandbox == Sandbox::Must => Err(failed(error)),
        _ => Ok(()),
    };
    taken(limit_memory(options.memory_bytes_max))?;
    taken(privileges::drop_all_but_access())?;
    match files::restrict(options, dir) {
        Ok(Files::Restricted) => Ok(HalfLocked {
            files: Files::Restricted,
        }),
        Err(error) if options.sandbox == Sandbox::Must => Err(failed(error)),
        Ok(Files::Open) if options.sandbox == Sandbox::Must => {
            Err(failed(io::ErrorKind::Unsupported.into()))
        }
        _ => Ok(HalfLocked { files: Files::Open }),
    }
}

/// Limits the address space of the process, in bytes.
fn limit_memory(bytes: Option<u64>) -> io::Result<()> {
    let Some(bytes) = bytes else {
        return Ok(());
    };
    let limit = rustix::process::Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    Ok(rustix::process::setrlimit(
        rustix::process::Resource::As,
        limit,
    )?)
}

impl HalfLocked {
    /// Restricts the system calls of all threads.
    ///
    /// # Errors
    /// With [`Sandbox::Must`]: the seccomp filter cannot be installed.
    pub(crate) fn finish(self, sandbox: Sandbox) -> Result<Locked> {
        match (calls::restrict(self.files), self.files) {
            (Ok(()), Files::Restricted) => Ok(Locked::Both),
            (Ok(()), Files::Open) => Ok(Locked::CallsOnly),
            (Err(error), _) if sandbox == Sandbox::Must => Err(failed(error)),
            (Err(_), Files::Restricted) => Ok(Locked::FilesOnly),
            (Err(_), Files::Open) => Ok(Locked::No),
        }
    }
}

fn failed(error: io::Error) -> Error {
    Error::system("lock in", "the server")(error)
}
