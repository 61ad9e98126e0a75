//! Log of a mount: one line per incident.
//!
//! In the foreground the lines go to standard error, otherwise to the system log. A sandboxed
//! server has no socket for the latter: `sendmsg` names an address that a seccomp filter does not
//! see, so a datagram socket would reach sockets of other processes. Its keeper sends a bounded
//! number of lines instead.
//!
//! Invariants: a line has no control characters. Logging never blocks: a line that is not taken at
//! once is counted, and the next line reports the number of lost ones.
//! Not here: the incidents ([`uext4::Incident`]), which the control socket also reports.

mod line;
mod relay;
mod system;

pub use line::escape_controls;
pub(crate) use line::{Severity, plain};
pub(crate) use relay::Relay;

use system::SystemLog;

use crate::keeper::Keeper;
use crate::options::{MountOptions, Run};
use crate::privileged::Privileged;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::path::Path;
use uext4::{Incident, Listener};
use uext4_sync::Arc;
use uext4_sync::atomic::{AtomicU64, Ordering};

/// Maximum path length in characters; of a longer path the end is shown.
const PATH_CHARS_MAX: usize = 200;

enum Target {
    Stderr,
    System(SystemLog),
    Keeper(Arc<Keeper>),
}

/// Log of a mount; see the module.
pub(crate) struct Log {
    target: Target,
    /// Prefix of a line: the mount point.
    name: String,
    missing: AtomicU64,
}

impl Log {
    /// The log of a mount made by `privileged`.
    pub(crate) fn of(privileged: &Privileged, options: &MountOptions) -> Arc<Self> {
        let target = match (options.run, privileged) {
            (Run::Foreground, _) => Target::Stderr,
            (Run::Daemon, Privileged::Keeper(keeper)) => Target::Keeper(keeper.clone()),
            (Run::Daemon, Privileged::Own(_)) => Target::System(SystemLog::new()),
        };
        Arc::new(Self {
            target,
            name: name(privileged.path()),
            missing: AtomicU64::new(0),
        })
    }

    pub(crate) fn say(&self, severity: Severity, text: &str) {
        let missing = self.missing.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let text = format!("{missing} lines before this one were lost");
            if self.write(Severity::Warning, &text).is_err() {
                self.missing.fetch_add(missing, Ordering::Relaxed);
            }
        }
        if self.write(severity, text).is_err() {
            self.missing.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Logs the result of the mount and its recorded errors. In the foreground the program itself
    /// reports a failure.
    pub(crate) fn say_end(&self, closed: &crate::Result<()>, recorded: Option<&str>) {
        match (closed, &self.target) {
            (Err(_), Target::Stderr) => {}
            (Err(error), _) => {
                self.say(
                    Severity::Critical,
                    &format!("the image is not clean: {error}"),
                );
            }
            (Ok(()), _) => {}
        }
        if let Some(recorded) = recorded {
            self.say(
                Severity::Warning,
                &format!("{recorded}; run `uext4 fsck -f` on the image"),
            );
        }
    }

    fn write(&self, severity: Severity, text: &str) -> io::Result<()> {
        let line = plain(&format!("{}: {text}", self.name));
        match &self.target {
            Target::Stderr => write_stderr(&line),
            Target::System(log) => log.write(severity, &line),
            Target::Keeper(keeper) => keeper.log(severity, &line),
        }
    }
}

impl Listener for Log {
    fn hear(&self, incident: &Incident) {
        let severity = match incident {
            Incident::Met(_) => Severity::Error,
            Incident::Stopped(_) => Severity::Critical,
            Incident::Unlisted => Severity::Warning,
        };
        self.say(severity, &incident.to_string());
    }
}

/// The path for a line; of a long one only its end.
fn name(path: &Path) -> String {
    let shown = plain(&path.to_string_lossy());
    match shown.chars().count().checked_sub(PATH_CHARS_MAX) {
        None | Some(0) => shown,
        Some(more) => shown.chars().skip(more).fold("...".into(), |mut end, c| {
            end.push(c);
            end
        }),
    }
}

/// Writes in one piece, which is atomic on a pipe; fails while the pipe is full.
fn write_stderr(line: &str) -> io::Result<()> {
    let stderr = io::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    poll(&mut ready, Some(&Timespec::default()))?;
    if !ready[0].revents().contains(PollFlags::OUT) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    rustix::io::write(&stderr, format!("uext4: {line}\n").as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_bounded() {
        assert_eq!(name(Path::new("/mnt/\u{7}")), "/mnt/\\u{7}");
        let deep = name(Path::new(&"/abcdefg".repeat(100)));
        assert!(deep.starts_with("...") && deep.len() == PATH_CHARS_MAX + 3);
    }
}
