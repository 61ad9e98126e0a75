//! Table of all words of `mount -o`, for the parser and the help pages.
//!
//! References: kernel documentation, `admin-guide/ext4`; man page `ext4(5)`.

mod behaviour;
mod inert;
mod space;

use super::MountOptions;
use crate::types::error::Result;
pub(super) use inert::REFUSED;

/// Every section, in the order of help pages.
pub(super) const TABLE: &[Section] = &[
    behaviour::ACCESS,
    behaviour::TIMES,
    behaviour::DURABILITY,
    behaviour::RIGHTS,
    space::SPACE,
    space::BOUNDS,
    inert::OTHERS,
    inert::IGNORED,
];

/// Effect of a word.
pub(super) enum Kind {
    /// Sets a field.
    Flag(fn(&mut MountOptions)),
    /// Sets a field to the value behind `=`: the value's name in help pages, and the setter. The
    /// setter gets the word, for errors, and the value.
    Value(
        &'static str,
        fn(&mut MountOptions, &str, &str) -> Result<()>,
    ),
    /// None.
    Nothing,
    /// None, for any value.
    NothingBehind,
}

/// One word.
pub(super) struct Form {
    /// The word, or its part before `=`, or its prefix.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// Words for one setting.
pub(super) struct Row {
    pub(super) forms: &'static [Form],
    pub(super) about: &'static str,
}

/// Rows under one heading.
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) rows: &'static [Row],
}

const fn flag(name: &'static str, set: fn(&mut MountOptions)) -> Form {
    let kind = Kind::Flag(set);
    Form { name, kind }
}

const fn value(
    name: &'static str,
    shown: &'static str,
    set: fn(&mut MountOptions, &str, &str) -> Result<()>,
) -> Form {
    let kind = Kind::Value(shown, set);
    Form { name, kind }
}

const fn nothing(name: &'static str) -> Form {
    let kind = Kind::Nothing;
    Form { name, kind }
}

const fn row(forms: &'static [Form], about: &'static str) -> Row {
    Row { forms, about }
}
