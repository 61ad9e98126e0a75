//! Mode syntax of `chmod`: octal numbers, and changes such as `u+x,go-w`.

use crate::numbers;
use std::str::FromStr;

/// A change of permission bits.
#[derive(Clone, Debug)]
pub(super) enum Mode {
    Octal(u16),
    Changes(Vec<Change>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// Mode bits of the classes in this clause: owner, group, others.
    classes: u16,
    how: How,
    /// Permission bits for all classes; `classes` masks them.
    bits: u16,
    /// `X`: execute for directories, and for files that have any execute bit.
    search: bool,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Add,
    Take,
    Set,
}

const OWNER: u16 = 0o4700;
const GROUP: u16 = 0o2070;
const OTHERS: u16 = 0o1007;
const ALL: u16 = 0o7777;

impl Mode {
    /// The mode after the change; `X` depends on `is_dir`.
    pub(super) fn apply(&self, mode: u16, is_dir: bool) -> u16 {
        match self {
            Mode::Octal(mode) => *mode,
            Mode::Changes(changes) => changes.iter().fold(mode, |mode, c| c.apply(mode, is_dir)),
        }
    }
}

impl Change {
    fn apply(&self, mode: u16, is_dir: bool) -> u16 {
        let search = self.search && (is_dir || mode & 0o111 != 0);
        let bits = (self.bits | if search { 0o111 } else { 0 }) & self.classes;
        match self.how {
            How::Add => mode | bits,
            How::Take => mode & !bits,
            How::Set => mode & !self.classes | bits,
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return numbers::octal_mode(text).map(Mode::Octal);
        }
        Ok(Mode::Changes(
            text.split(',').map(change).collect::<Result<_, _>>()?,
        ))
    }
}

fn change(text: &str) -> Result<Change, String> {
    let bad = || format!("{text:?} is no mode; examples: 644, u+x, go-w, a=rX");
    let at = text.find(['+', '-', '=']).ok_or_else(bad)?;
    let (classes, rest) = text.split_at(at);
    let mut letters = rest.chars();
    let how = match letters.next() {
        Some('+') => How::Add,
        Some('-') => How::Take,
        _ => How::Set,
    };
    let mut change = Change {
        classes: 0,
        how,
        bits: 0,
        search: false,
    };
    for letter in classes.chars() {
        change.classes |= match letter {
            'u' => OWNER,
            'g' => GROUP,
            'o' => OTHERS,
            'a' => ALL,
            _ => return Err(bad()),
        };
    }
    if classes.is_empty() {
        change.classes = ALL;
    }
    for letter in letters {
        match letter {
            'r' => change.bits |= 0o444,
            'w' => change.bits |= 0o222,
            'x' => change.bits |= 0o111,
            's' => change.bits |= 0o6000,
            't' => change.bits |= 0o1000,
            'X' => change.search = true,
            _ => return Err(bad()),
        }
    }
    Ok(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_change_as_with_chmod() {
        let apply = |text: &str, mode, is_dir| text.parse::<Mode>().unwrap().apply(mode, is_dir);
        assert_eq!(apply("640", 0o777, false), 0o640);
        assert_eq!(apply("u+x,go-w", 0o666, false), 0o744);
        assert_eq!(apply("a=rX", 0o700, true), 0o555);
        assert_eq!(apply("a=rX", 0o600, false), 0o444);
        assert_eq!(apply("u+s", 0o755, false), 0o4755);
        assert_eq!(apply("g=", 0o2775, true), 0o705);
        assert_eq!(apply("+t", 0o777, true), 0o1777);
        for bad in ["", "x", "z+r", "u*r", "9", "77777"] {
            assert!(bad.parse::<Mode>().is_err(), "{bad}");
        }
    }
}
