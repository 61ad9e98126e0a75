//! SELinux labels by path: the format `file_contexts`.
//!
//! A line is `PATTERN [TYPE] LABEL`: a regular expression for the whole path with its leading `/`;
//! `--`, `-d`, `-l`, `-c`, `-b`, `-p` or `-s` for one type; `<<none>>` for no label. A pattern
//! without special characters but escaped ones wins over all others, else the last line that
//! matches.
//! Mechanism: lines are found by the first name of the path, where their pattern begins with one.
//! Reference: selabel_file(5).

use crate::fault::{Checked, Fault, shown};
use regex::bytes::{Regex, RegexBuilder};
use std::collections::HashMap;
use uext4_builder::{Node, Result};

const ADVICE: &str = "write lines of PATTERN [TYPE] LABEL, as in file_contexts of a policy";
const SPECIAL: &[u8] = b".^$?*+|[({\\";

/// SELinux labels by path, as `file_contexts` of a policy lists them.
#[derive(Debug)]
pub struct FileContexts {
    lines: Vec<Line>,
    /// Lines, ascending, by the first name of their paths; those of any name are under none.
    by_first: HashMap<Vec<u8>, Vec<usize>>,
}

#[derive(Debug)]
struct Line {
    pattern: Regex,
    is_literal: bool,
    kind: Option<u8>,
    label: Option<Vec<u8>>,
}

impl FileContexts {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// A line that is none, or a pattern that is no regular expression, with its number.
    pub fn parse(name: &str, text: &[u8]) -> Result<FileContexts> {
        let mut contexts = FileContexts {
            lines: Vec::new(),
            by_first: HashMap::new(),
        };
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let added = contexts.add(line.trim_ascii());
            added.map_err(|fault| fault.about(&format!("line {}", index + 1)).of_source(name))?;
        }
        Ok(contexts)
    }

    fn add(&mut self, line: &[u8]) -> Checked<()> {
        let words: Vec<&[u8]> = line
            .split(|byte| matches!(byte, b' ' | b'\t'))
            .filter(|word| !word.is_empty())
            .collect();
        let (pattern, kind, label) = match words[..] {
            [] | [[b'#', ..], ..] => return Ok(()),
            [pattern, label] => (pattern, None, label),
            [pattern, kind, label] => (pattern, Some(kind_of(kind)?), label),
            _ => return Err(Fault::refused("has neither two nor three words", ADVICE)),
        };
        let index = self.lines.len();
        self.lines.push(Line {
            is_literal: is_literal(pattern),
            pattern: compiled(pattern)?,
            kind,
            label: (label != b"<<none>>").then(|| [label, b"\0"].concat()),
        });
        let first = first_name(pattern).unwrap_or_default().to_vec();
        self.by_first.entry(first).or_default().push(index);
        Ok(())
    }

    /// The value of `security.selinux` for a file, with its zero byte.
    #[must_use]
    pub fn label(&self, path: &[u8], node: &Node<'_>) -> Option<&[u8]> {
        let path = [b"/", path].concat();
        let kind = letter(node);
        let first = path.split(|byte| *byte == b'/').nth(1).unwrap_or_default();
        let some = self.by_first.get(first).into_iter();
        let any = self.by_first.get(&b""[..]).filter(|_| !first.is_empty());
        let indexes = some.chain(any).flatten();
        let candidates = indexes.map(|index| (&self.lines[*index], *index));
        let matching = candidates.filter(|(line, _)| {
            line.kind.is_none_or(|wanted| wanted == kind) && line.pattern.is_match(&path)
        });
        let best = matching.max_by_key(|(line, index)| (line.is_literal, *index));
        best?.0.label.as_deref()
    }
}

/// Whether a pattern matches one path: each special character is behind a backslash.
fn is_literal(pattern: &[u8]) -> bool {
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            _ if SPECIAL.contains(byte) => return false,
            _ => {}
        }
    }
    true
}

/// Bytes, not characters; a dot is every byte.
fn compiled(pattern: &[u8]) -> Checked<Regex> {
    let text = str::from_utf8(pattern).ok();
    let whole = text.map(|text| format!(r"\A(?:{text})\z"));
    let regex = whole.and_then(|whole| {
        let mut builder = RegexBuilder::new(&whole);
        let builder = builder.unicode(false).dot_matches_new_line(true);
        builder.build().ok()
    });
    regex.ok_or_else(|| {
        let problem = format!("has the pattern {}, which is none", shown(pattern));
        Fault::refused(problem, ADVICE)
    })
}

/// The first name of all paths that a pattern matches, if it says one: `/etc/...`, not `/e?tc`.
fn first_name(pattern: &[u8]) -> Option<&[u8]> {
    let rest = pattern.strip_prefix(b"/")?;
    if pattern.contains(&b'|') {
        return None;
    }
    let end = rest
        .iter()
        .position(|byte| *byte == b'/' || SPECIAL.contains(byte));
    match end {
        None => Some(rest),
        Some(end)
            if rest[end] == b'/' && !matches!(rest.get(end + 1), Some(b'?' | b'*' | b'{')) =>
        {
            Some(&rest[..end])
        }
        // `/etc(/.*)?` is a directory and all in it.
        Some(end) if rest[end..].starts_with(b"(/") => Some(&rest[..end]),
        Some(_) => None,
    }
}

fn kind_of(word: &[u8]) -> Checked<u8> {
    match word {
        [
            b'-',
            kind @ (b'-' | b'd' | b'l' | b'c' | b'b' | b'p' | b's'),
        ] => Ok(*kind),
        _ => {
            let problem = format!("has the type {}, which is none", shown(word));
            Err(Fault::refused(problem, ADVICE))
        }
    }
}

/// The letter of a type; a hard link gets the label of its first name.
fn letter(node: &Node<'_>) -> u8 {
    match node {
        Node::Directory => b'd',
        Node::File(_) | Node::Link(_) => b'-',
        Node::Symlink(_) => b'l',
        Node::CharDevice(_) => b'c',
        Node::BlockDevice(_) => b'b',
        Node::Fifo => b'p',
        Node::Socket => b's',
    }
}
