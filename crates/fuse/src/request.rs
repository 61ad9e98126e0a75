//! Parser of kernel requests, with a cursor over their arguments.
//!
//! Not here: semantics of the requests (`server`).

use crate::errno::Errno;
use crate::protocol::{EXTENSION_GROUPS, REQUEST_HEADER_BYTES};
use uext4::{Caller, Checks};
use uext4_num::{low_u16, usize_of};
use uext4_sync::OnceLock;

/// Number of the capability `CAP_SYS_ADMIN`.
const SYS_ADMIN: u32 = 21;
/// An id that no user and no group has.
pub(crate) const NO_ID: u32 = u32::MAX;
/// Place of the file system id in a line of ids: after the real, the effective and the saved one.
const FS_ID: usize = 3;
/// Size of `struct fuse_ext_header`, in bytes.
const EXTENSION_HEADER_BYTES: usize = 8;

/// A request: header fields and the bytes after the header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// Operation, one of `protocol::opcode`.
    pub(crate) opcode: u32,
    /// Id of the request, repeated in the reply.
    pub(crate) unique: u64,
    pub(crate) node: u64,
    /// File system user id of the caller.
    pub(crate) uid: u32,
    /// File system group id of the caller.
    pub(crate) gid: u32,
    /// Thread id of the caller; 0 if it is outside our pid namespace.
    pub(crate) pid: u32,
    body: Args<'a>,
    /// Extensions after the arguments, each with a `struct fuse_ext_header`.
    extensions: &'a [u8],
}

impl<'a> Request<'a> {
    /// Parses a contiguous request; `None` if it is shorter than its header says.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(REQUEST_HEADER_BYTES)?;
        Self::parse_parts(header, rest, &[])
    }

    /// Parses a request with the first argument at the start of `first` and the rest in `others`.
    /// `None` if they are shorter than the header says.
    pub(crate) fn parse_parts(header: &'a [u8], first: &'a [u8], others: &'a [u8]) -> Option<Self> {
        let mut head = Args::new(header.get(..REQUEST_HEADER_BYTES)?);
        let len_bytes = usize_of(head.u32().ok()?);
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

    /// Arguments of the request, unread.
    pub(crate) fn args(&self) -> Args<'a> {
        self.body
    }

    /// The caller. The kernel has checked permissions (`default_permissions`). It sends the
    /// relevant groups when a new file may keep setgid.
    pub(crate) fn caller(&self, umask: u32) -> Caller {
        Caller {
            uid: self.uid,
            gid: self.gid,
            groups: self.groups().unwrap_or_default(),
            umask: low_u16(umask & 0o777),
            checks: Checks::Done,
            owner: None,
        }
    }

    /// As [`Self::caller`], with the current supplementary groups of the process, read from
    /// `/proc`. For an invisible process only the primary group is known.
    pub(crate) fn caller_in_groups(&self) -> Caller {
        Caller {
            groups: ids(&self.status(), "Groups:").collect(),
            ..self.caller(0)
        }
    }

    /// The caller by its process alone. An invisible process has no ids ([`NO_ID`]).
    pub(crate) fn process(&self) -> Caller {
        let status = self.status();
        let uid = if works_for_others(&status) {
            None
        } else {
            ids(&status, "Uid:").nth(FS_ID)
        };
        let gid = ids(&status, "Gid:").nth(FS_ID).filter(|_| uid.is_some());
        let groups = ids(&status, "Groups:").filter(|_| uid.is_some());
        Caller {
            uid: uid.unwrap_or(NO_ID),
            gid: gid.unwrap_or(NO_ID),
            groups: groups.collect(),
            ..self.caller(0)
        }
    }

    /// Whether the process may administer the file system, as ext4 asks: by `CAP_SYS_ADMIN` in the
    /// user namespace of the server, as far as its ids tell namespaces apart. An invisible process
    /// may not.
    pub(crate) fn administers(&self) -> bool {
        let status = self.status();
        !works_for_others(&status)
            && has_capability(&status, SYS_ADMIN)
            && user_map(&self.pid.to_string()) == user_map("self")
    }

    /// The `status` of the process; empty if it is invisible.
    fn status(&self) -> String {
        if !shows_own_processes() {
            return String::new();
        }
        let status = std::fs::read(format!("/proc/{}/status", self.pid));
        String::from_utf8_lossy(&status.unwrap_or_default()).into_owned()
    }

    /// Supplementary groups of the caller, if the kernel sent them.
    fn groups(&self) -> Result<Vec<u32>, Errno> {
        let mut rest = Args::new(self.extensions);
        while !rest.first.is_empty() {
            let (size_bytes, kind) = (usize_of(rest.u32()?), rest.u32()?);
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

fn user_map(process: &str) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{process}/uid_map")).ok()
}

/// Value of a line of a process's `status`.
fn line<'a>(status: &'a str, key: &str) -> &'a str {
    let found = status.lines().find_map(|line| line.strip_prefix(key));
    found.unwrap_or_default().trim()
}

/// Ids in a line of a process's `status`.
pub(crate) fn ids<'a>(status: &'a str, key: &str) -> impl Iterator<Item = u32> + use<'a> {
    let words = line(status, key).split_whitespace();
    words.filter_map(|word| word.parse().ok())
}

/// Whether a process has an effective capability, by its `status`.
fn has_capability(status: &str, number: u32) -> bool {
    let set = u64::from_str_radix(line(status, "CapEff:"), 16);
    set.is_ok_and(|set| set >> number & 1 != 0)
}

/// Whether `/proc` is that of the pid namespace of this process, in which the kernel numbers
/// callers. In another one the numbers are those of other processes.
pub(crate) fn shows_own_processes() -> bool {
    static SHOWS: OnceLock<bool> = OnceLock::new();
    *SHOWS.get_or_init(|| {
        let status = std::fs::read("/proc/self/status").unwrap_or_default();
        numbers_one(&String::from_utf8_lossy(&status))
    })
}

/// Whether a process has one number: one for each pid namespace from that of `/proc` to its own.
fn numbers_one(status: &str) -> bool {
    line(status, "NSpid:").split_whitespace().count() == 1
}

/// Whether a task acts with the rights of others, which its `status` does not show: a kernel thread
/// such as those of an NFS server, and a worker of io_uring. A process that takes such a name only
/// loses rights.
fn works_for_others(status: &str) -> bool {
    line(status, "Kthread:") == "1" || line(status, "Name:").starts_with("iou-")
}

/// Cursor over the arguments of a request, in one or two pieces; no argument spans both. A read
/// past the end returns `EPROTO`.
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

    /// Rest of the piece with the next argument.
    fn current(&mut self) -> &mut &'a [u8] {
        if self.first.is_empty() {
            self.first = std::mem::take(&mut self.others);
        }
        &mut self.first
    }

    /// The next `len` bytes; `EPROTO` if there are fewer.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Errno> {
        self.current().split_off(..len).ok_or(Errno::EPROTO)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        self.bytes(N)?.try_into().map_err(|_| Errno::EPROTO)
    }

    fn u16(&mut self) -> Result<u16, Errno> {
        Ok(u16::from_ne_bytes(self.array()?))
    }

    /// The next 32-bit number, in native byte order; `EPROTO` at the end.
    pub(crate) fn u32(&mut self) -> Result<u32, Errno> {
        Ok(u32::from_ne_bytes(self.array()?))
    }

    /// The next 64-bit number, in native byte order; `EPROTO` at the end.
    pub(crate) fn u64(&mut self) -> Result<u64, Errno> {
        Ok(u64::from_ne_bytes(self.array()?))
    }

    /// The next string, without its terminating zero byte.
    pub(crate) fn name(&mut self) -> Result<&'a [u8], Errno> {
        let end = self
            .current()
            .iter()
            .position(|&byte| byte == 0)
            .ok_or(Errno::EPROTO)?;
        let name = self.bytes(end)?;
        self.bytes(1)?;
        Ok(name)
    }

    /// Skips `len` bytes; `EPROTO` if there are fewer.
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
    fn a_process_has_the_ids_of_its_status() {
        let status =
            "Name:\tcat\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t9 10 \nKthread:\t0\n";
        assert_eq!(ids(status, "Uid:").nth(FS_ID), Some(4));
        assert_eq!(ids(status, "Groups:").collect::<Vec<_>>(), [9, 10]);
        assert_eq!(ids("", "Uid:").nth(FS_ID), None);
        assert!(!works_for_others(status));
        assert!(works_for_others("Name:\tiou-wrk-12\nUid:\t0\t0\t0\t0\n"));
        assert!(works_for_others("Name:\tnfsd\nKthread:\t1\n"));
        let bytes = sample();
        let own = Request {
            pid: std::process::id(),
            ..Request::parse(&bytes).expect("it is complete")
        };
        assert_eq!(own.process().uid, rustix::process::geteuid().as_raw());
        assert_eq!(Request { pid: 0, ..own }.process().uid, NO_ID);
    }

    #[test]
    fn capabilities_and_numbers_are_those_of_the_status() {
        let status = "NSpid:\t77\nCapPrm:\tffffffffffffffff\nCapEff:\t0000000000200000\n";
        assert!(has_capability(status, SYS_ADMIN) && !has_capability(status, SYS_ADMIN + 1));
        assert!(!has_capability("", SYS_ADMIN));
        assert!(numbers_one(status));
        assert!(!numbers_one("NSpid:\t77\t1\n") && !numbers_one(""));
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
        // The first piece is larger than its contents.
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
