//! Read-ahead: a thread decodes a stream into a channel of bounded size. Buffers go back to the
//! thread, so that the kernel maps and clears them once.
//!
//! The thread ends when the stream ends, fails, or its reader is gone. Nothing waits for it: it may
//! sit in a read of a pipe that never ends.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::fault::Cancelled;

/// Bytes that the thread hands over at once.
const PIECE_BYTES: usize = 256 << 10;
/// How often a reader that waits asks whether it is cancelled.
const TICK: Duration = Duration::from_millis(100);
/// Fewest pieces that wait.
const PIECES_MIN: usize = 2;

type Piece = io::Result<Vec<u8>>;

pub(crate) struct Ahead {
    pieces: Receiver<Piece>,
    /// Buffers to use again.
    spent: SyncSender<Vec<u8>>,
    current: io::Cursor<Vec<u8>>,
    state: State,
    is_cancelled: Option<fn() -> bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Ended,
    Failed,
}

impl Ahead {
    /// Starts to read the stream that `open` makes in the thread, about so many bytes ahead.
    pub(crate) fn start(
        bytes: usize,
        is_cancelled: Option<fn() -> bool>,
        open: impl FnOnce() -> io::Result<Box<dyn Read + Send>> + Send + 'static,
    ) -> io::Result<Ahead> {
        // One more piece is being made, and one is being read.
        let waiting = (bytes / PIECE_BYTES).saturating_sub(2).max(PIECES_MIN);
        let (sender, pieces) = sync_channel(waiting);
        let (spent, buffers) = sync_channel(waiting);
        thread::Builder::new()
            .name("decoder".into())
            .spawn(move || decode(open, &buffers, &sender))?;
        Ok(Ahead {
            pieces,
            spent,
            current: io::Cursor::default(),
            state: State::Running,
            is_cancelled,
        })
    }

    /// Waits for the next piece.
    fn wait(&self) -> Piece {
        loop {
            if self.is_cancelled.is_some_and(|ask| ask()) {
                return Err(io::Error::other(Cancelled));
            }
            match self.pieces.recv_timeout(TICK) {
                Ok(piece) => return piece,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("the thread of the decoder stopped"));
                }
            }
        }
    }
}

/// Sends all pieces, an empty one at the end.
fn decode(
    open: impl FnOnce() -> io::Result<Box<dyn Read + Send>>,
    buffers: &Receiver<Vec<u8>>,
    sender: &SyncSender<Piece>,
) {
    let mut reader = match open() {
        Ok(reader) => reader,
        // The reader may be gone, which nothing here has to know.
        Err(error) => return sender.send(Err(error)).unwrap_or_default(),
    };
    loop {
        let piece = read_full(&mut reader, buffers.try_recv().unwrap_or_default());
        let is_last = piece.as_ref().map_or(true, Vec::is_empty);
        if sender.send(piece).is_err() || is_last {
            return;
        }
    }
}

fn read_full(reader: &mut impl Read, mut piece: Vec<u8>) -> Piece {
    piece.resize(PIECE_BYTES, 0);
    let mut filled = 0;
    while filled < piece.len() {
        match reader.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    piece.truncate(filled);
    Ok(piece)
}

impl Read for Ahead {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.current.read(buf)?;
            if count > 0 || buf.is_empty() {
                return Ok(count);
            }
            match self.state {
                State::Running => {}
                State::Ended => return Ok(0),
                State::Failed => return Err(io::Error::other("the decoder has failed before")),
            }
            self.state = State::Failed;
            let piece = self.wait()?;
            self.state = if piece.is_empty() {
                State::Ended
            } else {
                State::Running
            };
            let spent = std::mem::replace(&mut self.current, io::Cursor::new(piece));
            let _the_thread_has_ended = self.spent.try_send(spent.into_inner());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use uext4_builder::Error;

    #[test]
    fn all_bytes_arrive_and_then_the_end() {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n >> 3) as u8).collect();
        let copy = bytes.clone();
        let mut ahead =
            Ahead::start(4 << 20, None, move || Ok(Box::new(io::Cursor::new(copy)))).unwrap();
        let mut read = Vec::new();
        ahead.read_to_end(&mut read).unwrap();
        assert_eq!(read, bytes);
        assert_eq!(ahead.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn an_error_arrives_after_the_bytes_before_it() {
        struct Fails(usize);
        impl Read for Fails {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                if self.0 > 2 * PIECE_BYTES / 1024 {
                    return Err(io::Error::other("broken"));
                }
                buf[..1024].fill(1);
                Ok(1024)
            }
        }
        let mut ahead = Ahead::start(4 << 20, None, || Ok(Box::new(Fails(0)))).unwrap();
        let mut read = Vec::new();
        let error = ahead.read_to_end(&mut read).unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), read.len()),
            ("broken", 2 * PIECE_BYTES)
        );
        assert!(ahead.read(&mut [0]).is_err());
    }

    #[test]
    fn a_reader_that_waits_for_nothing_can_be_cancelled() {
        let (silent, _open) = io::pipe().unwrap();
        let mut ahead = Ahead::start(4 << 20, Some(|| true), || Ok(Box::new(silent))).unwrap();
        let error = ahead.read(&mut [0]).unwrap_err();
        assert!(matches!(Fault::from(error), Fault::Sink(Error::Cancelled)));
    }

    #[test]
    fn a_thread_whose_reader_is_gone_ends() {
        struct Endless(SyncSender<()>);
        impl Read for Endless {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                Ok(buf.len())
            }
        }
        impl Drop for Endless {
            fn drop(&mut self) {
                self.0.send(()).unwrap();
            }
        }
        let (sender, ended) = sync_channel(1);
        drop(Ahead::start(4 << 20, None, || Ok(Box::new(Endless(sender)))).unwrap());
        ended.recv().unwrap();
    }
}
