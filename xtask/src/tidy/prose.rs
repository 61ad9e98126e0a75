//! Checks the words of comments, strings, names, documents and scripts.
//!
//! Threads and programs are things, not people. Retired words had a second meaning, or none in the
//! literature; `docs/glossary.md` has the words to use. In comments and documents, code between
//! backticks is not checked.

use super::problem::Problem;
use super::source::Source;

/// Pronouns of people.
const PEOPLE: [&str; 6] = ["who", "whoever", "whom", "nobody", "somebody", "everybody"];
/// Retired words, and the words to use.
const RETIRED: [(&str, &str); 16] = [
    ("whereabouts", "prefetch hint"),
    ("turnstile", "freeze barrier"),
    ("newcomer", "new entry"),
    ("newcomers", "new entries"),
    ("newborn", "new inode"),
    ("lookers", "busy polling"),
    ("pace", "request class"),
    ("hurry", "urgency"),
    ("stretch", "extent, run or stripe"),
    ("stretches", "extents, runs or stripes"),
    ("no room", "full, or no space"),
    ("crew", "workers"),
    ("seat", "client"),
    ("janitor", "cleanup"),
    ("lost the processor", "was preempted"),
    ("loses the processor", "is preempted"),
];

/// Files where the words are meant, by the start of their paths, and the reason.
const EXCEPTIONS: [(&str, &str); 4] = [
    ("xtask/src/tidy/prose.rs", "lists the words"),
    ("docs/glossary.md", "lists the words"),
    ("crates/fuse/tests/it/pjdfstest.rs", "the user nobody"),
    ("crates/tools/tests/it/arguments.rs", "the user nobody"),
];

/// Checks comments, strings and names of Rust sources.
pub(super) fn check(source: &Source) -> Vec<Problem> {
    let mut problems = check_text(&source.path, &source.parts.comments);
    problems.extend(check_text(&source.path, &source.parts.strings));
    problems.extend(check_text(&source.path, &words_of(&source.parts.code)));
    problems
}

/// The words of the names in code, line by line: at underscores and before capitals.
fn words_of(code: &str) -> String {
    let mut words = String::with_capacity(code.len() * 2);
    let mut before = ' ';
    for one in code.chars() {
        if one.is_uppercase() && before.is_lowercase() {
            words.push(' ');
        }
        words.push(if one == '_' { ' ' } else { one });
        before = one;
    }
    words
}

/// Checks all lines of a document or script.
pub(super) fn check_text(path: &str, text: &str) -> Vec<Problem> {
    if EXCEPTIONS.iter().any(|(start, _)| path.starts_with(start)) {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    let found = lines.flat_map(|(index, line)| {
        problems_of(&without_code(line))
            .map(move |what| (index + 1, what))
            .collect::<Vec<_>>()
    });
    found
        .map(|(line, what)| Problem {
            file: path.to_owned(),
            line,
            what,
        })
        .collect()
}

fn problems_of(line: &str) -> impl Iterator<Item = String> {
    let line = line.to_lowercase();
    let people = PEOPLE.iter().filter(|word| has_word(&line, word));
    let people: Vec<_> = people
        .map(|word| format!("\"{word}\": name the thread, caller, program or user"))
        .collect();
    let retired = RETIRED.iter().filter(|(word, _)| has_word(&line, word));
    let retired: Vec<_> = retired
        .map(|(word, instead)| format!("\"{word}\" is retired: {instead}"))
        .collect();
    people.into_iter().chain(retired)
}

/// The line without the code between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_placeholder = line[..at].ends_with('{');
        !is_placeholder
            && !line[..at].ends_with(is_word)
            && !line[at + word.len()..].starts_with(is_word)
    })
}

fn is_word(one: char) -> bool {
    one.is_alphanumeric() || one == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> usize {
        check(&Source::new("crates/a/src/b.rs", text)).len()
    }

    #[test]
    fn comments_and_strings_have_no_people_and_no_retired_words() {
        for text in [
            "//! Who waits.\n",
            "const A: &str = \"\nnobody\";\n",
            "let a = r\"somebody\";\n",
            "/* a crew */\n",
            "// A thread that lost the processor.\n",
            "fn wait(who: u32) {}\n",
            "enum Owner {\n    Nobody,\n}\n",
            "fn hurry_return() {}\n",
        ] {
            assert_eq!(problems(text), 1, "{text}");
        }
        for text in [
            "// whose\n",
            "// `who`\n",
            "let whole = Whose::new();\n",
            "let a = \"{who:?}\";\n",
            "// a seated_crew\n",
        ] {
            assert_eq!(problems(text), 0, "{text}");
        }
        let line = check_text("docs/a.md", "a\nb, whoever\n");
        assert_eq!((line.len(), line[0].line), (1, 2));
        assert_eq!(check_text("docs/glossary.md", "who").len(), 0);
    }
}
