//! Switch for FUSE over io_uring (a module parameter that applies to new mounts).
//!
//! The parameter is global: a user of the switch holds a lock file, sets the parameter, and
//! restores it at the end. The original value is in the lock file meanwhile, so the next user
//! restores it after a killed process.

use crate::skip;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};

/// The parameter: `Y` or `N`.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Lock file of the process that changes the parameter.
const LOCK: &str = "/run/uext4-enable-uring.lock";

/// Sets whether the kernel offers rings to mounts made during its lifetime.
#[derive(Debug)]
pub struct RingsSwitch {
    lock: File,
    was: String,
}

impl RingsSwitch {
    /// Whether this process may change the parameter.
    pub fn is_available() -> bool {
        skip::opens(PARAMETER)
    }

    /// As [`RingsSwitch::is_available`], for the first line of a test; prints a skipped test.
    ///
    /// # Panics
    /// In continuous integration, where no test may be skipped.
    pub fn available_or_skip(test: &str) -> bool {
        skip::can_or_skip(
            test,
            Self::is_available(),
            "root and Linux 6.14 (FUSE over io_uring)",
        )
    }

    /// Switches rings on; waits for other users of the switch.
    ///
    /// # Errors
    /// This process may not change the parameter.
    pub fn on() -> Result<Self> {
        Self::to("Y")
    }

    /// Switches rings off; waits for other users of the switch.
    ///
    /// # Errors
    /// This process may not change the parameter.
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
        // The kernel releases the lock of a killed process; that is its only cleanup.
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
