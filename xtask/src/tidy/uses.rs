//! Uses between the modules of a crate, as its sources name them.
//!
//! A use is a path from the root of the crate, also one that begins with `super` or goes through a
//! name that the root exports, and a call of a method of `Fs`, whose `impl` blocks are in many
//! modules. Test code is skipped.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;
use super::tokens::{Token, end_of_braces, is_word, tokens};

/// The type whose methods are found by their calls: its values are called `fs`, or `self` in its
/// own `impl` blocks.
const SHARED: &str = "Fs";
const SHARED_VALUE: &str = "fs";

/// Folders of modules: a path to a module goes through its layer.
pub(super) const LAYERS: [&str; 5] = ["types", "cache", "state", "parts", "api"];

/// One use of a module by another one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Use {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) file: String,
    pub(super) line: usize,
    /// The name in the source.
    pub(super) name: String,
}

/// All uses in the crate with its root in `dir`.
pub(super) fn find(dir: &str, sources: &[Source]) -> Vec<Use> {
    let files: Vec<File<'_>> = sources
        .iter()
        .filter(|source| !source.is_test())
        .filter_map(|source| File::new(dir, source))
        .collect();
    let names = Names::of(&files);
    files.iter().flat_map(|file| names.uses(file)).collect()
}

/// One file of the crate, in tokens.
struct File<'a> {
    path: &'a str,
    /// Modules from the root down to the file's own; none for the root.
    modules: Vec<&'a str>,
    tokens: Vec<Token<'a>>,
}

impl<'a> File<'a> {
    fn new(dir: &str, source: &'a Source) -> Option<Self> {
        let inside = source.path.strip_prefix(dir)?.strip_suffix(".rs")?;
        let inside = inside.strip_suffix("/mod").unwrap_or(inside);
        let modules = inside.split('/').filter(|part| *part != "lib").collect();
        Some(Self {
            path: &source.path,
            modules,
            tokens: tokens(source),
        })
    }

    /// Its module below the layer.
    fn module(&self) -> Option<&'a str> {
        let first = *self.modules.first()?;
        if LAYERS.contains(&first) {
            self.modules.get(1).copied()
        } else {
            Some(first)
        }
    }

    fn text(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn is(&self, at: usize, texts: &[&str]) -> bool {
        texts
            .iter()
            .zip(at..)
            .all(|(text, at)| self.text(at) == *text)
    }

    /// The first names of the paths from the root of the crate, as positions of their tokens.
    fn root_names(&self) -> Vec<usize> {
        let mut names = Vec::new();
        for at in 0..self.tokens.len() {
            let is_inner = at > 0 && self.text(at - 1) == "::";
            if let Some(after) = self.root_path(at).filter(|_| !is_inner) {
                let first = self.first_names(after);
                names.extend(first.into_iter().flat_map(|at| self.below_layer(at)));
            }
        }
        names
    }

    /// The names of modules behind that of a layer; the name itself if it is no layer.
    fn below_layer(&self, at: usize) -> Vec<usize> {
        if LAYERS.contains(&self.text(at)) && self.text(at + 1) == "::" {
            self.first_names(at + 2)
        } else {
            vec![at]
        }
    }

    /// If a path to the root begins at `at`, the token after its `::`.
    fn root_path(&self, at: usize) -> Option<usize> {
        if self.is(at, &["crate", "::"]) {
            return Some(at + 2);
        }
        let supers = (0..).take_while(|step| self.is(at + 2 * step, &["super", "::"]));
        let supers = supers.count();
        (supers > 0 && supers == self.modules.len()).then_some(at + 2 * supers)
    }

    /// The first name of each path of a `use` tree.
    fn first_names(&self, at: usize) -> Vec<usize> {
        if self.text(at) != "{" {
            return vec![at];
        }
        let mut names = vec![at + 1];
        let mut depth = 0;
        for index in at..end_of_braces(&self.tokens, at) {
            match self.text(index) {
                "{" => depth += 1,
                "}" => depth -= 1,
                "," if depth == 1 => names.push(index + 1),
                _ => {}
            }
        }
        names
    }

    /// Ranges of tokens of the `impl` blocks of [`SHARED`].
    fn shared_blocks(&self) -> Vec<std::ops::Range<usize>> {
        let blocks = (0..self.tokens.len()).filter(|at| self.text(*at) == "impl");
        let opens = blocks.filter_map(|at| {
            let path = (at + 1..)
                .take_while(|at| self.text(*at) == "::" || self.text(*at).starts_with(is_word));
            let last = path.last()?;
            self.is(last, &[SHARED, "{"]).then_some(last + 1)
        });
        opens
            .map(|at| at..end_of_braces(&self.tokens, at))
            .collect()
    }

    /// Names of the functions declared in these tokens.
    fn functions(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = &'a str> {
        range
            .filter(|at| self.text(*at) == "fn")
            .map(|at| self.text(at + 1))
    }
}

/// Where names of the crate lead.
struct Names<'a> {
    modules: BTreeSet<&'a str>,
    /// Names that the root exports, and their modules.
    exports: BTreeMap<&'a str, &'a str>,
    /// Methods of [`SHARED`], and the modules of their `impl` blocks.
    methods: BTreeMap<&'a str, &'a str>,
}

impl<'a> Names<'a> {
    fn of(files: &[File<'a>]) -> Self {
        let modules: BTreeSet<&str> = files.iter().filter_map(File::module).collect();
        let mut names = Self {
            modules,
            exports: BTreeMap::new(),
            methods: BTreeMap::new(),
        };
        for file in files {
            match file.module() {
                None => names.add_exports(file),
                Some(module) => {
                    let blocks = file.shared_blocks().into_iter();
                    let methods = blocks.flat_map(|block| file.functions(block));
                    names.methods.extend(methods.map(|name| (name, module)));
                }
            }
        }
        names
    }

    fn add_exports(&mut self, root: &File<'a>) {
        for at in 0..root.tokens.len() {
            let is_layer = LAYERS.contains(&root.text(at + 1));
            let module = root.text(if is_layer { at + 3 } else { at + 1 });
            if root.text(at) != "use" || !self.modules.contains(module) {
                continue;
            }
            let names = (at + 2..root.tokens.len()).map(|at| root.text(at));
            let names = names.take_while(|text| *text != ";");
            let names = names.filter(|text| text.starts_with(is_word));
            self.exports.extend(names.map(|name| (name, module)));
        }
    }

    fn uses(&self, file: &File<'_>) -> Vec<Use> {
        let Some(from) = file.module() else {
            return Vec::new();
        };
        let paths = file.root_names().into_iter().filter_map(|at| {
            let name = file.text(at);
            let module = self.modules.get(name);
            Some((at, *module.or_else(|| self.exports.get(name))?))
        });
        let calls = self.calls(file);
        let all = paths.chain(calls).filter(|(_, to)| *to != from);
        all.map(|(at, to)| Use {
            from: from.to_owned(),
            to: to.to_owned(),
            file: file.path.to_owned(),
            line: file.tokens[at].line,
            name: file.text(at).to_owned(),
        })
        .collect()
    }

    /// Calls of methods of [`SHARED`]: the position of the name, and the module of the method.
    fn calls(&self, file: &File<'_>) -> Vec<(usize, &'a str)> {
        let own = file.shared_blocks();
        let local: BTreeSet<&str> = file.functions(0..file.tokens.len()).collect();
        (0..file.tokens.len())
            .filter_map(|at| {
                let (value, name) = (file.text(at), file.text(at + 2));
                let is_call = file.text(at + 1) == "." && file.text(at + 3) == "(";
                let is_shared = match value {
                    SHARED_VALUE => true,
                    "self" => own.iter().any(|block| block.contains(&at)) && !local.contains(name),
                    _ => false,
                };
                let to = self.methods.get(name).filter(|_| is_call && is_shared)?;
                Some((at + 2, *to))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(files: &[(&str, &str)]) -> Vec<(String, String, usize)> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source::new(&format!("crates/a/src/{path}"), text))
            .collect();
        let uses = find("crates/a/src/", &sources);
        uses.into_iter()
            .map(|found| (found.from, found.to, found.line))
            .collect()
    }

    fn edge(from: &str, to: &str, line: usize) -> (String, String, usize) {
        (from.into(), to.into(), line)
    }

    const ROOT: (&str, &str) = (
        "lib.rs",
        "mod low;\nmod high;\npub use high::{Top, Other as Ot};",
    );
    const LOW: &str = "low.rs";

    #[test]
    fn paths_from_the_root_are_uses() {
        let high = (
            "high/mod.rs",
            "use crate::low::{A, B};\nuse crate::{low, high::X};",
        );
        let found = edges(&[ROOT, high, (LOW, "")]);
        assert_eq!(found, [edge("high", "low", 1), edge("high", "low", 2)]);
    }

    #[test]
    fn a_layer_is_a_folder_of_modules() {
        let files = [
            ("lib.rs", "pub use types::low::Out;"),
            ("types/low.rs", "use crate::{parts::high, state::base::B};"),
            (
                "state/base.rs",
                "impl crate::types::low::Fs {\n fn go(&self) {}\n}",
            ),
            (
                "parts/high/mod.rs",
                "use crate::Out;\nfn f(fs: &Fs) { fs.go() }",
            ),
        ];
        let expected = [
            edge("low", "high", 1),
            edge("low", "base", 1),
            edge("base", "low", 1),
            edge("high", "low", 1),
            edge("high", "base", 2),
        ];
        assert_eq!(edges(&files), expected);
    }

    #[test]
    fn exports_and_super_hide_nothing() {
        let low = (LOW, "fn a() { crate::Top::new() }\nuse super::Ot;");
        let inner = ("low/inner.rs", "use super::super::high;\nuse super::x;");
        let found = edges(&[ROOT, low, inner, ("high/mod.rs", "")]);
        let to_high = |line| edge("low", "high", line);
        assert_eq!(found, [to_high(1), to_high(2), to_high(1)]);
    }

    #[test]
    fn calls_of_shared_methods_are_uses() {
        let high = ("high/mod.rs", "impl Fs {\n    fn run(&self) {}\n}");
        let low = "fn a(fs: &Fs) { fs\n.run() }\nimpl crate::Fs {\n fn b(&self) { self.run() }\n}";
        let found = edges(&[ROOT, high, (LOW, low)]);
        assert_eq!(found, [edge("low", "high", 2), edge("low", "high", 4)]);
        let other = "struct S;\nimpl S {\n fn run(&self) { self.run(); other.run() }\n}";
        assert_eq!(edges(&[ROOT, high, (LOW, other)]), []);
    }

    #[test]
    fn tests_and_words_use_nothing() {
        let low = "// crate::high\nconst A: &str = \"crate::high\";\n\
            #[cfg(test)]\nmod tests {\n    use crate::high;\n}\n";
        let test = ("low/tests.rs", "use crate::high;");
        assert_eq!(edges(&[ROOT, (LOW, low), test, ("high/mod.rs", "")]), []);
    }
}
