//! Progress bar of transfers and moves; hidden if standard error is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

const TEMPLATE: &str =
    "{spinner} {bytes}/{total_bytes} {percent}% ({bytes_per_sec}, {eta} left) {wide_msg}";

/// A progress bar.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// `total` returns the number of bytes to copy. It runs only if the bar is visible.
    pub(crate) fn new(total: impl FnOnce() -> u64) -> Self {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template(TEMPLATE);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        if !bar.is_hidden() {
            bar.set_length(total());
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Shows the path of the current file.
    pub(crate) fn at(&self, path: &[u8]) {
        if !self.0.is_hidden() {
            self.0.set_message(crate::show::name(path));
        }
    }

    /// Sets the number of bytes in all.
    pub(crate) fn of(&self, total_bytes: u64) {
        self.0.set_length(total_bytes);
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Hides the bar.
    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_tells_the_total_and_the_rate() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
        for word in ["{bytes_per_sec}", "{total_bytes}", "{eta}"] {
            assert!(TEMPLATE.contains(word), "{word}");
        }
    }
}
