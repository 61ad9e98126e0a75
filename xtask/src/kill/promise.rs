//! Expected content of a file, and its check.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use uext4_testkit::rng::Rng;

/// Content generated from a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) seed: u64,
    pub(super) len_bytes: usize,
}

impl Content {
    pub(super) fn bytes(self) -> Vec<u8> {
        Rng::new(self.seed).bytes(self.len_bytes)
    }
}

/// Expected state of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Known {
    /// Unspecified: a change was not followed by a completed fsync.
    #[default]
    Open,
    /// Must be absent.
    Absent,
    /// Must be a file with this content.
    Holds(Content),
    /// Must be a file with the content that was found after a kill.
    Found(Vec<u8>),
}

impl Known {
    /// True if the state is specified, as content or as absence.
    pub(super) fn is_promise(&self) -> bool {
        *self != Known::Open
    }

    /// Reads the current state of `path`, which the next kill must preserve.
    pub(super) fn of_path(path: &Path) -> Result<Self> {
        Ok(match read(path)? {
            None => Known::Absent,
            Some(bytes) => Known::Found(bytes),
        })
    }

    pub(super) fn check(&self, path: &Path) -> Result<()> {
        let found = read(path)?;
        match self {
            Known::Open => Ok(()),
            Known::Absent => {
                ensure!(found.is_none(), "{} is back", path.display());
                Ok(())
            }
            Known::Holds(content) => same(path, &content.bytes(), found.as_deref()),
            Known::Found(bytes) => same(path, bytes, found.as_deref()),
        }
    }
}

fn same(path: &Path, expected: &[u8], found: Option<&[u8]>) -> Result<()> {
    let path = path.display();
    let found = found.with_context(|| format!("{path} is missing"))?;
    let at = expected.iter().zip(found).position(|(a, b)| a != b);
    ensure!(
        found == expected,
        "{path} has {} bytes, promised {}, first difference at {at:?}",
        found.len(),
        expected.len()
    );
    Ok(())
}

/// Content of a file; `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
}
