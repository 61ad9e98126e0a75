//! Trees between the host and an image: mode, owner, times, extended attributes, hard links and
//! holes are kept.

pub(crate) mod export;
pub(crate) mod import;

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// Bytes moved at once.
const PIECE_BYTES: usize = 1 << 20;

/// A name in a directory as a path.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, slash, name].concat()
}

/// The last name of a path; `None` when its content is meant: `/`, `dir/.`, `..`.
pub(crate) fn last_name(path: &[u8]) -> Option<&[u8]> {
    let end = path.iter().rposition(|byte| *byte != b'/')? + 1;
    let name = path.split_at(end).0.rsplit(|byte| *byte == b'/').next()?;
    (name != b"." && name != b"..").then_some(name)
}

/// How much was moved, shown on a terminal and nowhere else.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {bytes} ({bytes_per_sec}) {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    fn at(&self, path: &[u8]) {
        if !self.0.is_hidden() {
            self.0.set_message(crate::show::name(path));
        }
    }

    fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_at_the_end() {
        assert_eq!(last_name(b"/a/b//"), Some(b"b".as_slice()));
        assert_eq!(last_name(b"a"), Some(b"a".as_slice()));
        assert!(
            [b"/".as_slice(), b"a/.", b"..", b""]
                .iter()
                .all(|path| last_name(path).is_none())
        );
        assert_eq!(join(b"/", b"a"), b"/a");
        assert_eq!(join(b"/d", b"a"), b"/d/a");
    }
}
