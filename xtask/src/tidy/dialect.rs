//! Checks that the private dialect is not spoken again: retired words in names of functions,
//! `match` on a bool, and local closures with a name that are used once.
//!
//! Layout of the list of exceptions (`xtask/allow/dialect.txt`), which may only shrink: one
//! `crate form count` per line. An entry with a higher count than its crate needs is also a
//! problem. Test code is skipped.
//!
//! Limits: the forms are found by their tokens, so that one in a macro counts as well.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::cycles;
use super::problem::Problem;
use super::source::Source;
use super::tokens::{Token, is_word, tokens};

/// Words of function names that say little, as parts between `_`.
const RETIRED_WORDS: [&str; 11] = [
    "settle", "look", "note", "tell", "hold", "meaning", "way", "why", "place", "piece", "found",
];
const LIST: &str = "xtask/allow/dialect.txt";

/// Crate and form.
type Key = (String, String);

/// A form that the code avoids.
struct Form {
    /// Its name in the list.
    name: &'static str,
    remedy: &'static str,
    is_here: fn(&[Token<'_>]) -> bool,
}

const FORMS: [Form; 3] = [
    Form {
        name: "retired_names",
        remedy: "a function is named by a term of the field, not by a retired word",
        is_here: is_retired_name,
    },
    Form {
        name: "bool_matches",
        remedy: "a bool is tested by if and else",
        is_here: is_bool_match,
    },
    Form {
        name: "single_use_closures",
        remedy: "a closure with one use is written where it is used, or is a function",
        is_here: is_single_use_closure,
    },
];

pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Problem>> {
    let list = fs::read_to_string(root.join(LIST)).with_context(|| format!("read {LIST}"))?;
    Ok(compare(parse(&list)?, sources))
}

fn compare(mut allowed: BTreeMap<Key, usize>, sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for dir in cycles::crates(sources) {
        for form in &FORMS {
            let here = places(dir, form, sources);
            let key = (dir.to_owned(), form.name.to_owned());
            let limit = allowed.remove(&key).unwrap_or(0);
            match here.len().cmp(&limit) {
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Less => problems.push(shrank(key, here.len())),
                std::cmp::Ordering::Greater => problems.extend(here),
            }
        }
    }
    problems.extend(allowed.into_keys().map(|key| shrank(key, 0)));
    problems
}

fn shrank((file, form): Key, count: usize) -> Problem {
    let what = format!("{form}: only {count} are left: say so in {LIST}");
    Problem {
        file,
        line: 0,
        what,
    }
}

/// Each occurrence of a form in a crate.
fn places(dir: &str, form: &Form, sources: &[Source]) -> Vec<Problem> {
    let inside = format!("{dir}/src/");
    let own = sources
        .iter()
        .filter(|one| one.path.starts_with(&inside) && !one.is_test());
    let mut problems = Vec::new();
    for source in own {
        let tokens = tokens(source);
        let found = (0..tokens.len()).filter(|at| (form.is_here)(&tokens[*at..]));
        problems.extend(found.map(|at| Problem {
            file: source.path.clone(),
            line: tokens[at].line,
            what: form.remedy.to_owned(),
        }));
    }
    problems
}

fn parse(list: &str) -> Result<BTreeMap<Key, usize>> {
    let mut allowed = BTreeMap::new();
    for line in list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [dir, form, count] = words[..] else {
            anyhow::bail!("{LIST}: \"{line}\" is not `crate form count`");
        };
        allowed.insert((dir.to_owned(), form.to_owned()), count.parse()?);
    }
    Ok(allowed)
}

fn is(tokens: &[Token<'_>], texts: &[&str]) -> bool {
    tokens.len() >= texts.len()
        && tokens
            .iter()
            .zip(texts)
            .all(|(one, text)| one.text == *text)
}

/// `fn` with a retired word in the name.
pub(super) fn is_retired_name(tokens: &[Token<'_>]) -> bool {
    let name = tokens.get(1).map_or("", |one| one.text);
    is(tokens, &["fn"]) && name.split('_').any(|word| RETIRED_WORDS.contains(&word))
}

/// The arm `true` or `false` right after the `{` of a `match`, perhaps with a guard.
pub(super) fn is_bool_match(tokens: &[Token<'_>]) -> bool {
    let is_bool = is(tokens, &["{", "true"]) || is(tokens, &["{", "false"]);
    is_bool && matches!(tokens.get(2), Some(next) if matches!(next.text, "=>" | "if"))
}

/// `let name = |`, also with `mut`, `move` or a type before `=`.
pub(super) fn is_named_closure(tokens: &[Token<'_>]) -> bool {
    let is_let = is(tokens, &["let"])
        && tokens
            .get(1)
            .is_some_and(|one| one.text.starts_with(is_word));
    let value = tokens
        .iter()
        .position(|one| matches!(one.text, "=" | ";" | "("));
    let value = value.map_or(&[][..], |at| &tokens[at..]);
    is_let && (is(value, &["=", "|"]) || is(value, &["=", "move", "|"]))
}

/// A closure with a name that occurs at most once in the rest of its block.
fn is_single_use_closure(tokens: &[Token<'_>]) -> bool {
    if !is_named_closure(tokens) {
        return false;
    }
    let is_mut = is(tokens, &["let", "mut"]);
    let name = tokens[if is_mut { 2 } else { 1 }].text;
    let (mut depth, mut is_behind, mut uses) = (0_usize, false, 0);
    for pair in tokens.windows(2) {
        let (before, token) = (pair[0].text, pair[1].text);
        match token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => match depth.checked_sub(1) {
                Some(outer) => depth = outer,
                None => break,
            },
            ";" if depth == 0 => is_behind = true,
            _ => uses += usize::from(is_behind && token == name && before != "."),
        }
    }
    uses <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(form: usize, text: &str) -> Vec<usize> {
        let source = Source::new("crates/a/src/lib.rs", text);
        let problems = places("crates/a", &FORMS[form], &[source]);
        problems.iter().map(|one| one.line).collect()
    }

    #[test]
    fn retired_words_are_whole_parts_of_a_name() {
        let text = "fn look_up() {}\nfn lookup() {}\nfn in_a_way() {}\nfn replace() {}\n\
            fn f() { look_up(); }\n#[cfg(test)]\nmod tests {\n    fn hold() {}\n}\n";
        assert_eq!(lines(0, text), [1, 3]);
    }

    #[test]
    fn a_match_on_a_bool_may_have_guards() {
        let text = "fn f() { match a { true => 1, false => 2 } }\n\
            fn g() { match a { false if b => 1, _ => 2 } }\n\
            fn h() { match a { (true, _) => 1, _ => 2 } }\nfn i() { if a { true } else { b } }\n";
        assert_eq!(lines(1, text), [1, 2]);
    }

    #[test]
    fn a_closure_with_two_uses_may_have_a_name() {
        let once = "fn f() {\n let a = |x| x;\n b.map(a);\n}\nfn g() { a(); }\n";
        assert_eq!(lines(2, once), [2]);
        let mutable = "fn f() { let mut a = move |x| { x; x }; b.a(a); }\n";
        assert_eq!(lines(2, mutable), [1]);
        let twice = "fn f() { let a = |x| x; if c { a(1) } else { a(2) } }\n";
        assert!(lines(2, twice).is_empty());
        let unnamed = "fn f() { b.map(|x| x); let a = b | c; a }\n";
        assert!(lines(2, unnamed).is_empty());
    }

    #[test]
    fn the_list_only_shrinks() {
        let text = "fn look() {}\nfn hold() {}\n";
        let sources = || [Source::new("crates/a/src/lib.rs", text)];
        let allow = |count: usize| {
            let list = format!("# why\ncrates/a retired_names {count}\n");
            compare(parse(&list).unwrap(), &sources())
        };
        assert_eq!(compare(BTreeMap::new(), &sources()).len(), 2);
        assert_eq!((allow(1).len(), allow(2).len(), allow(3).len()), (2, 0, 1));
        let other = parse("crates/b bool_matches 1\n").unwrap();
        assert_eq!(compare(other, &[]).len(), 1);
        assert!(parse("crates/b bool_matches\n").is_err());
    }
}
