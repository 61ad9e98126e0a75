//! System log: datagrams to `/dev/log`, the socket of syslog or journald.
//!
//! Layout: `<PRIORITY>TIME TAG[PID]: LINE`. The priority is 8 times the facility (3, daemon) plus
//! the severity; the time is local, as in `Nov  5 07:12:00`.
//! Each line uses a new socket: lines are rare, and a restarted daemon is found again.
//! References: RFC 3164; man page `syslog(3)`.

use super::line::Severity;
use std::io;
use std::os::unix::net::UnixDatagram;

const SOCKET: &str = "/dev/log";
const FACILITY_DAEMON: u8 = 3;
const TAG: &str = "uext4";
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Client of the system log; see the module.
pub(crate) struct SystemLog {
    pid: u32,
}

impl SystemLog {
    /// A client in the name of this process.
    pub(crate) fn new() -> Self {
        Self {
            pid: std::process::id(),
        }
    }

    /// Sends a line without control characters.
    ///
    /// # Errors
    /// No daemon listens, or it does not take the line at once.
    pub(crate) fn write(&self, severity: Severity, line: &str) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect(SOCKET)?;
        let message = self.message(severity, line, &local_time());
        socket.send(message.as_bytes()).map(drop)
    }

    fn message(&self, severity: Severity, line: &str, time: &str) -> String {
        let priority = FACILITY_DAEMON * 8 + severity.number();
        format!("<{priority}>{time} {TAG}[{}]: {line}", self.pid)
    }
}

/// Local time in the format of RFC 3164.
#[allow(unsafe_code)]
fn local_time() -> String {
    // SAFETY: both calls write to what they are given, which is valid for them: a null pointer is
    // allowed for `time`, and a zeroed `tm` is one.
    let tm = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut tm: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const now, &raw mut tm);
        tm
    };
    stamp(tm.tm_mon, tm.tm_mday, [tm.tm_hour, tm.tm_min, tm.tm_sec])
}

fn stamp(month: i32, day: i32, [hour, minute, second]: [i32; 3]) -> String {
    let month = usize::try_from(month)
        .ok()
        .and_then(|month| MONTHS.get(month));
    let month = month.unwrap_or(&MONTHS[0]);
    format!("{month} {day:>2} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_as_syslog_wants_it() {
        let log = SystemLog { pid: 7 };
        let time = stamp(10, 5, [7, 2, 0]);
        let message = log.message(Severity::Error, "/mnt: damage", &time);
        assert_eq!(message, "<27>Nov  5 07:02:00 uext4[7]: /mnt: damage");
        assert_eq!(local_time().len(), time.len());
    }
}
