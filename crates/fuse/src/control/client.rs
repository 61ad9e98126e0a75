//! The other side: asks a running mount.

use super::line::Lines;
use super::socket::{path_of, with_address};
use super::wire::{ANSWER_BYTES_MAX, Ask, parse_answer, request};
use crate::error::{Error, Result};
use crate::{runtime_dir, umount};
use serde_json::Value;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the server may take to take a request.
const SEND_LIMIT: Duration = Duration::from_secs(10);

/// A connection to the server of a mount.
pub struct Client {
    stream: UnixStream,
    path: PathBuf,
}

impl Client {
    /// Connects to the server of the mount point `target`, or by its control socket.
    ///
    /// # Errors
    /// [`Error::NotMounted`] for what is neither, [`Error::System`] when nobody answers.
    pub fn connect(target: &Path) -> Result<Self> {
        let path = socket_of(target)?;
        let stream = with_address(&path, |address| UnixStream::connect(address));
        let stream = stream.map_err(Error::system("connect to", &path))?;
        Ok(Self { stream, path })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server says no, [`Error::System`] when it does not answer.
    pub fn ask(&self, ask: &Ask) -> Result<Value> {
        let failed = || Error::system("talk to", &self.path);
        match parse_answer(&self.exchange(ask).map_err(failed())?) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(refusal)) | Err(refusal) => Err(Error::Refused(refusal)),
        }
    }

    fn exchange(&self, ask: &Ask) -> io::Result<Vec<u8>> {
        let mut lines = Lines::new(&self.stream, None, ANSWER_BYTES_MAX)?;
        // A server that sends a client away says why, and does not listen.
        let sent = lines.send(&request(ask), SEND_LIMIT);
        match lines.receive(ask.patience()) {
            Ok(Some(line)) => Ok(line),
            Ok(None) => sent.and(Err(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => sent.and(Err(error)),
        }
    }
}

/// The control socket of a mount point; a socket is its own.
fn socket_of(target: &Path) -> Result<PathBuf> {
    let metadata = std::fs::metadata(target);
    if metadata.is_ok_and(|found| found.file_type().is_socket()) {
        return Ok(target.into());
    }
    let path = umount::absolute(target)?;
    match umount::mounted(&path)? {
        Some(uid) => Ok(path_of(&runtime_dir::of(uid), &path)),
        None => Err(Error::NotMounted { path }),
    }
}
