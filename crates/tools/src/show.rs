//! Formats names, types and modes for terminals and JSON.

use crate::failure::Result;
use serde::Serialize;
use std::io::Write;
use uext4::FileType;

/// A name or path for a terminal. Names that are not UTF-8 or contain control characters are
/// escaped.
pub(crate) fn name(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => text.to_string(),
        _ => bytes.escape_ascii().to_string(),
    }
}

/// A name in JSON: text if it is UTF-8, else hexadecimal bytes.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Name {
    Text(String),
    Bytes { hex: String },
}

impl Name {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Name::Text(text.to_string()),
            Err(_) => Name::Bytes { hex: hex(bytes) },
        }
    }
}

/// Lower-case hexadecimal digits, two for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The type in one word.
pub(crate) fn kind(kind: FileType) -> &'static str {
    match kind {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::CharDevice => "character device",
        FileType::BlockDevice => "block device",
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        FileType::Symlink => "symlink",
    }
}

/// Type and permission bits as `ls -l` shows them.
pub(crate) fn mode(kind: FileType, mode: u16) -> String {
    let letter = match kind {
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::CharDevice => 'c',
        FileType::BlockDevice => 'b',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        FileType::Symlink => 'l',
    };
    let mut text = String::from(letter);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Whether the locale says that the terminal shows UTF-8.
pub(crate) fn takes_unicode() -> bool {
    is_utf8(
        variable("LC_ALL")
            .or_else(|| variable("LC_CTYPE"))
            .or_else(|| variable("LANG")),
    )
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn is_utf8(locale: Option<String>) -> bool {
    let charset = locale.unwrap_or_default().to_ascii_lowercase();
    charset.contains("utf-8") || charset.contains("utf8")
}

/// Writes a value as JSON and a newline.
pub(crate) fn json(out: &mut dyn Write, value: &impl Serialize) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Writes one line to standard output.
pub(crate) fn line(text: std::fmt::Arguments<'_>) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

/// Buffered standard output. The caller flushes it at the end, because only `flush` reports errors.
pub(crate) fn stdout() -> std::io::BufWriter<std::io::StdoutLock<'static>> {
    std::io::BufWriter::with_capacity(64 << 10, std::io::stdout().lock())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_as_in_ls() {
        assert_eq!(mode(FileType::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(mode(FileType::Regular, 0o6640), "-rwSr-S---");
        assert_eq!(mode(FileType::Symlink, 0o755), "lrwxr-xr-x");
    }

    #[test]
    fn odd_names_cannot_command_a_terminal() {
        assert_eq!(name("dir/über".as_bytes()), "dir/über");
        assert_eq!(name(b"a\x1b[2J"), "a\\x1b[2J");
        assert_eq!(name(b"\xff"), "\\xff");
        let odd = serde_json::to_string(&Name::new(b"\xff\x00")).unwrap();
        assert_eq!(odd, r#"{"hex":"ff00"}"#);
    }
}
