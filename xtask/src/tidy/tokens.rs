//! Tokens of the code of a source, for rules that read paths and declarations.

use super::source::Source;

pub(super) struct Token<'a> {
    pub(super) line: usize,
    pub(super) text: &'a str,
}

/// The tokens of a source without its test modules: words, `::`, `=>`, and single characters.
pub(super) fn tokens(source: &Source) -> Vec<Token<'_>> {
    source
        .lines_outside_tests()
        .flat_map(|(line, text)| {
            let words = words(text).into_iter();
            words.map(move |text| Token { line, text })
        })
        .collect()
}

pub(super) fn is_word(one: char) -> bool {
    one.is_alphanumeric() || one == '_'
}

/// The position behind the braces that open at `at`.
pub(super) fn end_of_braces(tokens: &[Token<'_>], at: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

fn words(mut line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    loop {
        line = line.trim_start();
        let Some(first) = line.chars().next() else {
            return words;
        };
        let len = match first {
            ':' if line.starts_with("::") => 2,
            '=' if line.starts_with("=>") => 2,
            one if is_word(one) => line.find(|one| !is_word(one)).unwrap_or(line.len()),
            one => one.len_utf8(),
        };
        let (word, rest) = line.split_at(len);
        words.push(word);
        line = rest;
    }
}
