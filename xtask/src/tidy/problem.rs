//! What a rule complains about.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    /// File, relative to the repository.
    pub(super) file: String,
    /// Line from 1, 0 for the whole file.
    pub(super) line: usize,
    /// The problem and its remedy.
    pub(super) what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}
