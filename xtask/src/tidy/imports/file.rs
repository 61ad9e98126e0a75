//! One file of a crate: its `use` declarations, the paths in its code, the names it declares.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::tidy::source::Source;
use crate::tidy::tokens::{Token, end_of_braces, is_word, tokens};

/// One file of the crate.
pub(super) struct File<'a> {
    pub(super) path: &'a str,
    /// Names of modules from the root down to the file's own; none for the root.
    pub(super) module: Vec<&'a str>,
    tokens: Vec<Token<'a>>,
    pub(super) uses: Vec<Declaration<'a>>,
    /// Names that the file declares.
    pub(super) items: BTreeSet<&'a str>,
    /// Ranges of tokens of `use` declarations.
    use_ranges: Vec<Range<usize>>,
    /// Ranges of tokens of modules inside the file.
    inline_modules: Vec<Range<usize>>,
}

/// One path of a `use` declaration.
pub(super) struct Declaration<'a> {
    pub(super) path: Vec<&'a str>,
    /// Name in this file; `*` for all names of the path.
    pub(super) name: &'a str,
    pub(super) is_reexport: bool,
    /// Position of its `use`.
    pub(super) at: usize,
}

const ITEMS: [&str; 9] = [
    "struct", "enum", "trait", "fn", "type", "const", "static", "union", "mod",
];

impl<'a> File<'a> {
    pub(super) fn new(dir: &str, source: &'a Source, has_library: bool) -> Option<Self> {
        let inside = source.path.strip_prefix(dir)?.strip_suffix(".rs")?;
        let root = if has_library { "lib" } else { "main" };
        let inside = inside.strip_suffix("/mod").unwrap_or(inside);
        let mut file = Self {
            path: &source.path,
            module: inside.split('/').filter(|part| *part != root).collect(),
            tokens: tokens(source),
            uses: Vec::new(),
            items: BTreeSet::new(),
            use_ranges: Vec::new(),
            inline_modules: Vec::new(),
        };
        file.read();
        Some(file)
    }

    fn read(&mut self) {
        for at in 0..self.tokens.len() {
            let text = self.text(at);
            if text == "use" && self.is_declaration(at) {
                self.read_use(at);
            } else if ITEMS.contains(&text) {
                self.items.insert(self.text(at + 1));
            }
            if text == "mod" && self.text(at + 2) == "{" {
                self.inline_modules
                    .push(at..end_of_braces(&self.tokens, at + 2));
            }
        }
    }

    /// Reads the declaration whose `use` is at `at`.
    fn read_use(&mut self, at: usize) {
        let end = (at..self.tokens.len()).find(|end| self.text(*end) == ";");
        self.use_ranges.push(at..end.unwrap_or(self.tokens.len()));
        if self.is_gated(at) {
            return;
        }
        let is_reexport = self.start_of_item(at) < at;
        let mut tree = UseTree {
            file: self,
            at: at + 1,
            found: Vec::new(),
        };
        tree.read(&[]);
        let found = tree.found;
        self.uses
            .extend(found.into_iter().map(|(path, name)| Declaration {
                path,
                name,
                is_reexport,
                at,
            }));
    }

    /// True if the file has `name` outside of `use` declarations.
    pub(super) fn mentions(&self, name: &str) -> bool {
        (0..self.tokens.len()).any(|at| {
            self.text(at) == name && !self.use_ranges.iter().any(|range| range.contains(&at))
        })
    }

    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// The text of the token that is `back` tokens before `at`.
    fn before(&self, at: usize, back: usize) -> &'a str {
        at.checked_sub(back).map_or("", |at| self.text(at))
    }

    /// False for the `use<…>` of a bound.
    fn is_declaration(&self, at: usize) -> bool {
        self.text(at + 1) != "<"
    }

    /// The position of the visibility before the keyword at `at`, or `at` without one.
    fn start_of_item(&self, at: usize) -> usize {
        if self.before(at, 1) == "pub" {
            return at - 1;
        }
        (4..12)
            .find(|back| self.before(at, *back) == "pub" && self.before(at, 1) == ")")
            .filter(|back| {
                (2..*back).all(|inner| !matches!(self.before(at, inner), ";" | "}" | "{"))
            })
            .map_or(at, |back| at - back)
    }

    /// True if `#[cfg(test)]` is before the item whose keyword is at `at`.
    fn is_gated(&self, at: usize) -> bool {
        let start = self.start_of_item(at);
        let gate = ["]", ")", "test", "(", "cfg", "[", "#"];
        gate.iter()
            .zip(1..)
            .all(|(text, back)| self.before(start, back) == *text)
    }

    /// True for the path of `pub(in path)`.
    fn is_visibility(&self, at: usize) -> bool {
        let before = ["in", "(", "pub"];
        before
            .iter()
            .zip(1..)
            .all(|(text, back)| self.before(at, back) == *text)
    }

    /// Modules that the file declares for tests only.
    pub(super) fn test_modules(&self) -> Vec<Vec<&'a str>> {
        let modules =
            (0..self.tokens.len()).filter(|at| self.text(*at) == "mod" && self.is_gated(*at));
        modules
            .map(|at| [&self.module[..], &[self.text(at + 1)]].concat())
            .collect()
    }

    /// Paths in expressions and types, and the positions of their first tokens.
    pub(super) fn expression_paths(&self) -> Vec<(usize, Vec<&'a str>)> {
        let mut paths = Vec::new();
        for at in 0..self.tokens.len() {
            let is_start = self.text(at + 1) == "::"
                && self.text(at).starts_with(is_word)
                && self.before(at, 1) != "::"
                && !self.is_visibility(at);
            if is_start && !self.use_ranges.iter().any(|range| range.contains(&at)) {
                let rest = (at + 1..)
                    .step_by(2)
                    .take_while(|at| self.text(*at) == "::");
                let rest = rest
                    .map(|at| self.text(at + 1))
                    .take_while(|one| one.starts_with(is_word));
                paths.push((at, std::iter::once(self.text(at)).chain(rest).collect()));
            }
        }
        paths
    }

    /// The path from the root of the crate of `path`, which is at token `at`; `None` if it does
    /// not begin with `crate`, `self` or `super`.
    pub(super) fn absolute_path(&self, at: usize, path: &[&'a str]) -> Option<Vec<&'a str>> {
        let inline = self
            .inline_modules
            .iter()
            .filter(|range| range.contains(&at))
            .count();
        match *path.first()? {
            "crate" => Some(path[1..].to_vec()),
            "self" | "super" => {
                let rest = &path[usize::from(path[0] == "self")..];
                let supers = rest.iter().take_while(|one| **one == "super").count();
                let depth = (self.module.len() + inline)
                    .checked_sub(supers)?
                    .min(self.module.len());
                Some([&self.module[..depth], &rest[supers..]].concat())
            }
            _ => None,
        }
    }
}

/// Reads the paths of one `use` declaration.
struct UseTree<'f, 'a> {
    file: &'f File<'a>,
    at: usize,
    found: Vec<(Vec<&'a str>, &'a str)>,
}

impl<'a> UseTree<'_, 'a> {
    fn next(&mut self) -> &'a str {
        self.at += 1;
        self.file.text(self.at - 1)
    }

    /// Reads one tree that continues `prefix`, up to the `,`, `}` or `;` after it.
    fn read(&mut self, prefix: &[&'a str]) {
        let mut path = prefix.to_vec();
        loop {
            match self.next() {
                "::" => {}
                "{" => return self.read_list(&path),
                "as" => {
                    let name = self.next();
                    return self.found.push((path, name));
                }
                "*" => return self.found.push((path, "*")),
                "self" if !path.is_empty() => {}
                word if word.starts_with(is_word) => path.push(word),
                _ => {
                    self.at -= 1;
                    let name = path.last().copied().unwrap_or_default();
                    return self.found.push((path, name));
                }
            }
        }
    }

    fn read_list(&mut self, path: &[&'a str]) {
        while self.at < self.file.tokens.len() {
            match self.file.text(self.at) {
                "}" => {
                    self.at += 1;
                    return;
                }
                "," => self.at += 1,
                _ => self.read(path),
            }
        }
    }
}
