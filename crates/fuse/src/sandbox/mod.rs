//! Locking the server in, so that a hostile image that takes it over reaches nothing but itself.
//!
//! Three walls, put up in this order: privileges are dropped and files are restricted
//! (`files`, Landlock) while the process has one thread, before the image is read; calls are
//! restricted (`calls`, seccomp) for all threads once the mount is served. What needs more, taking
//! the mount off, is done by [`crate::keeper`].
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

/// A process that is half locked in.
pub(crate) struct HalfLocked {
    files: Files,
}

/// Whether the kernel restricts which files can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    Restricted,
    /// The kernel has no Landlock: nothing can be opened once calls are restricted.
    Open,
}

/// What holds the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locked {
    Both,
    CallsOnly,
    No,
}

impl fmt::Display for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Both => "locked in by Landlock and seccomp",
            Self::CallsOnly => "locked in by seccomp only: the kernel has no Landlock",
            Self::No => "not locked in",
        })
    }
}

/// Restricts which files this thread and those that it starts can reach, and what they may. `dir`
/// is the directory of the mount.
///
/// # Errors
/// [`Sandbox::Must`] and no Landlock.
pub(crate) fn begin(options: &MountOptions, dir: &Path) -> Result<HalfLocked> {
    let begun = limit_memory(options.memory_bytes_max)
        .and_then(|()| privileges::drop_all_but_access())
        .and_then(|()| files::restrict(options, dir));
    let files = match begun {
        Ok(files) => files,
        Err(error) if options.sandbox == Sandbox::Must => return Err(failed(error)),
        Err(_) => Files::Open,
    };
    match files {
        Files::Open if options.sandbox == Sandbox::Must => {
            Err(failed(io::ErrorKind::Unsupported.into()))
        }
        files => Ok(HalfLocked { files }),
    }
}

/// Lets the process have no more address space than this.
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
    /// Restricts which calls of the system all threads can make.
    ///
    /// # Errors
    /// [`Sandbox::Must`] and no seccomp.
    pub(crate) fn finish(self, sandbox: Sandbox) -> Result<Locked> {
        match (calls::restrict(self.files), self.files) {
            (Ok(()), Files::Restricted) => Ok(Locked::Both),
            (Ok(()), Files::Open) => Ok(Locked::CallsOnly),
            (Err(error), _) if sandbox == Sandbox::Must => Err(failed(error)),
            (Err(_), _) => Ok(Locked::No),
        }
    }
}

fn failed(error: io::Error) -> Error {
    Error::system("lock in", "the server")(error)
}
