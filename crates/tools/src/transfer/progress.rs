//! Progress bar of transfers and moves; hidden if standard error is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

const TEMPLATE: &str =
    "{spinner} {bytes}/{total_bytes} {percent}% ({bytes_per_sec}, {eta} left) {wide_msg}";

/// For things that have no size; `{prefix}` is their name.
const COUNTING: &str =
    "{spinner} {human_pos}/{human_len} {prefix} {percent}% ({per_sec}, {eta} left) {wide_msg}";

pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// `total` returns the number of bytes to copy. It runs only if the bar is visible.
    pub(crate) fn new(total: impl FnOnce() -> u64) -> Self {
        let bar = Self::begin(TEMPLATE);
        if !bar.0.is_hidden() {
            bar.of(total());
        }
        bar
    }

    /// Counts things of this name; [`Self::of`] tells how many there are.
    pub(crate) fn counting(name: &'static str) -> Self {
        let bar = Self::begin(COUNTING);
        bar.0.set_prefix(name);
        bar
    }

    fn begin(template: &str) -> Self {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Shows the path of the current file.
    pub(crate) fn at(&self, path: &[u8]) {
        if !self.0.is_hidden() {
            self.0.set_message(crate::show::name(path));
        }
    }

    /// Sets the number of bytes, or things, in all.
    pub(crate) fn of(&self, total: u64) {
        self.0.set_length(total);
    }

    /// Names the things that are counted.
    pub(crate) fn named(&self, name: &'static str) {
        self.0.set_prefix(name);
    }

    /// Sets the number of bytes, or things, that are done.
    pub(crate) fn to(&self, done: u64) {
        self.0.set_position(done);
    }

    pub(crate) fn add(&self, done: u64) {
        self.0.inc(done);
    }

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
        assert!(ProgressStyle::with_template(COUNTING).is_ok());
        for word in ["{per_sec}", "{human_len}", "{eta}"] {
            assert!(COUNTING.contains(word), "{word}");
        }
    }
}
