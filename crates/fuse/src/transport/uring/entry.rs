//! Memory of one request: its headers, and a payload buffer shared by request and reply.

use crate::errno::Errno;
use crate::init::WRITE_BYTES_MAX;
use crate::protocol::{REPLY_HEADER_BYTES, REQUEST_HEADER_BYTES};
use crate::reply::Reply;
use crate::request::Request;
use crate::server::{Outcome, RequestClass, Server};
use uext4_num::{clamp_u32, usize_of};
use uext4_sync::Pass;

/// Size of the request or reply header, and of the first argument, in bytes.
const PART_BYTES: usize = 128;
/// Longer arguments, in bytes, stay in the payload buffer, and the reply is built elsewhere.
/// Replies to such requests are short.
const COPY_BYTES_MAX: usize = 4096;

/// `struct fuse_uring_req_header`: the kernel puts a request, the server its reply.
#[repr(C)]
struct Header {
    in_out: [u8; PART_BYTES],
    first_argument: [u8; PART_BYTES],
    flags: u64,
    commit_id: u64,
    payload_bytes: u32,
    padding: u32,
    reserved: u64,
}

/// One entry of a queue. While the kernel owns it, no thread of the server has it.
pub(super) struct Entry {
    header: Box<Header>,
    payload: Box<[u8]>,
    /// Number of its queue.
    pub(super) queue: u16,
    /// Why the kernel gets no reply through the entry for a while.
    pub(super) away: Option<Away>,
    /// A worker copies the data of the entry.
    pub(super) is_copied: bool,
    /// The entry returns from a worker with the reply; otherwise with the original request.
    pub(super) is_served: bool,
    /// Two `struct iovec`: header and payload.
    vectors: [[usize; 2]; 2],
}

/// Reason for a delayed reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Away {
    /// The request waits for other requests.
    NeedsWriteback,
    /// The request is parked at the freeze barrier.
    Parked,
}

/// Reusable buffer for the arguments of a request.
pub(super) type Scratch = Vec<u8>;

impl Entry {
    pub(super) fn new(queue: u16) -> Self {
        let header = Header {
            in_out: [0; PART_BYTES],
            first_argument: [0; PART_BYTES],
            flags: 0,
            commit_id: 0,
            payload_bytes: 0,
            padding: 0,
            reserved: 0,
        };
        Self {
            header: Box::new(header),
            payload: vec![0; usize_of(WRITE_BYTES_MAX)].into(),
            queue,
            away: None,
            is_copied: false,
            is_served: true,
            vectors: [[0; 2]; 2],
        }
    }

    /// Two `struct iovec` with the addresses of header and payload. They stay valid as long as the
    /// entry lives.
    pub(super) fn vectors(&mut self) -> *const libc::iovec {
        let header: *mut Header = &mut *self.header;
        let payload = self.payload.as_mut_ptr();
        self.vectors = [
            [header.expose_provenance(), size_of::<Header>()],
            [payload.expose_provenance(), self.payload.len()],
        ];
        self.vectors.as_ptr().cast()
    }

    /// The kernel's id of the request.
    pub(super) fn commit_id(&self) -> u64 {
        self.header.commit_id
    }

    /// Admits the request and returns its class; the caller holds the pass while it serves it.
    pub(super) fn admit<'s>(&self, server: &'s Server) -> (RequestClass, Option<Pass<'s>>) {
        let n_payload = self.payload_bytes();
        match parse(&self.header, &self.payload[..n_payload]) {
            Some(request) => server.admit(&request),
            None => (RequestClass::Soon, None),
        }
    }

    /// Fetches the dirty pages that the request needs ([`Server::fetch_for`]).
    pub(super) fn fetch_data(&self, server: &Server, class: RequestClass) {
        let n_payload = self.payload_bytes();
        if let Some(request) = parse(&self.header, &self.payload[..n_payload]) {
            server.fetch_for(&request, class);
        }
    }

    /// Replaces the request with an error reply.
    pub(super) fn refuse(&mut self, errno: Errno) {
        let unique = self.header.commit_id;
        self.put(&Reply::new(0).finish(unique, Err(errno)), 0);
    }

    /// Size of the request's arguments except the first, in bytes.
    fn payload_bytes(&self) -> usize {
        self.payload.len().min(usize_of(self.header.payload_bytes))
    }

    /// Serves the request and replaces it with the reply.
    pub(super) fn serve(&mut self, server: &Server, scratch: &mut Scratch) {
        let n_payload = self.payload_bytes();
        let (arguments, mut reply) = if n_payload <= COPY_BYTES_MAX {
            scratch.clear();
            scratch.extend_from_slice(&self.payload[..n_payload]);
            (&scratch[..], Reply::lent(&mut self.payload))
        } else {
            (&self.payload[..n_payload], Reply::new(64))
        };
        let done = match parse(&self.header, arguments) {
            Some(request) => match server.handle(&request, &mut reply) {
                Outcome::Reply(done) => done,
                // The kernel expects a reply to every request on a ring.
                Outcome::Silent => Ok(()),
            },
            None => Err(Errno::EPROTO),
        };
        let header = reply.finish(self.header.commit_id, done);
        let reply_bytes = reply.len();
        let done = match reply.into_own() {
            Some(own) if own.len() > self.payload.len() => Err(Errno::EIO),
            Some(own) => {
                self.payload[..own.len()].copy_from_slice(&own);
                Ok(())
            }
            None => Ok(()),
        };
        match done {
            Ok(()) => self.put(&header, reply_bytes),
            Err(errno) => self.refuse(errno),
        }
    }

    fn put(&mut self, header: &[u8; REPLY_HEADER_BYTES], payload_bytes: usize) {
        self.header.in_out[..REPLY_HEADER_BYTES].copy_from_slice(header);
        self.header.payload_bytes = clamp_u32(payload_bytes);
    }
}

fn parse<'a>(header: &'a Header, others: &'a [u8]) -> Option<Request<'a>> {
    let in_header = &header.in_out[..REQUEST_HEADER_BYTES];
    Request::parse_parts(in_header, &header.first_argument, others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_header_is_that_of_the_protocol() {
        assert_eq!(size_of::<Header>(), 288);
        assert_eq!(offset_of!(Header, commit_id), 264);
        assert_eq!(offset_of!(Header, payload_bytes), 272);
    }

    #[test]
    fn vectors_are_those_of_the_system() {
        let mut entry = Entry::new(3);
        let header: *const Header = &*entry.header;
        let (header, payload) = (header.addr(), entry.payload.as_ptr().addr());
        assert_eq!(entry.vectors().addr(), entry.vectors.as_ptr().addr());
        assert_eq!(size_of::<libc::iovec>(), size_of::<[usize; 2]>());
        assert_eq!(entry.vectors, [[header, 288], [payload, 1 << 20]]);
    }
}
