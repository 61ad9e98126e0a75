//! Rows of the table of words.

use super::super::fields::MountOptions;
use crate::types::error::Result;

/// What a word of the options does.
pub(in crate::types::options) enum WordAction {
    /// Sets a field to a constant.
    Flag(fn(&mut MountOptions)),
    /// Sets a field to the value behind `=`: the value's name in help pages, and the setter. The
    /// setter gets the word, for errors, and the value.
    Value(
        &'static str,
        fn(&mut MountOptions, &str, &str) -> Result<()>,
    ),
    /// Accepted without effect.
    Nothing,
    /// None, for any value.
    NothingBehind,
}

pub(in crate::types::options) struct Form {
    /// The word, or its part before `=`, or its prefix.
    pub(in crate::types::options) name: &'static str,
    pub(in crate::types::options) kind: WordAction,
}

/// Words for one setting.
pub(in crate::types::options) struct Row {
    pub(in crate::types::options) forms: &'static [Form],
    pub(in crate::types::options) about: &'static str,
}

/// Rows under one heading.
pub(in crate::types::options) struct Section {
    pub(in crate::types::options) title: &'static str,
    pub(in crate::types::options) rows: &'static [Row],
}

pub(super) const fn flag(name: &'static str, set: fn(&mut MountOptions)) -> Form {
    let kind = WordAction::Flag(set);
    Form { name, kind }
}

pub(super) const fn value(
    name: &'static str,
    shown: &'static str,
    set: fn(&mut MountOptions, &str, &str) -> Result<()>,
) -> Form {
    let kind = WordAction::Value(shown, set);
    Form { name, kind }
}

pub(super) const fn nothing(name: &'static str) -> Form {
    let kind = WordAction::Nothing;
    Form { name, kind }
}

pub(super) const fn row(forms: &'static [Form], about: &'static str) -> Row {
    Row { forms, about }
}
