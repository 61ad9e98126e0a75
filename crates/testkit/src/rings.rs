//! FUSE over io_uring, which the kernel offers to new mounts while a parameter of its says so.
//!
//! The parameter is one for the whole machine: whoever needs it holds a lock, switches it on, and
//! puts back what was there. What was there stands in the lock's file meanwhile, so that the next
//! one puts it back for a process that was killed.

use crate::oracle::in_ci;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::Path;

/// The parameter: `Y` or `N`.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Held by whoever changes the parameter.
const LOCK: &str = "/run/uext4-enable-uring.lock";

/// The kernel offers rings, or not, to mounts that are made while this lives.
#[derive(Debug)]
pub struct RingsSwitch {
    lock: File,
    was: String,
}

impl RingsSwitch {
    /// Whether this process may switch them.
    pub fn is_available() -> bool {
        rustix::process::geteuid().is_root() && Path::new(PARAMETER).exists()
    }

    /// [`RingsSwitch::is_available`] for the first line of a test: says loudly which test is
    /// skipped.
    ///
    /// # Panics
    /// In continuous integration, where nothing may be skipped.
    pub fn available_or_skip(test: &str) -> bool {
        if Self::is_available() {
            return true;
        }
        assert!(
            !in_ci(),
            "{test}: FUSE over io_uring is not available, and CI may not skip it"
        );
        eprintln!("=== SKIPPED: {test} needs root and Linux 6.14 (FUSE over io_uring) ===");
        false
    }

    /// Switches them on, after everybody else who switches.
    ///
    /// # Errors
    /// This process may not.
    pub fn on() -> Result<Self> {
        Self::to("Y")
    }

    /// Switches them off, after everybody else who switches.
    ///
    /// # Errors
    /// This process may not.
    pub fn off() -> Result<Self> {
        Self::to("N")
    }

    fn to(value: &str) -> Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut lock = options.open(LOCK).context(LOCK)?;
        lock.lock()?;
        let mut was = String::new();
        lock.read_to_string(&mut was)?;
        if was.is_empty() {
            was = fs::read_to_string(PARAMETER).context(PARAMETER)?;
            lock.write_all(was.as_bytes())?;
        }
        let switch = Self { lock, was };
        fs::write(PARAMETER, value).context(PARAMETER)?;
        Ok(switch)
    }

    fn put_back(&mut self) -> Result<()> {
        fs::write(PARAMETER, &self.was)?;
        self.lock.rewind()?;
        Ok(self.lock.set_len(0)?)
    }
}

impl Drop for RingsSwitch {
    fn drop(&mut self) {
        if let Err(error) = self.put_back() {
            eprintln!("{PARAMETER} stays as it is: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_owner_leaves_nothing_behind() {
        if !RingsSwitch::available_or_skip("a_killed_owner_leaves_nothing_behind") {
            return;
        }
        let off = RingsSwitch::off().unwrap();
        let was = off.was.clone();
        // The kernel lets the lock of a killed process go; nothing else happens.
        let RingsSwitch { lock, .. } = &off;
        lock.unlock().unwrap();
        std::mem::forget(off);
        let on = RingsSwitch::on().unwrap();
        assert_eq!(on.was, was);
        assert_eq!(fs::read_to_string(PARAMETER).unwrap().trim(), "Y");
        drop(on);
        assert_eq!(RingsSwitch::off().unwrap().was.trim(), was.trim());
    }
}
