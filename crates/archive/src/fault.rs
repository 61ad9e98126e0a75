//! Why reading fails, before the place is known: decoders of one field say what is wrong, and the
//! reader of the archive adds which entry at which byte.

use std::io;
use uext4_builder::Error;

/// Longest part of a name that a message shows, in characters.
const SHOWN_MAX_CHARS: usize = 200;

/// Result of a decoder, before the problem gets its place in the archive.
pub(crate) type Checked<T> = std::result::Result<T, Fault>;

/// A problem of an archive, or of reading it.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The system or a decoder could not read.
    Read(io::Error),
    /// The contents are not acceptable.
    Refused(Refusal),
    /// The sink refused an entry; it knows its own places.
    Sink(Error),
}

/// A rule that contents break. It travels through [`io::Error`] where a reader finds it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{problem}; {advice}")]
pub(crate) struct Refusal {
    /// What is wrong, as the predicate of a sentence or as a whole one.
    pub(crate) problem: String,
    /// What the user can do about it.
    pub(crate) advice: &'static str,
}

/// The caller has ended the reading of a stream. It travels as [`Refusal`] does.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("cancelled")]
pub(crate) struct Cancelled;

/// Advice for an archive whose bytes contradict themselves.
pub(crate) const DAMAGED: &str = "the archive is damaged or not complete: copy or make it again";
/// Advice for a form that this reader does not know.
pub(crate) const UNKNOWN_FORM: &str =
    "make the archive again with GNU tar --format=posix or bsdtar --format=pax";

impl Fault {
    /// Contents that break a rule.
    pub(crate) fn refused(problem: impl Into<String>, advice: &'static str) -> Fault {
        Fault::Refused(Refusal {
            problem: problem.into(),
            advice,
        })
    }

    /// Puts a subject in front of a refusal: `the entry x at byte 512` + `has no name`.
    pub(crate) fn about(self, subject: &str) -> Fault {
        match self {
            Fault::Refused(refusal) => {
                Fault::refused(format!("{subject} {}", refusal.problem), refusal.advice)
            }
            other => other,
        }
    }

    /// The error for the user, with the name that the user gave to the source.
    pub(crate) fn of_source(self, source_name: &str) -> Error {
        let source_name = source_name.to_owned();
        match self {
            Fault::Read(error) => Error::Source { source_name, error },
            Fault::Refused(Refusal { problem, advice }) => Error::Refused {
                source_name,
                problem,
                advice,
            },
            Fault::Sink(error) => error,
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        let inner = error.get_ref();
        if inner.is_some_and(|inner| inner.is::<Cancelled>()) {
            return Fault::Sink(Error::Cancelled);
        }
        match inner.and_then(|inner| inner.downcast_ref::<Refusal>()) {
            Some(refusal) => Fault::Refused(refusal.clone()),
            None => Fault::Read(error),
        }
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> io::Error {
        match fault {
            Fault::Read(error) => error,
            Fault::Refused(refusal) => io::Error::new(io::ErrorKind::InvalidData, refusal),
            Fault::Sink(error) => io::Error::other(error),
        }
    }
}

/// A name of an archive for a message: without control characters, and not too long.
pub(crate) fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let mut short: String = text.chars().take(SHOWN_MAX_CHARS).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short.escape_debug().to_string()
}
