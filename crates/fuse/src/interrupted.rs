//! SIGINT, SIGTERM and SIGHUP for commands that finish a step before they stop.
//!
//! The handler sets one flag, which the command checks between two steps. Each signal is caught
//! once (`SA_RESETHAND`); the second one ends the process. An ignored signal stays ignored, as
//! `nohup` requires.

use crate::error::{Error, Result};
use crate::signals::SIGNALS;
use std::io;
use uext4_sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Installs the handlers.
///
/// # Errors
/// The error of `sigaction(2)`.
pub fn catch_interrupts() -> Result<()> {
    SIGNALS
        .into_iter()
        .try_for_each(install)
        .map_err(|error| Error::system("catch signals", "sigaction")(error))
}

/// Whether one of the signals has arrived.
pub fn is_interrupted() -> bool {
    ASKED.load(Ordering::Relaxed)
}

#[allow(unsafe_code)]
fn install(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: zeroed structures are valid values; the old action is only read; the handler is an
    // `extern "C"` function that does nothing but an atomic store, which handlers may do.
    let done = unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        let asked = libc::sigaction(signal, std::ptr::null(), &mut old);
        if asked != 0 || old.sa_sigaction == libc::SIG_IGN {
            asked
        } else {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = crate::signals::handler(on_signal);
            action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
            libc::sigaction(signal, &action, std::ptr::null_mut())
        }
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_signal(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}
