//! Disables the purging of freed memory by the allocator.
//!
//! mimalloc returns freed memory to the system after a delay, during some later free, and gets it
//! back as zeroed pages one by one. On a virtual machine whose host takes returned pages, that can
//! cost more than the measured work. So experiments keep freed memory.
//!
//! References: mimalloc's documentation, `MIMALLOC_PURGE_DELAY`.

use anyhow::{Context, Result};
use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Environment variable read by the allocator at start: delay in milliseconds, -1 for never.
const DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Re-executes this program without purging, unless the user has set the delay.
///
/// # Errors
/// The program cannot be executed again.
pub(crate) fn keep_what_is_freed() -> Result<()> {
    if env::var_os(DELAY).is_some() {
        return Ok(());
    }
    let program = env::current_exe().context("the path of this program")?;
    let error = Command::new(&program)
        .args(env::args_os().skip(1))
        .env(DELAY, "-1")
        .exec();
    Err(error).with_context(|| format!("{}: start again", program.display()))
}
