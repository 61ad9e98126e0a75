//! The answer to a request, built in a buffer that its thread uses again and again.

use crate::errno::Errno;
use crate::protocol::ANSWER_HEADER_BYTES;

/// An answer: room for the header, then what was put. Data that a file holds are read straight
/// into the buffer.
pub(crate) struct Answer {
    buf: Vec<u8>,
    len: usize,
}

impl Answer {
    /// An empty answer with room for `capacity_bytes` without growing.
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        let buf = vec![0; ANSWER_HEADER_BYTES + capacity_bytes];
        Self {
            buf,
            len: ANSWER_HEADER_BYTES,
        }
    }

    /// Forgets what was put.
    pub(crate) fn clear(&mut self) {
        self.len = ANSWER_HEADER_BYTES;
    }

    /// Bytes put so far.
    pub(crate) fn len(&self) -> usize {
        self.len - ANSWER_HEADER_BYTES
    }

    /// What was put so far.
    pub(crate) fn body(&self) -> &[u8] {
        &self.buf[ANSWER_HEADER_BYTES..self.len]
    }

    /// Puts bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Puts a 32-bit number.
    pub(crate) fn u32(&mut self, value: u32) {
        self.put(&value.to_ne_bytes());
    }

    /// Puts a 64-bit number.
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

    /// Room for `len` bytes more; [`Self::filled`] puts them. They hold whatever was there before.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.len + len;
        if end > self.buf.len() {
            self.buf.resize(end, 0);
        }
        &mut self.buf[self.len..end]
    }

    /// Puts the first `len` bytes of what [`Self::room`] gave.
    pub(crate) fn filled(&mut self, len: usize) {
        self.len += len;
        debug_assert!(
            self.len <= self.buf.len(),
            "more was filled than there was room for"
        );
    }

    /// The finished answer to request `unique`, ready to send. An error takes what was put away.
    pub(crate) fn finish(&mut self, unique: u64, result: Result<(), Errno>) -> &[u8] {
        let error = match result {
            Ok(()) => 0,
            Err(errno) => {
                self.clear();
                -errno.0
            }
        };
        self.header(unique, error)
    }

    /// A finished notification; the body is what was put.
    pub(crate) fn finish_notification(&mut self, code: i32) -> &[u8] {
        self.header(0, code)
    }

    fn header(&mut self, unique: u64, error: i32) -> &[u8] {
        let len = self.len as u32;
        self.buf[0..4].copy_from_slice(&len.to_ne_bytes());
        self.buf[4..8].copy_from_slice(&error.to_ne_bytes());
        self.buf[8..16].copy_from_slice(&unique.to_ne_bytes());
        &self.buf[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_carries_no_body() {
        let mut answer = Answer::new(0);
        answer.u64(1);
        let bytes = answer.finish(5, Err(Errno::EIO)).to_vec();
        assert_eq!(bytes.len(), ANSWER_HEADER_BYTES);
        assert_eq!(bytes[4..8], (-5i32).to_ne_bytes());
    }

    #[test]
    fn room_grows_and_alignment_pads_with_zeroes() {
        let mut answer = Answer::new(1);
        answer.room(100).fill(0xff);
        answer.filled(3);
        answer.align();
        let bytes = answer.finish(9, Ok(())).to_vec();
        assert_eq!(bytes[16..], [0xff, 0xff, 0xff, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[..4], 24u32.to_ne_bytes());
    }
}
