//! Figures of the structure of each crate: sizes, the largest import cycle, and how often a form
//! appears that the code avoids. Test code is skipped.
//!
//! Limits: the forms are found by their tokens, so that one in a macro counts as well.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::cycles;
use super::dialect;
use super::source::{self, Source};
use super::tokens::{Token, tokens};

/// Doc comments of so few words repeat the name of their item.
const SHORT_DOC_WORDS: usize = 3;

/// Prints a table of all crates, or JSON.
pub(crate) fn run(root: &Path, as_json: bool) -> Result<()> {
    let sources = source::load(root)?;
    let dirs = cycles::crates(&sources);
    let rows: Vec<Row> = dirs.iter().map(|dir| Row::of(dir, &sources)).collect();
    if as_json {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        let names = Row::default().figures().map(|(name, _)| name);
        println!("{:18} {}", "crate", names.join(" "));
        for row in rows {
            println!("{row}");
        }
    }
    Ok(())
}

/// Figures of one crate.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    dir: String,
    /// Lines of each file, ascending.
    files: Vec<usize>,
    cycle: usize,
    modules: usize,
    forms: Forms,
}

/// Counts of forms that the code avoids.
#[derive(Debug, Default, PartialEq, Eq)]
struct Forms {
    closures: usize,
    flag_matches: usize,
    open_enums: usize,
    vague_functions: usize,
    short_docs: usize,
}

impl Row {
    fn of(dir: &str, sources: &[Source]) -> Self {
        let inside = format!("{dir}/src/");
        let own = sources
            .iter()
            .filter(|one| one.path.starts_with(&inside) && !one.is_test());
        let own: Vec<&Source> = own.collect();
        let mut row = Self {
            dir: dir.to_owned(),
            files: own
                .iter()
                .map(|one| one.lines_outside_tests().count())
                .collect(),
            cycle: cycles::largest(dir, sources).len(),
            ..Self::default()
        };
        row.files.sort_unstable();
        for source in own {
            let tokens = tokens(source);
            if ["lib.rs", "main.rs"]
                .iter()
                .any(|root| source.path == format!("{inside}{root}"))
            {
                row.modules += modules(&tokens);
            }
            row.forms.add(source, &tokens);
        }
        row
    }

    /// The length that `percent` of the files do not exceed.
    fn percentile(&self, percent: usize) -> usize {
        let rank = (self.files.len() * percent).div_ceil(100);
        self.files.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }

    fn figures(&self) -> [(&'static str, usize); 12] {
        [
            ("lines", self.files.iter().sum()),
            ("files", self.files.len()),
            ("median", self.percentile(50)),
            ("p90", self.percentile(90)),
            ("max", self.percentile(100)),
            ("cycle", self.cycle),
            ("modules", self.modules),
            ("closures", self.forms.closures),
            ("flag_matches", self.forms.flag_matches),
            ("open_enums", self.forms.open_enums),
            ("vague_functions", self.forms.vague_functions),
            ("short_docs", self.forms.short_docs),
        ]
    }

    fn json(&self) -> Value {
        let figures = self.figures().into_iter();
        let mut row: serde_json::Map<_, _> = figures
            .map(|(name, figure)| (name.to_owned(), json!(figure)))
            .collect();
        row.insert("crate".into(), json!(self.dir));
        row.into()
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:18}", self.dir)?;
        for (name, figure) in self.figures() {
            write!(f, " {figure:>width$}", width = name.len())?;
        }
        Ok(())
    }
}

impl Forms {
    fn add(&mut self, source: &Source, tokens: &[Token<'_>]) {
        for at in 0..tokens.len() {
            let rest = &tokens[at..];
            self.closures += usize::from(dialect::is_named_closure(rest));
            self.flag_matches += usize::from(dialect::is_bool_match(rest));
            self.open_enums += usize::from(is_open_enum(tokens, at));
            self.vague_functions += usize::from(dialect::is_retired_name(rest));
        }
        self.short_docs += short_docs(source);
    }
}

fn is(tokens: &[Token<'_>], texts: &[&str]) -> bool {
    tokens.len() >= texts.len()
        && tokens
            .iter()
            .zip(texts)
            .all(|(one, text)| one.text == *text)
}

/// Modules that these tokens declare.
fn modules(tokens: &[Token<'_>]) -> usize {
    let declared = tokens.windows(3);
    declared
        .filter(|three| three[0].text == "mod" && three[2].text == ";")
        .count()
}

/// `pub enum` without `#[non_exhaustive]` among its attributes.
fn is_open_enum(tokens: &[Token<'_>], at: usize) -> bool {
    let before = tokens[..at].iter().rev();
    let mut attributes = before.take_while(|one| !matches!(one.text, ";" | "}" | "{"));
    is(&tokens[at..], &["pub", "enum"]) && attributes.all(|one| one.text != "non_exhaustive")
}

/// Doc comments of items, one or more lines each, of at most [`SHORT_DOC_WORDS`] words.
fn short_docs(source: &Source) -> usize {
    let tests = source.test_lines();
    let (mut count, mut words) = (0, None);
    for (line, text) in (1..).zip(source.parts.comments.lines()) {
        let is_test = tests.iter().any(|range| range.contains(&line));
        if let Some(doc) = text.trim_start().strip_prefix("///").filter(|_| !is_test) {
            words = Some(words.unwrap_or(0) + doc.split_whitespace().count());
        } else {
            count += usize::from(words.take().is_some_and(|words| words <= SHORT_DOC_WORDS));
        }
    }
    count + usize::from(words.is_some_and(|words| words <= SHORT_DOC_WORDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Row {
        let tests = "#[cfg(test)]\nmod tests {\n    fn look() { let a = |x| x; }\n}\n";
        let root = Source::new("crates/a/src/lib.rs", &format!("{text}{tests}"));
        let other = Source::new("crates/b/src/lib.rs", "fn look() {}\n");
        Row::of("crates/a", &[root, other])
    }

    #[test]
    fn files_are_measured_without_tests() {
        let files = [5, 1, 3, 2, 4, 6, 7, 8, 9, 10]
            .map(|lines| Source::new(&format!("crates/a/src/m{lines}.rs"), &"a\n".repeat(lines)));
        let row = Row::of("crates/a", &files);
        assert_eq!(
            (row.percentile(50), row.percentile(90), row.percentile(100)),
            (5, 9, 10)
        );
        assert_eq!(super::Row::of("crates/a", &[]).percentile(50), 0);
        assert_eq!(self::row("mod a;\npub(crate) mod b;\n").modules, 2);
        assert_eq!(self::row("mod a;\npub(crate) mod b;\n").files, [2]);
    }

    #[test]
    fn closures_with_a_name_are_counted() {
        let text = "fn f() { let a = |x| x; let b = move |x| x; let c: F = |x| x;\n\
            let d = g(|x| x); let (e, f) = h; let g = a || b; }\n";
        assert_eq!(
            row(text).forms,
            Forms {
                closures: 3,
                ..Forms::default()
            }
        );
    }

    #[test]
    fn matches_of_a_flag_are_counted() {
        let text = "fn f() { match a { true => 1, false => 2 } match b { false => 1, _ => 2 }\n\
            match c { (true, _) => 1, _ => 2 } }\n";
        assert_eq!(
            row(text).forms,
            Forms {
                flag_matches: 2,
                ..Forms::default()
            }
        );
    }

    #[test]
    fn public_enums_that_can_not_grow_are_counted() {
        let text = "#[derive(Debug)]\npub enum A {}\n#[non_exhaustive]\n#[derive(Debug)]\n\
            pub enum B {}\npub(crate) enum C {}\nenum D {}\n";
        assert_eq!(
            row(text).forms,
            Forms {
                open_enums: 1,
                ..Forms::default()
            }
        );
    }

    #[test]
    fn vague_names_are_counted_by_their_words() {
        let text =
            "fn look_up() {}\nfn lookup() {}\nfn hold() {}\nfn settled() {}\nfn is_found() {}\n";
        assert_eq!(
            row(text).forms,
            Forms {
                vague_functions: 3,
                ..Forms::default()
            }
        );
    }

    #[test]
    fn short_doc_comments_are_counted() {
        let text =
            "/// For errors.\nstruct A;\n/// Three words\n/// and more.\nstruct B;\n//! No\n";
        assert_eq!(
            row(text).forms,
            Forms {
                short_docs: 1,
                ..Forms::default()
            }
        );
    }
}
