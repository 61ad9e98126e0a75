//! Checks the length of functions, with a list of exceptions that may only shrink.
//!
//! Layout of the list (`xtask/allow/long-functions.txt`): one `path function lines` per line. An
//! entry with a higher limit than its function needs is also a problem.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::problem::Problem;
use super::source::Source;

const FUNCTION_MAX_LINES: usize = 70;
const LIST: &str = "xtask/allow/long-functions.txt";

type Key = (String, String);

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Problem>> {
    let list = fs::read_to_string(root.join(LIST)).with_context(|| format!("read {LIST}"))?;
    Ok(compare(&parse(&list)?, sources))
}

fn compare(allowed: &BTreeMap<Key, usize>, sources: &[Source]) -> Vec<Problem> {
    let mut unused = allowed.clone();
    let mut problems = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        for function in long_functions(source) {
            let key = (source.path.clone(), function.name.clone());
            let limit = unused.remove(&key).unwrap_or(FUNCTION_MAX_LINES);
            if function.lines != limit {
                problems.push(complain(source, &function, limit));
            }
        }
    }
    problems.extend(unused.into_keys().map(|(file, name)| {
        let what = format!("{name} is not over {FUNCTION_MAX_LINES} lines: take it off {LIST}");
        Problem {
            file,
            line: 0,
            what,
        }
    }));
    problems
}

fn complain(source: &Source, function: &Function, limit: usize) -> Problem {
    let Function { name, line, lines } = function;
    let what = if lines > &limit {
        format!("fn {name} has {lines} lines, the limit is {limit}: cut it")
    } else {
        format!("fn {name} shrank to {lines} lines: say so in {LIST}")
    };
    Problem {
        file: source.path.clone(),
        line: *line,
        what,
    }
}

fn parse(list: &str) -> Result<BTreeMap<Key, usize>> {
    let mut allowed = BTreeMap::new();
    for line in list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let mut words = line.split_whitespace();
        let entry = (words.next(), words.next(), words.next());
        let (Some(path), Some(name), Some(lines)) = entry else {
            anyhow::bail!("{LIST}: \"{line}\" is not `path function lines`");
        };
        allowed.insert((path.to_owned(), name.to_owned()), lines.parse()?);
    }
    Ok(allowed)
}

fn long_functions(source: &Source) -> Vec<Function> {
    let tests = source.test_lines();
    let all = functions(&source.parts.code).into_iter();
    all.filter(|function| function.lines > FUNCTION_MAX_LINES)
        .filter(|function| !tests.iter().any(|range| range.contains(&function.line)))
        .collect()
}

fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_word = code[..at].ends_with(|one: char| one.is_alphanumeric() || one == '_');
        let name: String = code[at + 3..]
            .chars()
            .take_while(|one| one.is_alphanumeric() || *one == '_')
            .collect();
        if is_word || name.is_empty() {
            continue;
        }
        if let Some(len) = body_len(&code[at..]) {
            let line = code[..at].matches('\n').count() + 1;
            let lines = code[at..at + len].matches('\n').count() + 1;
            found.push(Function { name, line, lines });
        }
    }
    found
}

/// Length in bytes from `fn` to the closing brace of its body; `None` without a body.
fn body_len(code: &str) -> Option<usize> {
    let mut braces = 0_usize;
    let mut brackets = 0_usize;
    for (at, one) in code.char_indices() {
        match one {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            ';' if braces == 0 && brackets == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(lines: usize) -> Source {
        let body = "    a();\n".repeat(lines - 2);
        Source::new(
            "crates/a/src/lib.rs",
            &format!("//! x\nfn long() {{\n{body}}}\n"),
        )
    }

    fn allow(lines: usize) -> BTreeMap<Key, usize> {
        parse(&format!("# why\ncrates/a/src/lib.rs long {lines}\n")).unwrap()
    }

    #[test]
    fn seventy_lines_are_allowed() {
        assert!(compare(&BTreeMap::new(), &[source(70)]).is_empty());
        assert_eq!(compare(&BTreeMap::new(), &[source(71)]).len(), 1);
    }

    #[test]
    fn the_list_only_shrinks() {
        assert!(compare(&allow(80), &[source(80)]).is_empty());
        assert_eq!(compare(&allow(80), &[source(81)]).len(), 1);
        assert_eq!(compare(&allow(80), &[source(79)]).len(), 1);
        assert_eq!(compare(&allow(80), &[source(60)]).len(), 1);
    }

    #[test]
    fn declarations_and_pointers_are_no_functions() {
        let found =
            functions("trait A { fn a(x: [u8; 2]); fn b() -> u8 { 1 } }\ntype F = fn (u8);");
        assert_eq!(
            found,
            [Function {
                name: "b".into(),
                line: 1,
                lines: 1
            }]
        );
    }
}
