//! Table of all words of `mount -o`, for the parser and the help pages.
//!
//! References: kernel documentation, `admin-guide/ext4`; man page `ext4(5)`.

mod behaviour;
mod inert;
mod row;
mod space;

pub(super) use inert::REFUSED;
pub(super) use row::{Form, Row, Section, WordAction};

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
