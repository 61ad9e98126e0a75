//! The words of a command, and why it is not run.

use super::parse;
use crate::Error;
use uext4_format::fields::FieldError;
use uext4_num::clamp_usize;

/// Why a command is not run.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The image cannot be read.
    #[error(transparent)]
    Image(#[from] Error),
    /// No such command, or arguments that it does not have.
    #[error("no such command, or not with these words; `help` lists them")]
    Unknown,
    /// A word that is missing or wrong.
    #[error("{0} is expected")]
    Expected(&'static str),
    /// The structure has no such field.
    #[error("{0}: no such field; there are {1}")]
    NoField(String, String),
    /// The field does not take the value.
    #[error("{0}: {1}")]
    Field(String, FieldError),
    /// The text is no value of the field.
    #[error("{0}: {1} is no value of this field")]
    Value(String, String),
    /// The file system has nothing like this.
    #[error("the file system does not have {0} there")]
    Missing(&'static str),
    /// Outside of the file system or of the structure.
    #[error("this is outside of the file system, or of the structure")]
    Outside,
    /// No such path.
    #[error("{0}: no such file")]
    NoFile(String),
    /// A change without permission.
    #[error("the image was opened read-only; -w allows changes")]
    ReadOnly,
}

pub(super) type Found<T> = std::result::Result<T, CommandError>;

/// A command with its words.
#[derive(Clone, Debug)]
pub struct Command {
    words: Vec<String>,
}

impl Command {
    /// The words of a line; `None` for an empty line or a comment (`#`). Quotes keep spaces.
    pub fn parse(line: &str) -> Option<Self> {
        let (mut words, mut word, mut quoted, mut begun) =
            (Vec::new(), String::new(), false, false);
        for c in line.chars() {
            match c {
                '"' => (quoted, begun) = (!quoted, true),
                '#' if !quoted && !begun && words.is_empty() => return None,
                c if c.is_whitespace() && !quoted => {
                    if begun {
                        words.push(std::mem::take(&mut word));
                    }
                    begun = false;
                }
                c => {
                    word.push(c);
                    begun = true;
                }
            }
        }
        if begun {
            words.push(word);
        }
        (!words.is_empty()).then_some(Self { words })
    }

    /// Whether the command changes the image.
    pub fn is_change(&self) -> bool {
        matches!(self.word(0), Some("set" | "mark"))
    }

    pub(super) fn word(&self, at: usize) -> Option<&str> {
        self.words.get(at).map(String::as_str)
    }

    pub(super) fn expect(&self, at: usize, what: &'static str) -> Found<&str> {
        self.word(at).ok_or(CommandError::Expected(what))
    }

    pub(super) fn number(&self, at: usize, what: &'static str) -> Found<u64> {
        parse(self.expect(at, what)?).ok_or(CommandError::Expected(what))
    }

    pub(super) fn index(&self, at: usize, what: &'static str) -> Found<usize> {
        Ok(clamp_usize(self.number(at, what)?))
    }

    /// Fails if there are more words than these.
    pub(super) fn end(&self, words: usize) -> Found<()> {
        match self.word(words) {
            None => Ok(()),
            Some(_) => Err(CommandError::Unknown),
        }
    }

    pub(super) fn unknown<T>(&self) -> Found<T> {
        Err(CommandError::Unknown)
    }
}
