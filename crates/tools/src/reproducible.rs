//! Fixed timestamps for reproducible images: the same steps produce the same bytes.
//!
//! References: <https://reproducible-builds.org/specs/source-date-epoch/>.

use crate::failure::{Failure, Result};
use uext4::{MountOptions, Timestamp};
use uext4_num::clamp_i64;

const VARIABLE: &str = "SOURCE_DATE_EPOCH";

/// Source of the current time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Epoch {
    /// No fixed time: the system clock.
    None,
    /// `--time`: everything that is created gets this time.
    All(Timestamp),
    /// `SOURCE_DATE_EPOCH`: new files get this time, and later times are clamped to it.
    Latest(Timestamp),
}

impl Epoch {
    /// `--time` if it is given, else the environment's `SOURCE_DATE_EPOCH`.
    ///
    /// The variable is not a number.
    pub(crate) fn given(time: Option<u64>) -> Result<Self> {
        if let Some(time) = time {
            return Ok(Epoch::All(of_seconds(time)));
        }
        match std::env::var_os(VARIABLE) {
            None => Ok(Epoch::None),
            Some(text) => {
                let number = text.to_str().and_then(|text| text.parse().ok());
                let problem = "is no number of seconds since 1970";
                let number = number.ok_or_else(|| Failure::usage(format!("{VARIABLE} {problem}")));
                Ok(Epoch::Latest(of_seconds(number?)))
            }
        }
    }

    /// The fixed time, if there is one.
    pub(crate) fn time(self) -> Option<Timestamp> {
        match self {
            Epoch::None => None,
            Epoch::All(time) | Epoch::Latest(time) => Some(time),
        }
    }

    /// Mount options under which all changes get this time.
    pub(crate) fn mount_options(self) -> MountOptions {
        match self.time() {
            None => MountOptions::default(),
            Some(time) => MountOptions::default().at_time(time),
        }
    }
}

fn of_seconds(seconds: u64) -> Timestamp {
    Timestamp::new(clamp_i64(seconds), 0)
}
