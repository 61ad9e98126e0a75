//! Messages of a connection that reads a snapshot.
//!
//! Layout: the client sends [`Ask::Snapshot`](super::Ask::Snapshot). If it has a file for old
//! contents, the server sends `"file"`, and the client one byte with the file. The reply that
//! follows is a [`Taken`]. From then on the client sends heads of [`HEAD_BYTES`], and the reply to
//! each is a status, a length, and so many bytes.
//!
//! Both ends are on one machine, so integers have its byte order.

use serde::{Deserialize, Serialize};
use uext4::device::SnapshotEnd;

/// Maximum length of a read, in bytes.
pub(super) const READ_BYTES_MAX: u32 = 1 << 20;
/// Size of a request, in bytes.
pub(super) const HEAD_BYTES: usize = 16;
/// Size of a status and a length, in bytes.
pub(super) const STATUS_BYTES: usize = 8;
/// Number of the device with the bits of an earlier copy.
pub(super) const EARLIER: u8 = 2;
/// Answer of a server that wants the file.
pub(super) const SEND_FILE: &str = "file";

/// What a snapshot is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotPurpose {
    /// A check.
    Check,
    /// A copy of the image.
    Backup,
    /// Files or structures are read.
    Read,
}

/// Request for a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotWanted {
    /// What it is for.
    pub purpose: SnapshotPurpose,
    /// The process that reads it.
    pub pid: u32,
    /// Memory of the server for what is overwritten meanwhile, in bytes.
    pub memory_bytes: u64,
    /// Maximum size of the client's file for what does not fit, in bytes; `None`: it has none.
    pub spill_bytes: Option<u64>,
    /// Whether a later copy is to continue this one.
    #[serde(default)]
    pub continues: Continued,
    /// The copy that this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
}

/// Which copy is continued, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Since {
    /// Its identifier.
    pub id: String,
    /// The new copy replaces it; otherwise the new one refers to it.
    pub is_replaced: bool,
}

/// Whether the server notes what changes from a snapshot on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Continued {
    /// No later copy continues this one.
    #[default]
    Never,
    /// The server notes it.
    Later,
}

/// What a client tells of a complete copy, so that the next one finds it as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyIdentity {
    /// UUID of the file system, in hexadecimal digits.
    pub uuid: String,
    /// Bytes of the disk that it has.
    pub disk_bytes: u64,
    /// Its format: what a raw one begins with says nothing.
    pub format: CopyFormat,
    /// Its file, and those behind it.
    pub files: Vec<FileIdentity>,
}

/// The format of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyFormat {
    /// The bytes of the disk.
    Raw,
    /// An image of QEMU.
    Qcow2,
}

/// What tells two states of a file apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileIdentity {
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its last change, in seconds and nanoseconds.
    pub modified: (i64, i64),
    /// SHA-256 of samples, in hexadecimal digits.
    pub samples: String,
}

/// How the server knows the copy that is being made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    /// The identifier, for a later copy.
    pub id: String,
    /// Bytes of a granule, in which differences are told.
    pub granule_bytes: u64,
}

/// What the server knows of the copy that is continued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    /// Bytes of a granule, of which each has a bit.
    pub granule_bytes: u64,
    /// Bytes of the bits.
    pub bitmap_bytes: u64,
    /// The copy.
    pub copy: CopyIdentity,
}

/// The answer to the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) id: u64,
    /// Size of the file system's device.
    pub(super) size_bytes: u64,
    /// Size of the device of an external journal.
    pub(super) journal_bytes: Option<u64>,
    /// The longest time that a write had to wait, in microseconds.
    pub(super) pause_us: u64,
    /// What kept changes from the device before.
    pub(super) unwritten: Option<String>,
    #[serde(default)]
    pub(super) noted: Option<Noted>,
    #[serde(default)]
    pub(super) earlier: Option<Earlier>,
}

/// What became of the work on a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotResult {
    /// A word: `sound`, `damaged`, `incomplete` or `copied`.
    pub verdict: String,
    /// Number of findings.
    pub findings: u64,
    /// A copy that is complete, if a later one is to continue it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyIdentity>,
}

/// A request after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// Bytes of a device: 0 is that of the file system, 1 that of the journal, 2 the bits of what
    /// changed since an earlier copy.
    Read { device: u8, offset: u64, len: u32 },
    /// So many bytes with a [`SnapshotResult`] follow.
    Result { len: u32 },
    /// How far a check is: its pass, and thousandths of that.
    Progress { pass: u8, thousandths: u32 },
    /// So many bytes with numbers of granules follow, 8 bytes each, in which the copy differs from
    /// the snapshot.
    Differs { len: u32 },
}

impl Head {
    pub(super) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let (kind, device, offset, len) = match self {
            Self::Read {
                device,
                offset,
                len,
            } => (0, device, offset, len),
            Self::Result { len } => (1, 0, 0, len),
            Self::Differs { len } => (2, 0, 0, len),
            Self::Progress { pass, thousandths } => (3, pass, 0, thousandths),
        };
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = kind;
        bytes[1] = device;
        bytes[4..8].copy_from_slice(&len.to_ne_bytes());
        bytes[8..].copy_from_slice(&offset.to_ne_bytes());
        bytes
    }

    /// `None`: nonsense.
    pub(super) fn parse(bytes: [u8; HEAD_BYTES]) -> Option<Self> {
        let [kind, device, _, _, l0, l1, l2, l3, offset @ ..] = bytes;
        let len = u32::from_ne_bytes([l0, l1, l2, l3]);
        let offset = u64::from_ne_bytes(offset);
        match kind {
            _ if len > READ_BYTES_MAX => None,
            0 if device < 3 => Some(Self::Read {
                device,
                offset,
                len,
            }),
            1 => Some(Self::Result { len }),
            2 if len % 8 == 0 => Some(Self::Differs { len }),
            3 if len <= 1000 => Some(Self::Progress {
                pass: device,
                thousandths: len,
            }),
            _ => None,
        }
    }
}

/// The begin of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// The bytes follow.
    Data,
    /// All bytes are zero; none follows.
    Zeroes,
    /// The read failed; a text follows.
    Failed,
    /// The snapshot has ended; the numbers of the reason follow.
    Ended,
}

impl Status {
    const ALL: [Self; 4] = [Self::Data, Self::Zeroes, Self::Failed, Self::Ended];

    /// The status, before `len` bytes.
    pub(super) fn to_bytes(self, len: u32) -> [u8; STATUS_BYTES] {
        let number = (0u32..).zip(Self::ALL).find(|(_, status)| *status == self);
        let number = number.map_or(0, |(number, _)| number);
        let mut bytes = [0; STATUS_BYTES];
        bytes[..4].copy_from_slice(&number.to_ne_bytes());
        bytes[4..].copy_from_slice(&len.to_ne_bytes());
        bytes
    }

    /// The status and the number of bytes that follow.
    pub(super) fn parse(bytes: [u8; STATUS_BYTES]) -> Option<(Self, u32)> {
        let [n0, n1, n2, n3, l0, l1, l2, l3] = bytes;
        let number = usize::try_from(u32::from_ne_bytes([n0, n1, n2, n3])).ok()?;
        let len = u32::from_ne_bytes([l0, l1, l2, l3]);
        let status = Self::ALL.get(number).copied();
        status
            .filter(|_| len <= READ_BYTES_MAX)
            .map(|status| (status, len))
    }
}

pub(super) fn end_to_bytes(why: SnapshotEnd) -> [u8; 12] {
    let (kind, value) = why.to_numbers();
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&kind.to_ne_bytes());
    bytes[4..].copy_from_slice(&value.to_ne_bytes());
    bytes
}

pub(super) fn parse_end(bytes: &[u8]) -> SnapshotEnd {
    match bytes.first_chunk::<12>() {
        Some([k0, k1, k2, k3, value @ ..]) => {
            let kind = u32::from_ne_bytes([*k0, *k1, *k2, *k3]);
            SnapshotEnd::of_numbers(kind, u64::from_ne_bytes(*value))
        }
        None => SnapshotEnd::Closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_statuses_come_back_and_nonsense_does_not() {
        let heads = [
            Head::Read {
                device: 1,
                offset: u64::MAX,
                len: READ_BYTES_MAX,
            },
            Head::Result { len: 7 },
            Head::Differs { len: 16 },
            Head::Progress {
                pass: 5,
                thousandths: 1000,
            },
        ];
        for head in heads {
            assert_eq!(Head::parse(head.to_bytes()), Some(head));
        }
        for status in Status::ALL {
            assert_eq!(Status::parse(status.to_bytes(9)), Some((status, 9)));
        }
        let mut long = heads[0].to_bytes();
        long[4] = 1;
        let mut unknown = heads[0].to_bytes();
        unknown[0] = 4;
        let mut fourth = heads[0].to_bytes();
        fourth[1] = 3;
        let odd = Head::Differs { len: 7 }.to_bytes();
        let far = Head::Progress {
            pass: 1,
            thousandths: 1001,
        };
        for nonsense in [long, unknown, fourth, odd, far.to_bytes()] {
            assert_eq!(Head::parse(nonsense), None);
        }
        assert_eq!(Status::parse([4, 0, 0, 0, 0, 0, 0, 0]), None);
        let why = SnapshotEnd::SpillFull {
            limit_bytes: 1 << 40,
        };
        assert_eq!(parse_end(&end_to_bytes(why)), why);
    }
}
