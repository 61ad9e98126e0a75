//! Rate-limited relay of log lines from the server, which may be compromised. A bounded number of
//! lines reaches the log, without control characters and in the server's name only.

use super::line::{Severity, plain};
use super::system::SystemLog;

/// Maximum number of lines; a healthy server has fewer.
const LINES_MAX: u32 = 2048;

/// Relay of log lines; see the module.
pub(crate) struct Relay {
    log: SystemLog,
    left: u32,
    /// Lines that the log did not take.
    missing: u32,
}

impl Relay {
    /// A relay in the name of this process.
    pub(crate) fn new() -> Self {
        Self {
            log: SystemLog::new(),
            left: LINES_MAX,
            missing: 0,
        }
    }

    /// Logs a message of a severity byte and a line.
    pub(crate) fn pass_on(&mut self, message: &[u8]) {
        let log = &self.log;
        let (left, missing) = (&mut self.left, &mut self.missing);
        pass_on(message, left, missing, |severity, line| {
            log.write(severity, line).is_ok()
        });
    }
}

fn pass_on(
    message: &[u8],
    left: &mut u32,
    missing: &mut u32,
    write: impl Fn(Severity, &str) -> bool,
) {
    let Some(((severity, line), now_left)) = message.split_first().zip(left.checked_sub(1)) else {
        return;
    };
    *left = now_left;
    let lost = format!("{missing} lines before this one were lost");
    if *missing > 0 && write(Severity::Warning, &lost) {
        *missing = 0;
    }
    let line = plain(&String::from_utf8_lossy(line));
    *missing += u32::from(!write(Severity::of(*severity), &line));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn lines_of_a_server_are_bounded_plain_and_counted() {
        let (mut left, mut missing) = (LINES_MAX, 0);
        let (heard, deaf) = (RefCell::new(Vec::new()), Cell::new(false));
        let write = |severity, line: &str| {
            if !deaf.get() {
                heard.borrow_mut().push((severity, line.to_owned()));
            }
            !deaf.get()
        };
        pass_on(b"\x02a\x1bb\n\xff", &mut left, &mut missing, write);
        let first = (Severity::Critical, "a\\u{1b}b\\n\u{fffd}".to_owned());
        assert_eq!(heard.borrow().last(), Some(&first));
        deaf.set(true);
        (0..3).for_each(|_| pass_on(b"\x03gone", &mut left, &mut missing, write));
        deaf.set(false);
        pass_on(b"\x03there", &mut left, &mut missing, write);
        let said = heard.borrow()[1].1.clone();
        assert_eq!(
            (said.as_str(), missing),
            ("3 lines before this one were lost", 0)
        );
        (0..5000).for_each(|_| pass_on(b"\x03more", &mut left, &mut missing, write));
        assert_eq!(heard.borrow().len(), LINES_MAX as usize - 3 + 1);
    }
}
