//! Headers of a tar stream: ustar, with a pax header before it for what ustar cannot say.
//!
//! Layout: a header is one record of 512 bytes. A pax header is a file of type `x` before the one
//! that it describes; its content is `LENGTH KEY=VALUE\n` per line.
//! Invariants: the bytes depend on the fields only: the pax header has no time, owner or number of
//! a process, and its lines have a fixed order.
//!
//! A path that is not UTF-8 and fits ustar stays there, where all readers take bytes. A longer one
//! is in an entry of type `L` or `K` as GNU tar writes them, because a pax path is UTF-8. The name
//! of a sparse file has no other place: `hdrcharset=BINARY` says that it is bytes. libarchive needs
//! that line, and GNU tar ignores it with a warning.
//!
//! References: POSIX.1-2008, pax; GNU tar manual, "Storing Sparse Files", "PAX 1"; tar(5).

use uext4::Timestamp;
use uext4_num::{clamp_usize, u64_of};

/// Unit of a tar stream.
pub(super) const RECORD_BYTES: usize = 512;
/// Longest path and link target of a ustar header.
const NAME_BYTES: usize = 100;
/// First size that the 11 octal digits of ustar cannot hold: 8 GiB. It also bounds the time.
const SIZE_END: u64 = 1 << 33;
/// First owner that 7 octal digits cannot hold.
const OWNER_END: u32 = 1 << 21;

/// Type of an entry, as the header names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    File,
    Link,
    Symlink,
    CharDevice,
    BlockDevice,
    Directory,
    Fifo,
    /// Attributes of the next entry.
    Pax,
    /// Path of the next entry, as GNU tar writes a long one.
    LongPath,
    /// Link target of the next entry.
    LongTarget,
}

impl Type {
    fn flag(self) -> u8 {
        match self {
            Type::File => b'0',
            Type::Link => b'1',
            Type::Symlink => b'2',
            Type::CharDevice => b'3',
            Type::BlockDevice => b'4',
            Type::Directory => b'5',
            Type::Fifo => b'6',
            Type::Pax => b'x',
            Type::LongPath => b'L',
            Type::LongTarget => b'K',
        }
    }
}

/// What the headers of one entry say.
pub(super) struct Header<'h> {
    pub(super) path: &'h [u8],
    pub(super) kind: Type,
    pub(super) mode: u16,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Bytes that follow the header, without padding.
    pub(super) stored_bytes: u64,
    pub(super) mtime: Timestamp,
    /// Target of a link; empty for other types.
    pub(super) target: &'h [u8],
    /// Major and minor number of a device.
    pub(super) device: (u32, u32),
    /// Size of a file that is stored without its holes.
    pub(super) sparse_bytes: Option<u64>,
    /// Further lines of the pax header: key and value.
    pub(super) lines: &'h [(Vec<u8>, Vec<u8>)],
}

impl<'h> Header<'h> {
    /// A header that says only this.
    pub(super) fn new(path: &'h [u8], kind: Type) -> Self {
        Self {
            path,
            kind,
            mode: 0o644,
            uid: 0,
            gid: 0,
            stored_bytes: 0,
            mtime: Timestamp::default(),
            target: b"",
            device: (0, 0),
            sparse_bytes: None,
            lines: &[],
        }
    }

    /// Appends all headers of the entry.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let stand_in = self.sparse_bytes.map(|_| stand_in(self.path));
        let field_path = stand_in.as_deref().unwrap_or(self.path);
        long_bytes(field_path, Type::LongPath, out);
        long_bytes(self.target, Type::LongTarget, out);
        let pax = self.pax(field_path);
        if !pax.is_empty() {
            let name = [b"PaxHeaders/", cut(self.path)].concat();
            let header = Header {
                stored_bytes: u64_of(pax.len()),
                ..Header::new(cut(&name), Type::Pax)
            };
            header.ustar(header.path, out);
            out.extend_from_slice(&pax);
            pad(out);
        }
        self.ustar(field_path, out);
    }

    /// The content of the pax header; empty if ustar says all.
    fn pax(&self, field_path: &[u8]) -> Vec<u8> {
        let mut pax = Vec::new();
        if let Some(bytes) = self.sparse_bytes {
            if std::str::from_utf8(self.path).is_err() {
                line(&mut pax, b"hdrcharset", b"BINARY");
            }
            line(&mut pax, b"GNU.sparse.major", b"1");
            line(&mut pax, b"GNU.sparse.minor", b"0");
            line(&mut pax, b"GNU.sparse.name", self.path);
            line(
                &mut pax,
                b"GNU.sparse.realsize",
                bytes.to_string().as_bytes(),
            );
        }
        for (key, text) in [("path", field_path), ("linkpath", self.target)] {
            if needs_line(text) {
                line(&mut pax, key.as_bytes(), text);
            }
        }
        if self.stored_bytes >= SIZE_END {
            line(&mut pax, b"size", self.stored_bytes.to_string().as_bytes());
        }
        for (key, id) in [("uid", self.uid), ("gid", self.gid)] {
            if id >= OWNER_END {
                line(&mut pax, key.as_bytes(), id.to_string().as_bytes());
            }
        }
        if ustar_time(self.mtime).is_none() {
            line(&mut pax, b"mtime", time(self.mtime).as_bytes());
        }
        for (key, value) in self.lines {
            line(&mut pax, key, value);
        }
        pax
    }

    /// Appends the ustar header. A field that is too small for its value is 0, or the beginning of
    /// a text; a header before it has the value.
    fn ustar(&self, path: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        text(out, cut(path), NAME_BYTES);
        octal(out, u64::from(self.mode), 8);
        octal(out, u64::from(self.uid), 8);
        octal(out, u64::from(self.gid), 8);
        octal(out, self.stored_bytes, 12);
        octal(out, ustar_time(self.mtime).unwrap_or(whole(self.mtime)), 12);
        text(out, b"        ", 8);
        out.push(self.kind.flag());
        text(out, cut(self.target), NAME_BYTES);
        out.extend_from_slice(b"ustar\x0000");
        text(out, b"", 64);
        octal(out, u64::from(self.device.0), 8);
        octal(out, u64::from(self.device.1), 8);
        text(out, b"", 167);
        let sum: u64 = out.iter().skip(start).map(|byte| u64::from(*byte)).sum();
        let digits = format!("{sum:06o}\0 ");
        let field = out.iter_mut().skip(start + 148);
        for (byte, digit) in field.zip(digits.bytes()) {
            *byte = digit;
        }
    }
}

/// Fills up the last record with zeroes.
pub(super) fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(RECORD_BYTES), 0);
}

/// Bytes after content of this length, up to the next record.
pub(super) fn padding(content_bytes: u64) -> usize {
    clamp_usize(content_bytes.next_multiple_of(u64_of(RECORD_BYTES)) - content_bytes)
}

/// The path in the ustar header of a sparse file. A reader that knows no sparse files unpacks the
/// map and the data there.
fn stand_in(path: &[u8]) -> Vec<u8> {
    let name_at = path.iter().rposition(|byte| *byte == b'/');
    let (dir, name) = path.split_at(name_at.map_or(0, |slash| slash + 1));
    let stand_in = [dir, b"GNUSparseFile.0/", name].concat();
    // The name that counts is in the pax header; this one needs none of its own.
    if std::str::from_utf8(&stand_in).is_ok() {
        stand_in
    } else {
        cut(&stand_in).to_vec()
    }
}

/// The beginning that fits a ustar header.
fn cut(bytes: &[u8]) -> &[u8] {
    bytes.split_at(bytes.len().min(NAME_BYTES)).0
}

/// Whether a path is in the pax header.
fn needs_line(bytes: &[u8]) -> bool {
    let fits = bytes.len() <= NAME_BYTES && bytes.is_ascii();
    !fits && std::str::from_utf8(bytes).is_ok()
}

/// Appends a long path that is not UTF-8 as an entry of its own.
fn long_bytes(bytes: &[u8], kind: Type, out: &mut Vec<u8>) {
    if bytes.len() <= NAME_BYTES || std::str::from_utf8(bytes).is_ok() {
        return;
    }
    let header = Header {
        stored_bytes: u64_of(bytes.len()) + 1,
        ..Header::new(b"././@LongLink", kind)
    };
    header.ustar(header.path, out);
    out.extend_from_slice(bytes);
    out.push(0);
    pad(out);
}

/// Appends a line of a pax header. Its length counts its own digits.
fn line(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    out.extend_from_slice(length.to_string().as_bytes());
    for part in [b" ", key, b"=", value, b"\n"] {
        out.extend_from_slice(part);
    }
}

fn text(out: &mut Vec<u8>, text: &[u8], width: usize) {
    out.extend_from_slice(text);
    out.resize(out.len() + width - text.len(), 0);
}

/// Appends octal digits and a zero byte; only zeroes if they do not fit.
fn octal(out: &mut Vec<u8>, value: u64, width: usize) {
    let digits = width - 1;
    let bits = 3 * u32::try_from(digits).unwrap_or(0);
    let value = if value >> bits == 0 { value } else { 0 };
    out.extend_from_slice(format!("{value:0digits$o}\0").as_bytes());
}

/// The time as ustar has it; `None` if a line of the pax header is needed.
fn ustar_time(time: Timestamp) -> Option<u64> {
    let seconds = u64::try_from(time.seconds).ok();
    seconds.filter(|seconds| time.nanoseconds == 0 && *seconds < SIZE_END)
}

fn whole(time: Timestamp) -> u64 {
    u64::try_from(time.seconds).unwrap_or(0)
}

/// Seconds since 1970 as a decimal number. Nanoseconds count forward from the whole second.
fn time(time: Timestamp) -> String {
    let (seconds, ns) = (time.seconds, time.nanoseconds);
    match (seconds < 0, ns) {
        (_, 0) => seconds.to_string(),
        (false, _) => format!("{seconds}.{ns:09}"),
        (true, _) => format!("-{}.{:09}", -(seconds + 1), 1_000_000_000 - ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(header: &Header<'_>) -> String {
        String::from_utf8_lossy(&header.pax(header.path)).into_owned()
    }

    #[test]
    fn a_line_counts_its_own_length() {
        for value in [0, 1, 90, 91, 92, 93, 986, 987, 988, 9_000, 99_990] {
            let mut out = Vec::new();
            line(&mut out, b"key", &vec![b'x'; value]);
            let told = String::from_utf8(out.clone()).unwrap();
            let told: usize = told.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(told, out.len(), "value of {value}");
        }
    }

    #[test]
    fn times_before_1970_count_forward() {
        let at = |seconds, nanoseconds| {
            time(Timestamp {
                seconds,
                nanoseconds,
            })
        };
        assert_eq!(at(-1, 700_000_000), "-0.300000000");
        assert_eq!(at(-2, 0), "-2");
        assert_eq!(at(5, 1), "5.000000001");
    }

    #[test]
    fn ustar_alone_where_it_suffices() {
        let plain = Header {
            mtime: Timestamp {
                seconds: 7,
                nanoseconds: 0,
            },
            stored_bytes: SIZE_END - 1,
            uid: OWNER_END - 1,
            ..Header::new(&[b'a'; 100], Type::File)
        };
        let mut out = Vec::new();
        plain.encode(&mut out);
        assert_eq!(out.len(), RECORD_BYTES);
        assert_eq!(&out[124..136], b"77777777777\0");
        let large = Header {
            stored_bytes: SIZE_END,
            ..plain
        };
        assert_eq!(lines(&large), "19 size=8589934592\n");
        let long = [b'a'; 101];
        assert!(lines(&Header::new(&long, Type::File)).starts_with("111 path=aaa"));
        assert_eq!(
            lines(&Header::new("ü".as_bytes(), Type::File)),
            "11 path=ü\n"
        );
        assert_eq!(lines(&Header::new(b"\xff", Type::File)), "");
    }
}
