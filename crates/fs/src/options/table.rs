//! Every word of `mount -o`: the one table that the parser goes by and help pages are made from.
//!
//! References: kernel documentation, `admin-guide/ext4`; man page `ext4(5)`.

mod behaviour;
mod inert;
mod space;

use super::MountOptions;
use crate::Result;
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

/// What a word does.
pub(super) enum Kind {
    /// Sets something.
    Flag(fn(&mut MountOptions)),
    /// Sets something to what stands behind `=`: how help calls that, and how it is set. Gets the
    /// name, for errors, and the value.
    Value(
        &'static str,
        fn(&mut MountOptions, &str, &str) -> Result<()>,
    ),
    /// Changes nothing.
    Nothing,
    /// Changes nothing, whatever follows.
    NothingBehind,
}

/// One word.
pub(super) struct Form {
    /// The word, or what stands before `=`, or what it begins with.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// Words about one thing.
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
