//! FUSE over io_uring, which the kernel offers to new mounts while a parameter of its says so.
//!
//! The parameter is one for the whole machine: whoever needs it holds a lock, switches it on, and
//! puts back what was there.

use crate::oracle::in_ci;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::Path;

/// The parameter: `Y` or `N`.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Held by whoever changes the parameter.
const LOCK: &str = "/run/uext4-enable-uring.lock";

/// The kernel offers rings, or not, to mounts that are made while this lives.
#[derive(Debug)]
pub struct RingsSwitch {
    _lock: File,
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
        let lock = File::create(LOCK).with_context(|| LOCK.to_owned())?;
        lock.lock()?;
        let was = fs::read_to_string(PARAMETER).with_context(|| PARAMETER.to_owned())?;
        fs::write(PARAMETER, value).with_context(|| PARAMETER.to_owned())?;
        Ok(Self { _lock: lock, was })
    }
}

impl Drop for RingsSwitch {
    fn drop(&mut self) {
        if let Err(error) = fs::write(PARAMETER, &self.was) {
            eprintln!("{PARAMETER} stays as it is: {error}");
        }
    }
}
