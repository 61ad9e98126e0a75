//! What a file must hold, and how it is looked up.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use uext4_testkit::rng::Rng;

/// Content that a seed tells.
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

/// What is known of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Known {
    /// It may be anything: something was changed and no fsync answered since.
    #[default]
    Open,
    /// It must be absent.
    Absent,
    /// It must be a file that holds this.
    Holds(Content),
    /// It must be a file that holds what was found there after a kill.
    Found(Vec<u8>),
}

impl Known {
    /// Whether something must be found.
    pub(super) fn is_promise(&self) -> bool {
        *self != Known::Open
    }

    /// What is at `path` now: it survived one mount and must survive the next.
    pub(super) fn look(path: &Path) -> Result<Self> {
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

/// Content of a file, `None` when there is no such name.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
}
