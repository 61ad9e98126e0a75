//! What becomes of memory that is freed.
//!
//! A moment later mimalloc gives it back to the system, in the midst of whatever frees next, and
//! gets it again page by page, cleared: on a virtual machine, whose host takes what is given back,
//! that can cost more than what is measured. So experiments keep what they have.
//!
//! References: mimalloc's documentation, `MIMALLOC_PURGE_DELAY`.

use anyhow::{Context, Result};
use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Read by the allocator when a program starts; milliseconds, -1 for never.
const DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Starts this program again, so that it keeps what it frees; unless the user says what it does.
///
/// # Errors
/// It cannot be started again.
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
