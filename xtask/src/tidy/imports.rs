//! Imports between the files of a crate.
//!
//! An import is a path of a `use` declaration or of an expression that leads to another file: one
//! that begins with `crate`, `super` or `self`, with a child module, or with a module that a `use`
//! of the file names. An item that a file re-exports belongs to the file that declares it.
//!
//! Not imports: `mod x;`, a re-export (`pub use`) of a name that the file itself does not use,
//! calls of methods, test code.

mod file;

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;
use file::{Declaration, File};

/// Limit on re-exports of re-exports, also of those that refer to each other.
const REEXPORTS_MAX: usize = 8;

/// The files of a crate and what each of them imports.
pub(super) struct Imports {
    /// Paths relative to the repository.
    pub(super) files: Vec<String>,
    /// For each file the positions of the files that it imports.
    pub(super) edges: Vec<BTreeSet<usize>>,
}

/// The imports of the crate with its root in `dir`, which ends with `src/`.
pub(super) fn find(dir: &str, sources: &[Source]) -> Imports {
    let has_library = sources.iter().any(|one| one.path == format!("{dir}lib.rs"));
    let sources = sources.iter().filter(|source| !source.is_test());
    let files = sources.filter_map(|source| File::new(dir, source, has_library));
    let files = without_test_modules(files.collect());
    let tree = Tree::of(&files);
    let edges = (0..files.len()).map(|at| tree.imports(at)).collect();
    let files = files.iter().map(|file| file.path.to_owned()).collect();
    Imports { files, edges }
}

/// The files that no `#[cfg(test)] mod x;` declares.
fn without_test_modules(files: Vec<File<'_>>) -> Vec<File<'_>> {
    let gated: BTreeSet<Vec<&str>> = files.iter().flat_map(File::test_modules).collect();
    files
        .into_iter()
        .filter(|file| !gated.iter().any(|test| file.module.starts_with(test)))
        .collect()
}

/// The modules of a crate.
struct Tree<'f, 'a> {
    files: &'f [File<'a>],
    modules: BTreeMap<Vec<&'a str>, usize>,
}

impl<'f, 'a> Tree<'f, 'a> {
    fn of(files: &'f [File<'a>]) -> Self {
        let modules = files.iter().zip(0..);
        let modules = modules
            .map(|(file, at)| (file.module.clone(), at))
            .collect();
        Self { files, modules }
    }

    fn imports(&self, at: usize) -> BTreeSet<usize> {
        let file = &self.files[at];
        let uses = file
            .uses
            .iter()
            .filter(|one| !one.is_reexport || file.mentions(one.name));
        let uses = uses.filter_map(|one| self.declared(file, one));
        let paths = file.expression_paths().into_iter();
        let paths = paths.filter_map(|(at, path)| self.absolute(file, at, &path));
        let owners = uses
            .chain(paths)
            .filter_map(|path| self.owner(&path, REEXPORTS_MAX));
        owners.filter(|owner| *owner != at).collect()
    }

    fn declared(&self, file: &File<'a>, one: &Declaration<'a>) -> Option<Vec<&'a str>> {
        let path = &one.path;
        file.absolute_path(one.at, path)
            .or_else(|| self.below(file, path))
    }

    /// The path from the root of a path that begins with a child module.
    fn below(&self, file: &File<'a>, path: &[&'a str]) -> Option<Vec<&'a str>> {
        let child = [&file.module[..], &path[..1]].concat();
        let is_module = self.modules.contains_key(&child);
        is_module.then(|| [&file.module[..], path].concat())
    }

    /// The path from the root of a path in an expression.
    fn absolute(&self, file: &File<'a>, at: usize, path: &[&'a str]) -> Option<Vec<&'a str>> {
        file.absolute_path(at, path)
            .or_else(|| {
                let one = file.uses.iter().find(|one| one.name == path[0])?;
                let module = self.declared(file, one)?;
                Some([&module[..], &path[1..]].concat())
            })
            .or_else(|| self.below(file, path))
    }

    /// The file that declares the item with this path from the root.
    fn owner(&self, path: &[&'a str], reexports_max: usize) -> Option<usize> {
        let len = (0..=path.len())
            .take_while(|len| self.modules.contains_key(&path[..*len]))
            .last()?;
        let at = *self.modules.get(&path[..len])?;
        let file = &self.files[at];
        let Some(name) = path.get(len).filter(|name| !file.items.contains(*name)) else {
            return Some(at);
        };
        let left = reexports_max.checked_sub(1)?;
        let named = file
            .uses
            .iter()
            .filter(|one| one.name == *name || one.name == "*");
        Some(
            named
                .filter_map(|one| {
                    let target = self.declared(file, one)?;
                    let rest = if one.name == "*" { len } else { len + 1 };
                    let target = [&target[..], &path[rest..]].concat();
                    let owner = self.owner(&target, left)?;
                    (one.name != "*" || self.files[owner].items.contains(name)).then_some(owner)
                })
                .next()
                .unwrap_or(at),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Edges as names of files, `from>to`.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source::new(&format!("crates/a/src/{path}"), text))
            .collect();
        let found = find("crates/a/src/", &sources);
        let name = |at: usize| found.files[at].strip_prefix("crates/a/src/").unwrap();
        let edges = found.edges.iter().enumerate();
        edges
            .flat_map(|(from, to)| to.iter().map(move |to| (from, *to)))
            .map(|(from, to)| format!("{}>{}", name(from), name(to)))
            .collect()
    }

    #[test]
    fn declarations_and_paths_are_imports() {
        let root = ("lib.rs", "mod a;\nmod b;\nmod c;\n");
        let a = ("a/mod.rs", "use crate::{b::{B, inner::X as Y}, c};\n");
        let b = ("b.rs", "fn f(x: crate::c::C) { super::a::g() }\n");
        let found = edges(&[root, a, b, ("b/inner.rs", "pub struct X;"), ("c.rs", "")]);
        let expected = ["a/mod.rs>b.rs", "a/mod.rs>b/inner.rs", "a/mod.rs>c.rs"];
        assert_eq!(found[..3], expected);
        assert_eq!(found[3..], ["b.rs>a/mod.rs", "b.rs>c.rs"]);
    }

    #[test]
    fn a_reexported_item_belongs_to_its_file() {
        let root = (
            "lib.rs",
            "mod a;\nmod b;\npub use a::{A, other::*};\npub struct Own;\n",
        );
        let a = ("a/mod.rs", "mod other;\npub use self::other::O as A;\n");
        let b = (
            "b.rs",
            "use crate::{A, P};\nuse crate::Own;\nuse crate::a;\nfn f(x: a::A) {}",
        );
        let found = edges(&[root, a, ("a/other.rs", "struct O;\nstruct P;"), b]);
        assert_eq!(found, ["b.rs>lib.rs", "b.rs>a/mod.rs", "b.rs>a/other.rs"]);
    }

    #[test]
    fn a_reexport_is_an_import_where_its_name_is_used() {
        let used = "mod a;\nmod b;\npub use a::A;\npub use b::B;\nfn f(x: A) {}\n";
        let files = [
            ("lib.rs", used),
            ("a.rs", "struct A;"),
            ("b.rs", "struct B;"),
        ];
        assert_eq!(edges(&files), ["lib.rs>a.rs"]);
    }

    #[test]
    fn a_child_imports_from_its_parent_and_a_parent_from_its_child() {
        let parent = ("a.rs", "mod child;\nfn f() { child::g() }\n");
        let child = (
            "a/child.rs",
            "use super::f;\nmod inner {\n use super::g;\n}\n",
        );
        let found = edges(&[("lib.rs", "mod a;\n"), parent, child]);
        assert_eq!(found, ["a.rs>a/child.rs", "a/child.rs>a.rs"]);
    }

    #[test]
    fn tests_and_other_crates_are_no_imports() {
        let root = ("lib.rs", "mod a;\n#[cfg(test)]\npub(crate) mod rig;\n");
        let a = "use std::fs;\nuse other::lib::X;\n#[cfg(test)]\nuse crate::b::B;\n\
            // crate::b\npub(in crate::b) struct A;\n\
            #[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n";
        let rig = ("rig/mod.rs", "use crate::a::A;");
        assert!(edges(&[root, ("a.rs", a), ("b.rs", "struct B;"), rig]).is_empty());
    }
}
