//! Progress bar of a transfer; hidden if standard error is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// Template with a total.
const MEASURED: &str =
    "{spinner} {bytes}/{total_bytes} {percent}% ({bytes_per_sec}, {eta} left) {wide_msg}";
const OPEN: &str = "{spinner} {bytes} ({bytes_per_sec}) {wide_msg}";

/// A progress bar.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// `total` returns the number of bytes to copy, if it is known. It runs only if the bar is
    /// visible.
    pub(crate) fn new(total: impl FnOnce() -> Option<u64>) -> Self {
        let bar = ProgressBar::new_spinner();
        let total = if bar.is_hidden() { None } else { total() };
        let template = match total {
            Some(_) => MEASURED,
            None => OPEN,
        };
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        if let Some(bytes) = total {
            bar.set_length(bytes);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Shows the path of the current file.
    pub(super) fn at(&self, path: impl FnOnce() -> Vec<u8>) {
        if !self.0.is_hidden() {
            self.0.set_message(crate::show::name(&path()));
        }
    }

    pub(super) fn add(&self, bytes: u64) {
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
    fn bars_tell_the_total_and_the_rate() {
        for template in [MEASURED, OPEN] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
            assert!(template.contains("{bytes_per_sec}"));
        }
        assert!(MEASURED.contains("{total_bytes}") && MEASURED.contains("{eta}"));
    }
}
