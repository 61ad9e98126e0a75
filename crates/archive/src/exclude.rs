//! Patterns of paths that are left out.
//!
//! A pattern without `/`, or with one at its end only, is compared with each name of a path; one
//! with `/` with the path from the root of the source on. `*` is any part of a name, `?` one byte.
//! A directory that matches is left out with all below it.

/// A list of patterns; a path is left out if any of them matches.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    /// Patterns that are compared with each name of a path.
    names: Vec<Vec<u8>>,
    /// Compared with paths, as names.
    paths: Vec<Vec<Vec<u8>>>,
}

impl Patterns {
    /// Adds a pattern, in which `*` and `?` are wildcards.
    pub fn add(&mut self, pattern: &[u8]) {
        let names = pattern.split(|byte| *byte == b'/');
        let names: Vec<Vec<u8>> = names
            .filter(|name| !matches!(*name, b"" | b"."))
            .map(<[u8]>::to_vec)
            .collect();
        let is_path = pattern.iter().rev().skip(1).any(|byte| *byte == b'/');
        match (is_path, names.len()) {
            (_, 0) => {}
            (false, _) => self.names.extend(names),
            (true, _) => self.paths.push(names),
        }
    }

    /// Whether a path below the root of the source is left out, for itself or with a directory
    /// above it.
    pub fn matches(&self, path: &[u8]) -> bool {
        if self.names.is_empty() && self.paths.is_empty() {
            return false;
        }
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        names
            .iter()
            .any(|name| self.names.iter().any(|pattern| matches(pattern, name)))
            || self.paths.iter().any(|pattern| begins(pattern, &names))
    }
}

fn begins(pattern: &[Vec<u8>], names: &[&[u8]]) -> bool {
    pattern.len() <= names.len() && {
        let mut pairs = pattern.iter().zip(names);
        pairs.all(|(pattern, name)| matches(pattern, name))
    }
}

/// Compares a name, with one step back to the last `*`: linear in the pattern times the name.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                back = Some((at + 1, from));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[from] => {
                at += 1;
                from += 1;
            }
            _ => match &mut back {
                Some((after, start)) => {
                    *start += 1;
                    (at, from) = (*after, *start);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_match() {
        let cases: [(&str, &str, bool); 14] = [
            ("*.o", "src/a.o", true),
            ("*.o", "src/a.oo", false),
            ("*.o", "dir.o/file", true),
            ("cache/", "a/cache/b", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*b*c", "aXbbYc", true),
            ("a*b*c", "aXcYb", false),
            ("/var/log", "var/log/x", true),
            ("var/log", "x/var/log", false),
            ("./var/*", "var/log", true),
            ("var/*", "var", false),
            ("var/*", "var/a/b", true),
            ("*", "x", true),
        ];
        for (pattern, path, expected) in cases {
            let mut patterns = Patterns::default();
            patterns.add(pattern.as_bytes());
            assert_eq!(
                patterns.matches(path.as_bytes()),
                expected,
                "{pattern} {path}"
            );
        }
        assert!(!Patterns::default().matches(b"x"));
    }
}
