//! `uext4 build -`: the image goes to standard output when it is complete, from a temporary file.

use crate::failure::{At, Exit, Failure, Result};
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use tempfile::TempDir;

/// Bytes that are copied at once.
const PIECE_BYTES: usize = 1 << 20;

/// An image for standard output.
pub(super) struct Pipe {
    directory: TempDir,
}

impl Pipe {
    /// Makes the place for the file, in `TMPDIR`.
    pub(super) fn begin() -> Result<Self> {
        if std::io::stdout().is_terminal() {
            let failure = Failure::usage("an image is not written to a terminal");
            return Err(failure.hint("name a file, or a pipe takes it"));
        }
        let directory = tempfile::tempdir().at(std::env::temp_dir().display());
        let directory = directory.map_err(|failure| failure.hint("TMPDIR names another one"))?;
        Ok(Self { directory })
    }

    /// Path of the image in the private directory.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    /// Copies the file. It has no name meanwhile, so that nothing is left however this ends.
    pub(super) fn send(self) -> Result<()> {
        let path = self.path();
        let mut file = std::fs::File::open(&path).at(path.display())?;
        self.directory.close().at(path.display())?;
        let mut out = std::io::stdout().lock();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = file.read(&mut piece).at(path.display())?;
            if uext4_fuse::is_interrupted() {
                return Err(Failure::new(Exit::Failed, "the image is not complete"));
            }
            if count == 0 {
                return Ok(out.flush()?);
            }
            out.write_all(piece.split_at(count).0)?;
        }
    }
}
