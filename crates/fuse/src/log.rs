//! The log of a mount: what went wrong while it was served, one line each.
//!
//! In the foreground lines go to standard error, otherwise to the log of the system. A server that
//! is locked in has no socket for that: through any datagram socket it could reach the sockets of
//! others, since `sendmsg` names an address that a filter of calls does not see. So its keeper
//! sends the lines, a bounded number of them.
//!
//! Invariants: a line holds no control characters. Nobody waits for a log: a line that is not taken
//! at once is counted, and the next one says how many are missing.
//! Not here: what is logged ([`uext4::Incident`]), which the mount also tells who asks it.

mod relay;
mod system;

pub(crate) use relay::Relay;
use system::SystemLog;

use crate::hands::Hands;
use crate::keeper::Keeper;
use crate::options::{MountOptions, Run};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uext4::{Incident, Listener};

/// Longest line in bytes: what RFC 3164 allows, without the head.
const LINE_BYTES_MAX: usize = 960;
/// Of a longer path the end is shown.
const PATH_CHARS_MAX: usize = 200;

/// How bad it is, in the numbers of `syslog(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Severity {
    Critical = 2,
    Error = 3,
    Warning = 4,
    Notice = 5,
}

impl Severity {
    /// The one with this number; [`Self::Error`] for any other.
    pub(crate) fn of(number: u8) -> Self {
        let all = [Self::Critical, Self::Warning, Self::Notice];
        let found = all.into_iter().find(|severity| *severity as u8 == number);
        found.unwrap_or(Self::Error)
    }
}

enum Place {
    Stderr,
    System(SystemLog),
    Keeper(Arc<Keeper>),
}

/// See the module.
pub(crate) struct Log {
    place: Place,
    /// What a line begins with: where the mount is.
    name: String,
    missing: AtomicU64,
}

impl Log {
    /// The log of a mount that these hands made.
    pub(crate) fn of(hands: &Hands, options: &MountOptions) -> Arc<Self> {
        let place = match (options.run, hands) {
            (Run::Foreground, _) => Place::Stderr,
            (Run::Daemon, Hands::Keeper(keeper)) => Place::Keeper(keeper.clone()),
            (Run::Daemon, Hands::Own(_)) => Place::System(SystemLog::new()),
        };
        Arc::new(Self {
            place,
            name: name(hands.path()),
            missing: AtomicU64::new(0),
        })
    }

    /// Writes a line.
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

    /// Writes how the mount ended, and what is recorded of errors. In the foreground the program
    /// itself tells why it fails.
    pub(crate) fn say_end(&self, closed: &crate::Result<()>, recorded: Option<&str>) {
        match (closed, &self.place) {
            (Err(_), Place::Stderr) => {}
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
                &format!("{recorded}; run e2fsck -f on the image"),
            );
        }
    }

    fn write(&self, severity: Severity, text: &str) -> io::Result<()> {
        let line = plain(&format!("{}: {text}", self.name));
        match &self.place {
            Place::Stderr => write_stderr(&line),
            Place::System(log) => log.write(severity, &line),
            Place::Keeper(keeper) => keeper.log(severity, &line),
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

/// The path for a line: its end, if it is long.
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

/// Text without control characters, as long as a line may be.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() {
            true => shown.extend(letter.escape_default()),
            false => shown.push(letter),
        }
    }
    if shown.len() > LINE_BYTES_MAX {
        let ends = (0..=LINE_BYTES_MAX).rev();
        let end = ends.into_iter().find(|end| shown.is_char_boundary(*end));
        shown.truncate(end.unwrap_or(0));
        shown.push_str("...");
    }
    shown
}

/// One write, which a pipe takes whole; none while nobody reads the pipe.
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
    fn lines_are_plain_and_bounded() {
        assert_eq!(plain("a\n\u{1b}[31mb\tü"), "a\\n\\u{1b}[31mb\\tü");
        let long = plain(&"ü".repeat(1000));
        assert!(long.len() <= LINE_BYTES_MAX + 3 && long.ends_with("ü..."));
        assert_eq!(name(Path::new("/mnt/\u{7}")), "/mnt/\\u{7}");
        let deep = name(Path::new(&"/abcdefg".repeat(100)));
        assert!(deep.starts_with("...") && deep.len() == PATH_CHARS_MAX + 3);
    }

    #[test]
    fn severities_are_those_of_syslog() {
        for severity in [
            Severity::Critical,
            Severity::Error,
            Severity::Warning,
            Severity::Notice,
        ] {
            assert_eq!(Severity::of(severity as u8), severity);
        }
        assert_eq!(Severity::of(0), Severity::Error);
    }
}
