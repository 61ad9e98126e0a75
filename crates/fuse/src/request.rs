//! A request of the kernel, and a cursor over its arguments.
//!
//! Not here: what the requests mean (`server`).

use crate::errno::Errno;
use crate::protocol::{EXTENSION_GROUPS, REQUEST_HEADER_BYTES};
use uext4::{Caller, Checks};

/// Bytes of `struct fuse_ext_header`.
const EXTENSION_HEADER_BYTES: usize = 8;

/// One request: the header's fields and the bytes behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// What is asked, one of `protocol::opcode`.
    pub(crate) opcode: u32,
    /// Identifies the answer.
    pub(crate) unique: u64,
    /// The node that it is about.
    pub(crate) node: u64,
    /// File system user id of the caller.
    pub(crate) uid: u32,
    /// File system group id of the caller.
    pub(crate) gid: u32,
    /// Thread id of the caller; 0 when we cannot see it.
    pub(crate) pid: u32,
    body: Args<'a>,
    /// What follows the arguments, `struct fuse_ext_header` by `struct fuse_ext_header`.
    extensions: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads a request that lies in one piece. `None` when it is shorter than it says.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(REQUEST_HEADER_BYTES)?;
        Self::parse_parts(header, rest, &[])
    }

    /// Reads a request of which the first argument lies at the start of `first` and the others are
    /// `others`. `None` when they are shorter than the header says.
    pub(crate) fn parse_parts(header: &'a [u8], first: &'a [u8], others: &'a [u8]) -> Option<Self> {
        let mut head = Args::new(header.get(..REQUEST_HEADER_BYTES)?);
        let len_bytes = head.u32().ok()? as usize;
        let opcode = head.u32().ok()?;
        let unique = head.u64().ok()?;
        let node = head.u64().ok()?;
        let uid = head.u32().ok()?;
        let gid = head.u32().ok()?;
        let pid = head.u32().ok()?;
        let extension_bytes = 8 * usize::from(head.u16().ok()?);
        let first_bytes = len_bytes
            .checked_sub(REQUEST_HEADER_BYTES)?
            .checked_sub(others.len())?;
        let mut body = Args {
            first: first.get(..first_bytes)?,
            others,
        };
        let last = if others.is_empty() {
            &mut body.first
        } else {
            &mut body.others
        };
        let arguments_bytes = last.len().checked_sub(extension_bytes)?;
        let extensions = last.split_off(arguments_bytes..)?;
        Some(Self {
            opcode,
            unique,
            node,
            uid,
            gid,
            pid,
            body,
            extensions,
        })
    }

    /// The arguments, from the first.
    pub(crate) fn args(&self) -> Args<'a> {
        self.body
    }

    /// Who asks. The kernel has checked permissions already (`default_permissions`); groups are
    /// needed for that, and where a new file keeps setgid: the kernel sends then those that matter.
    pub(crate) fn caller(&self, umask: u32) -> Caller {
        Caller {
            uid: self.uid,
            gid: self.gid,
            groups: self.groups().unwrap_or_default(),
            umask: (umask & 0o777) as u16,
            checks: Checks::Done,
        }
    }

    /// As [`Self::caller`], with the groups that the caller's process has now: the kernel does not
    /// send them. Of a process that we cannot see only its group is known.
    pub(crate) fn caller_in_groups(&self) -> Caller {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid));
        let groups = status.as_deref().map_or_else(|_| Vec::new(), groups_of);
        Caller {
            groups,
            ..self.caller(0)
        }
    }

    /// The caller's supplementary groups, if the kernel sent them.
    fn groups(&self) -> Result<Vec<u32>, Errno> {
        let mut rest = Args::new(self.extensions);
        while !rest.first.is_empty() {
            let (size_bytes, kind) = (rest.u32()? as usize, rest.u32()?);
            let body = size_bytes.checked_sub(EXTENSION_HEADER_BYTES);
            let mut body = Args::new(rest.bytes(body.ok_or(Errno::EPROTO)?)?);
            if kind == EXTENSION_GROUPS {
                let n_groups = body.u32()?;
                return (0..n_groups).map(|_| body.u32()).collect();
            }
        }
        Ok(Vec::new())
    }
}

/// The supplementary groups in a process's `status`.
fn groups_of(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let words = line.unwrap_or_default().split_whitespace();
    words.filter_map(|word| word.parse().ok()).collect()
}

/// The rest of a request's arguments, in one or two pieces; no argument lies in both. A request
/// that is too short answers `EPROTO`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args<'a> {
    first: &'a [u8],
    others: &'a [u8],
}

impl<'a> Args<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let (first, others) = (bytes, [].as_slice());
        Self { first, others }
    }

    /// What is left of the piece that the next argument lies in.
    fn piece(&mut self) -> &mut &'a [u8] {
        if self.first.is_empty() {
            self.first = std::mem::take(&mut self.others);
        }
        &mut self.first
    }

    /// The next `len` bytes.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Errno> {
        self.piece().split_off(..len).ok_or(Errno::EPROTO)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        self.bytes(N)?.try_into().map_err(|_| Errno::EPROTO)
    }

    /// The next 16-bit number.
    fn u16(&mut self) -> Result<u16, Errno> {
        Ok(u16::from_ne_bytes(self.array()?))
    }

    /// The next 32-bit number.
    pub(crate) fn u32(&mut self) -> Result<u32, Errno> {
        Ok(u32::from_ne_bytes(self.array()?))
    }

    /// The next 64-bit number.
    pub(crate) fn u64(&mut self) -> Result<u64, Errno> {
        Ok(u64::from_ne_bytes(self.array()?))
    }

    /// The next string, without the zero byte that ends it.
    pub(crate) fn name(&mut self) -> Result<&'a [u8], Errno> {
        let end = self
            .piece()
            .iter()
            .position(|&byte| byte == 0)
            .ok_or(Errno::EPROTO)?;
        let name = self.bytes(end)?;
        self.bytes(1)?;
        Ok(name)
    }

    /// Leaves `len` bytes out.
    pub(crate) fn skip(&mut self, len: usize) -> Result<(), Errno> {
        self.bytes(len).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [54u32, 12] {
            bytes.extend(word.to_ne_bytes());
        }
        for word in [7u64, 2] {
            bytes.extend(word.to_ne_bytes());
        }
        for word in [1000u32, 100, 4711, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(9u64.to_ne_bytes());
        bytes.extend(b"a\0bcd\0");
        bytes
    }

    #[test]
    fn arguments_come_in_order() {
        let bytes = sample();
        let request = Request::parse(&bytes).expect("it is complete");
        assert_eq!((request.opcode, request.unique, request.node), (12, 7, 2));
        assert_eq!((request.uid, request.gid), (1000, 100));
        let mut args = request.args();
        assert_eq!(args.u64(), Ok(9));
        assert_eq!((args.name(), args.name()), (Ok(&b"a"[..]), Ok(&b"bcd"[..])));
        assert_eq!(args.name(), Err(Errno::EPROTO));
    }

    #[test]
    fn groups_follow_the_arguments() {
        let mut bytes = sample();
        bytes.extend([0; 2]);
        for word in [24u32, 99, 1, 2, 3, 4, 16, EXTENSION_GROUPS, 1, 77] {
            bytes.extend(word.to_ne_bytes());
        }
        let len_bytes = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len_bytes.to_ne_bytes());
        bytes[36..38].copy_from_slice(&5u16.to_ne_bytes());
        let request = Request::parse(&bytes).expect("it is complete");
        assert_eq!(request.caller(0).groups, [77]);
        assert_eq!(request.body.first.len(), 16);
        // A list longer than its header says.
        bytes[88..92].copy_from_slice(&9u32.to_ne_bytes());
        let request = Request::parse(&bytes).expect("it is complete");
        assert!(request.caller(0).groups.is_empty());
        bytes[36..38].copy_from_slice(&99u16.to_ne_bytes());
        assert!(Request::parse(&bytes).is_none());
    }

    #[test]
    fn arguments_in_two_pieces_are_those_in_one() {
        let bytes = sample();
        let (header, rest) = bytes.split_at(REQUEST_HEADER_BYTES);
        // The first piece has room for more than there is.
        let mut first = [0xff; 128];
        first[..8].copy_from_slice(&rest[..8]);
        let parse = |others| Request::parse_parts(header, &first, others);
        let mut args = parse(&rest[8..]).expect("it is complete").args();
        assert_eq!(args.u64(), Ok(9));
        assert_eq!((args.name(), args.name()), (Ok(&b"a"[..]), Ok(&b"bcd"[..])));
        assert_eq!(args.u32(), Err(Errno::EPROTO));
        // More than the whole request.
        assert!(parse(&[0; 99]).is_none());
    }

    #[test]
    fn short_requests_are_refused() {
        let bytes = sample();
        for len in 0..bytes.len() {
            assert!(Request::parse(&bytes[..len]).is_none(), "{len} bytes");
        }
    }
}
