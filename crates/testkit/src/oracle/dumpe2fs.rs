//! dumpe2fs: the superblock as read by the reference implementation.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::program::Program;

/// The header that `dumpe2fs -h` prints: label to value, both as printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header(pub BTreeMap<String, String>);

impl Header {
    /// The value of `label` (for example `"Block count"`).
    ///
    /// # Errors
    /// dumpe2fs did not print it.
    pub fn text(&self, label: &str) -> Result<&str> {
        self.0
            .get(label)
            .map(String::as_str)
            .with_context(|| format!("no line \"{label}\""))
    }

    /// The number at the start of the value of `label`.
    ///
    /// # Errors
    /// The line is missing or does not begin with a decimal number.
    pub fn number(&self, label: &str) -> Result<u64> {
        let text = self.text(label)?;
        let digits = text
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap_or_default();
        digits
            .parse()
            .with_context(|| format!("\"{label}\" is \"{text}\""))
    }

    /// Whether `feature` (for example `"metadata_csum"`) is set.
    pub fn has_feature(&self, feature: &str) -> bool {
        self.0
            .get("Filesystem features")
            .is_some_and(|features| features.split_whitespace().any(|one| one == feature))
    }

    fn parse(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        Self(
            pairs
                .map(|(key, value)| (key.trim().into(), value.trim().into()))
                .collect(),
        )
    }
}

/// Reads the superblock (and the journal's) of `image`.
///
/// # Errors
/// dumpe2fs is missing or rejects the image.
pub fn dumpe2fs(image: &Path) -> Result<Header> {
    let output = Program::new("dumpe2fs")?.arg("-h").arg(image).run_ok()?;
    Ok(Header::parse(&output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_words_numbers_and_features() {
        let header = Header::parse(
            "Filesystem features:      has_journal 64bit\nBlock count:   2048\n\
             Journal size:   16M\nLifetime writes:  1 MB\n",
        );
        assert_eq!(header.number("Block count").unwrap(), 2048);
        assert_eq!(header.text("Journal size").unwrap(), "16M");
        assert_eq!(header.number("Lifetime writes").unwrap(), 1);
        assert!(header.has_feature("64bit") && !header.has_feature("64"));
        assert!(header.number("Inode count").is_err());
    }
}
