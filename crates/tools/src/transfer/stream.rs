//! Copies single files between an image and standard streams.

use crate::failure::{At, Exit, Failure, Result};
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;
use uext4::{Filesystem, InodeRef, WriteContext};
use uext4_num::u64_of;
use uext4_sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};

/// Size of the copy buffer in bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Interval at which a reader of standard input polls for an interrupt.
const TICK: Duration = Duration::from_millis(100);

/// Writes the content of a file to `out`; `at` is its name in messages.
pub(crate) fn write_out(
    fs: &Filesystem,
    inode: &InodeRef,
    at: &str,
    out: &mut dyn Write,
) -> Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    let mut offset = 0;
    loop {
        let read = fs.read(inode, offset, &mut buffer).at(at)?;
        if read == 0 {
            return Ok(());
        }
        out.write_all(buffer.split_at(read).0)?;
        offset += u64_of(read);
    }
}

/// Fills a new file from standard input.
///
/// An interrupt ends it with an error, also while more bytes come.
pub(crate) fn read_in(fs: &Filesystem, inode: &InodeRef, at: &str) -> Result<()> {
    let pieces = standard_input();
    let mut offset = 0;
    loop {
        let received = pieces.recv_timeout(TICK);
        let has_ended = matches!(received, Err(RecvTimeoutError::Disconnected));
        if !has_ended && uext4_fuse::is_interrupted() {
            let text = format!("{at}: interrupted before standard input ended, not made");
            return Err(Failure::new(Exit::Failed, text));
        }
        let piece = match received {
            Ok(piece) => piece.at("standard input")?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => continue,
        };
        let mut rest = piece.as_slice();
        while !rest.is_empty() {
            let written = fs.write(inode, offset, rest, &WriteContext::ROOT).at(at)?;
            rest = rest.split_at(written.len_bytes).1;
            offset += u64_of(written.len_bytes);
        }
    }
}

/// Reads standard input in pieces until its end, on a separate thread: a signal does not end a
/// blocked read.
fn standard_input() -> Receiver<std::io::Result<Vec<u8>>> {
    let (sender, receiver) = sync_channel(1);
    uext4_sync::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let read = match input.read(&mut piece) {
                Ok(0) => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read,
            };
            let failed = read.is_err();
            let piece = read.map(|length| {
                piece.truncate(length);
                piece
            });
            if sender.send(piece).is_err() || failed {
                return;
            }
        }
    });
    receiver
}
