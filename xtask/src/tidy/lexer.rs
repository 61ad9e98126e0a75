//! Splits Rust source into code, comments and strings, line by line, so that a rule about one of
//! them ignores the others.
//!
//! Invariants: all parts keep every line break, so that line numbers match.

/// Code, comments and strings of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// Code; string and character literals become `""`.
    pub(super) code: String,
    /// Comments with their markers.
    pub(super) comments: String,
    /// String and character literals with their quotes.
    pub(super) strings: String,
}

/// Splits `text`.
pub(super) fn split(text: &str) -> Parts {
    let mut lexer = Lexer {
        rest: text,
        parts: Parts::default(),
    };
    while !lexer.rest.is_empty() {
        lexer.step();
    }
    lexer.parts
}

struct Lexer<'a> {
    rest: &'a str,
    parts: Parts,
}

impl Lexer<'_> {
    fn step(&mut self) {
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.comment(end);
        } else if self.rest.starts_with("/*") {
            self.comment(block_comment_len(self.rest));
        } else if let Some(len) = raw_string_len(self.rest, &self.parts.code) {
            self.string(len);
        } else if self.rest.starts_with('"') {
            self.string(quoted_len(self.rest));
        } else if let Some(len) = char_len(self.rest) {
            self.string(len);
        } else {
            self.code_char();
        }
    }

    fn code_char(&mut self) {
        let Some(one) = self.rest.chars().next() else {
            return;
        };
        self.parts.code.push(one);
        if one == '\n' {
            self.parts.comments.push(one);
            self.parts.strings.push(one);
        }
        self.rest = &self.rest[one.len_utf8()..];
    }

    fn comment(&mut self, len: usize) {
        let (taken, rest) = self.rest.split_at(len);
        self.parts.comments.push_str(taken);
        let breaks = breaks_of(taken);
        self.parts.code.push_str(&breaks);
        self.parts.strings.push_str(&breaks);
        self.rest = rest;
    }

    fn string(&mut self, len: usize) {
        let (taken, rest) = self.rest.split_at(len);
        self.parts.strings.push_str(taken);
        let breaks = breaks_of(taken);
        self.parts.code.push_str("\"\"");
        self.parts.code.push_str(&breaks);
        self.parts.comments.push_str(&breaks);
        self.rest = rest;
    }
}

fn breaks_of(taken: &str) -> String {
    "\n".repeat(taken.matches('\n').count())
}

fn block_comment_len(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn quoted_len(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, one) in text.char_indices().skip(1) {
        match one {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// Length in bytes of `r"…"` or `r#"…"#`. A prefix `b` or `c` stays in the code.
fn raw_string_len(text: &str, before: &str) -> Option<usize> {
    let is_in_word = before
        .trim_end_matches(['b', 'c'])
        .ends_with(|one: char| one.is_alphanumeric() || one == '_');
    let rest = text.strip_prefix('r').filter(|_| !is_in_word)?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let body = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let len = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(1 + hashes + 1 + len)
}

/// Length in bytes of a character literal; `None` for a lifetime.
fn char_len(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    if let Some(escape) = body.strip_prefix('\\') {
        let skip = escape.chars().next().map_or(0, char::len_utf8);
        return escape[skip..].find('\'').map(|at| 1 + 1 + skip + at + 1);
    }
    let one = body.chars().next()?;
    body[one.len_utf8()..]
        .starts_with('\'')
        .then(|| 1 + one.len_utf8() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_no_code() {
        let parts = split("let a = \"x // {\"; // why\nlet c = '{'; /* a\n/* b */ */ f::<'a>();\n");
        assert_eq!(parts.code, "let a = \"\"; \nlet c = \"\"; \n f::<'a>();\n");
        assert_eq!(parts.comments, "// why\n/* a\n/* b */ */\n");
        assert_eq!(parts.strings, "\"x // {\"\n'{'\n\n");
    }

    #[test]
    fn raw_strings_end_where_they_end() {
        let parts = split("f(r#\"a \" { \"#, br\"{\", '\\'', '\\u{7b}', \"\\\"{\")");
        assert_eq!(parts.code, "f(\"\", b\"\", \"\", \"\", \"\")");
    }

    #[test]
    fn unfinished_text_ends() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'", "'\\", "r#\""] {
            split(text);
        }
    }
}
