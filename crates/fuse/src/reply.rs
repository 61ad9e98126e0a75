//! Builder of replies. The buffer is reused: it belongs to the thread, or the kernel reads the
//! reply from it.

use crate::errno::Errno;
use crate::protocol::REPLY_HEADER_BYTES;
use uext4::FileRange;
use uext4_num::clamp_u32;

enum Buffer<'a> {
    Own(Vec<u8>),
    Lent(&'a mut [u8]),
}

/// Body of a reply, without the header. File data are read directly into the buffer.
pub(crate) struct Reply<'a> {
    buffer: Buffer<'a>,
    len: usize,
    shortcut: Option<Box<dyn InPlace>>,
    is_sent: bool,
}

/// Zero-copy path to the kernel.
pub(crate) trait InPlace: Send {
    /// Sends a reply. Returns false if this path cannot carry it; nothing was sent then.
    fn send(&mut self, header: &ReplyHeader, ranges: &[FileRange<'_>]) -> bool;
}

/// Header of a reply in kernel format.
pub(crate) type ReplyHeader = [u8; REPLY_HEADER_BYTES];

impl<'a> Reply<'a> {
    /// An empty reply with capacity for `capacity_bytes` bytes.
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        Self::with_buffer(Buffer::Own(vec![0; capacity_bytes]))
    }

    /// An empty reply in a borrowed buffer. If it outgrows the buffer, it moves to an owned one.
    pub(crate) fn lent(buf: &'a mut [u8]) -> Self {
        Self::with_buffer(Buffer::Lent(buf))
    }

    fn with_buffer(buffer: Buffer<'a>) -> Self {
        Self {
            buffer,
            len: 0,
            shortcut: None,
            is_sent: false,
        }
    }

    /// Adds a zero-copy path for [`Self::send`].
    pub(crate) fn with_shortcut(self, shortcut: Box<dyn InPlace>) -> Self {
        Self {
            shortcut: Some(shortcut),
            ..self
        }
    }

    /// Whether the reply has a zero-copy path.
    pub(crate) fn has_shortcut(&self) -> bool {
        self.shortcut.is_some()
    }

    /// Sends extents of the image as the whole reply to request `unique`. Returns false if the
    /// data must go through the buffer instead.
    pub(crate) fn send(&mut self, unique: u64, ranges: &[FileRange<'_>]) -> bool {
        let len: usize = ranges.iter().map(|range| range.len_bytes).sum();
        let header = header(REPLY_HEADER_BYTES + len, unique, 0);
        if let Some(shortcut) = &mut self.shortcut {
            self.is_sent = shortcut.send(&header, ranges);
        }
        self.is_sent
    }

    /// Whether the reply was already sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.is_sent
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.is_sent = false;
    }

    /// Length of the body, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Body of the reply, as far as it was put.
    pub(crate) fn body(&self) -> &[u8] {
        match &self.buffer {
            Buffer::Own(buf) => &buf[..self.len],
            Buffer::Lent(buf) => &buf[..self.len],
        }
    }

    /// The owned body; `None` if it lies at the start of the borrowed buffer.
    pub(crate) fn into_own(self) -> Option<Vec<u8>> {
        match self.buffer {
            Buffer::Own(mut buf) => {
                buf.truncate(self.len);
                Some(buf)
            }
            Buffer::Lent(_) => None,
        }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Puts a 32-bit number in native byte order.
    pub(crate) fn u32(&mut self, value: u32) {
        self.put(&value.to_ne_bytes());
    }

    /// Puts a 64-bit number in native byte order.
    pub(crate) fn u64(&mut self, value: u64) {
        self.put(&value.to_ne_bytes());
    }

    /// Puts zero bytes until the length is a multiple of 8.
    pub(crate) fn align(&mut self) {
        let padding = self.len().next_multiple_of(8) - self.len();
        self.zeroes(padding);
    }

    /// Puts `len` zero bytes.
    pub(crate) fn zeroes(&mut self, len: usize) {
        self.room(len).fill(0);
        self.len += len;
    }

    /// Space for `len` more bytes with unspecified contents; [`Self::filled`] appends them.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.len + len;
        if let Buffer::Lent(buf) = &self.buffer
            && end > buf.len()
        {
            self.buffer = Buffer::Own(buf[..self.len].to_vec());
        }
        match &mut self.buffer {
            Buffer::Own(buf) => {
                if end > buf.len() {
                    buf.resize(end, 0);
                }
                &mut buf[self.len..end]
            }
            Buffer::Lent(buf) => &mut buf[self.len..end],
        }
    }

    /// Appends the first `len` bytes of the space from [`Self::room`].
    pub(crate) fn filled(&mut self, len: usize) {
        self.len += len;
        // Checks the range.
        let _ = self.body();
    }

    /// Finishes the reply to request `unique`; the header precedes [`Self::body`]. An error
    /// discards the body.
    pub(crate) fn finish(&mut self, unique: u64, result: Result<(), Errno>) -> ReplyHeader {
        let error = match result {
            Ok(()) => 0,
            Err(errno) => {
                self.clear();
                -errno.0
            }
        };
        self.header(unique, error)
    }

    /// Finishes a notification with the current body.
    pub(crate) fn finish_notification(&self, code: i32) -> ReplyHeader {
        self.header(0, code)
    }

    fn header(&self, unique: u64, error: i32) -> ReplyHeader {
        header(REPLY_HEADER_BYTES + self.len, unique, error)
    }
}

/// `struct fuse_out_header` of a message of `len_bytes` bytes, header included.
fn header(len_bytes: usize, unique: u64, error: i32) -> ReplyHeader {
    let mut header = [0; REPLY_HEADER_BYTES];
    header[0..4].copy_from_slice(&clamp_u32(len_bytes).to_ne_bytes());
    header[4..8].copy_from_slice(&error.to_ne_bytes());
    header[8..16].copy_from_slice(&unique.to_ne_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_carries_no_body() {
        let mut reply = Reply::new(0);
        reply.u64(1);
        let header = reply.finish(5, Err(Errno::EIO));
        assert!(reply.body().is_empty());
        assert_eq!(header[..4], 16u32.to_ne_bytes());
        assert_eq!(header[4..8], (-5i32).to_ne_bytes());
    }

    #[test]
    fn room_grows_and_alignment_pads_with_zeroes() {
        let mut reply = Reply::new(1);
        reply.room(100).fill(0xff);
        reply.filled(3);
        reply.align();
        let header = reply.finish(9, Ok(()));
        assert_eq!(reply.body(), [0xff, 0xff, 0xff, 0, 0, 0, 0, 0]);
        assert_eq!(header[..4], 24u32.to_ne_bytes());
    }

    #[test]
    fn what_does_not_fit_moves() {
        let mut buf = [0; 8];
        let mut reply = Reply::lent(&mut buf);
        reply.u64(1);
        assert_eq!(reply.body(), 1u64.to_ne_bytes());
        reply.u32(2);
        assert_eq!(reply.body()[..8], 1u64.to_ne_bytes());
        assert_eq!(reply.body()[8..], 2u32.to_ne_bytes());
        assert_eq!(reply.into_own().map(|own| own.len()), Some(12));
        let mut reply = Reply::lent(&mut buf);
        reply.u64(3);
        assert_eq!(reply.into_own(), None);
        assert_eq!(buf, 3u64.to_ne_bytes());
    }
}
