//! One line of the log: its severity and its text.

/// Maximum line length in bytes: that of RFC 3164 without the head.
const LINE_BYTES_MAX: usize = 960;

/// Severity in the numbers of `syslog(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Severity {
    Critical = 2,
    Error = 3,
    Warning = 4,
    Notice = 5,
}

impl Severity {
    #[expect(clippy::as_conversions, reason = "the number of the variant")]
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// The severity with this number; [`Self::Error`] for any other number.
    pub(crate) fn of(number: u8) -> Self {
        let all = [Self::Critical, Self::Warning, Self::Notice];
        let found = all.into_iter().find(|severity| severity.number() == number);
        found.unwrap_or(Self::Error)
    }
}

/// Escapes control characters, because names in messages can contain them.
pub fn escape_controls(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Escapes control characters and limits the length.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = escape_controls(text);
    if shown.len() > LINE_BYTES_MAX {
        let ends = (0..=LINE_BYTES_MAX).rev();
        let end = ends.into_iter().find(|end| shown.is_char_boundary(*end));
        shown.truncate(end.unwrap_or(0));
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_plain_and_bounded() {
        assert_eq!(plain("a\n\u{1b}[31mb\tü"), "a\\n\\u{1b}[31mb\\tü");
        let long = plain(&"ü".repeat(1000));
        assert!(long.len() <= LINE_BYTES_MAX + 3 && long.ends_with("ü..."));
    }

    #[test]
    fn severities_are_those_of_syslog() {
        for severity in [
            Severity::Critical,
            Severity::Error,
            Severity::Warning,
            Severity::Notice,
        ] {
            assert_eq!(Severity::of(severity.number()), severity);
        }
        assert_eq!(Severity::of(0), Severity::Error);
    }
}
