//! Records of pax extended headers: `LENGTH KEY=VALUE\n`, where values may have any bytes.
//!
//! A record of a file overrides the header, and a global record is the default for all files after
//! it. An empty value takes a record back.
//!
//! | key | meaning |
//! | --- | --- |
//! | `path` `linkpath` `size` `uid` `gid` `mtime` | as POSIX says |
//! | `SCHILY.xattr.NAME` | attribute, raw; GNU tar writes `%` and `=` in NAME as `%25` and `%3D` |
//! | `LIBARCHIVE.xattr.NAME` | attribute, NAME with `%XX`, value in base64 |
//! | `RHT.security.selinux` | attribute `security.selinux` without its zero byte |
//! | `SCHILY.acl.access` `SCHILY.acl.default` | access control list as text |
//! | `SCHILY.devmajor` `SCHILY.devminor` | numbers of a device |
//! | `GNU.sparse.*` | sparse files, see `sparse` |
//!
//! Other keys are comments here: names of owners, other times, flags of other systems.
//! References: POSIX.1-2017, pax, "pax Extended Header"; tar(5) of libarchive.

use super::sparse::PaxSparse;
use crate::fault::{Checked, DAMAGED, Fault, shown};
use std::collections::BTreeMap;
use uext4_format::Timestamp;
use uext4_num::low_u8;

/// Most attributes of a file: the kernel lists 64 KiB of their names.
const XATTRS_MAX: usize = 8192;

/// What extended headers say of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link_path: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u64>,
    pub(crate) gid: Option<u64>,
    pub(crate) mtime: Option<Timestamp>,
    pub(crate) device: (Option<u64>, Option<u64>),
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) acl_access: Option<Vec<u8>>,
    pub(crate) acl_default: Option<Vec<u8>>,
    pub(crate) sparse: PaxSparse,
}

impl Records {
    /// Adds the records of one extended header.
    pub(crate) fn read(&mut self, mut text: &[u8]) -> Checked<()> {
        while !text.is_empty() {
            let (key, value, rest) = split_record(text).ok_or_else(|| {
                Fault::refused("has an extended header that is no pax record", DAMAGED)
            })?;
            self.set(key, value)?;
            text = rest;
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Checked<()> {
        let given = || (!value.is_empty()).then(|| value.to_vec());
        match key {
            b"path" => self.path = given(),
            b"linkpath" => self.link_path = given(),
            b"size" => self.size = number(key, value)?,
            b"uid" => self.uid = number(key, value)?,
            b"gid" => self.gid = number(key, value)?,
            b"mtime" => self.mtime = time(key, value)?,
            b"SCHILY.devmajor" => self.device.0 = number(key, value)?,
            b"SCHILY.devminor" => self.device.1 = number(key, value)?,
            b"SCHILY.acl.access" => self.acl_access = given(),
            b"SCHILY.acl.default" => self.acl_default = given(),
            b"RHT.security.selinux" => {
                self.set_xattr(b"security.selinux".to_vec(), [value, b"\0"].concat())?;
            }
            _ => self.set_prefixed(key, value)?,
        }
        Ok(())
    }

    fn set_prefixed(&mut self, key: &[u8], value: &[u8]) -> Checked<()> {
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            self.set_xattr(unescape(name, is_gnu_escape), value.to_vec())?;
        } else if let Some(name) = key.strip_prefix(b"LIBARCHIVE.xattr.") {
            let value = base64(value).ok_or_else(|| bad(key))?;
            self.set_xattr(unescape(name, |_| true), value)?;
        } else if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
            self.sparse.set(key, value)?;
        }
        Ok(())
    }

    /// One value for each name: the last one. Linux has no attributes outside of these name spaces.
    fn set_xattr(&mut self, name: Vec<u8>, value: Vec<u8>) -> Checked<()> {
        const SPACES: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system."];
        if name.contains(&0) {
            let problem = "has an extended attribute with a zero byte in its name";
            return Err(Fault::refused(problem, DAMAGED));
        }
        if SPACES.iter().any(|space| name.starts_with(space)) {
            if self.xattrs.len() == XATTRS_MAX && !self.xattrs.contains_key(&name) {
                let problem = format!("has more than {XATTRS_MAX} extended attributes");
                return Err(Fault::refused(problem, DAMAGED));
            }
            self.xattrs.insert(name, value);
        }
        Ok(())
    }
}

/// Key, value, and what follows the first record.
fn split_record(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = text.iter().take(20).position(|byte| *byte == b' ')?;
    let length: usize = str::from_utf8(&text[..space]).ok()?.parse().ok()?;
    let (record, rest) = text.split_at_checked(length)?;
    let body = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    Some((&body[..equals], &body[equals + 1..], rest))
}

/// A decimal number, or none for an empty value.
pub(super) fn number(key: &[u8], value: &[u8]) -> Checked<Option<u64>> {
    if value.is_empty() {
        return Ok(None);
    }
    decimal(value).map(Some).ok_or_else(|| bad(key))
}

/// Digits only, without a sign.
pub(super) fn decimal(value: &[u8]) -> Option<u64> {
    let digits = str::from_utf8(value).ok()?;
    let only_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| digits.parse().ok()).flatten()
}

/// Seconds with a fraction, also before 1970: `-1.5` is half a second before second -1.
fn time(key: &[u8], value: &[u8]) -> Checked<Option<Timestamp>> {
    if value.is_empty() {
        return Ok(None);
    }
    let (negative, digits) = match value.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, value),
    };
    let point = digits.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = digits.split_at(point.unwrap_or(digits.len()));
    let seconds = decimal(whole).and_then(|seconds| i64::try_from(seconds).ok());
    let nanoseconds = nanoseconds(fraction.strip_prefix(b".").unwrap_or(fraction));
    let (Some(seconds), Some(nanoseconds)) = (seconds, nanoseconds) else {
        return Err(bad(key));
    };
    Ok(Some(match (negative, nanoseconds) {
        (false, _) => Timestamp::new(seconds, nanoseconds),
        (true, 0) => Timestamp::new(-seconds, 0),
        (true, _) => Timestamp::new(-seconds - 1, 1_000_000_000 - nanoseconds),
    }))
}

/// The first nine digits of a fraction.
fn nanoseconds(digits: &[u8]) -> Option<u32> {
    let all_digits = digits.iter().all(u8::is_ascii_digit);
    let nine = digits
        .iter()
        .copied()
        .chain(std::iter::repeat(b'0'))
        .take(9);
    let value = nine.fold(0, |value, digit| {
        value * 10 + u32::from(digit.wrapping_sub(b'0') & 0xF)
    });
    all_digits.then_some(value)
}

fn bad(key: &[u8]) -> Fault {
    let key = shown(key);
    Fault::refused(
        format!("has a bad value of {key} in its extended header"),
        DAMAGED,
    )
}

/// What GNU tar escapes: the separator of the record, and the escape itself.
fn is_gnu_escape(byte: u8) -> bool {
    matches!(byte, b'%' | b'=')
}

/// Replaces `%XX` where the byte passes.
fn unescape(name: &[u8], passes: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, others)) = rest.split_first() {
        let byte = (*first == b'%')
            .then(|| others.get(..2))
            .flatten()
            .and_then(hex);
        match byte.filter(|byte| passes(*byte)) {
            Some(byte) => {
                out.push(byte);
                rest = &others[2..];
            }
            None => {
                out.push(*first);
                rest = others;
            }
        }
    }
    out
}

fn hex(digits: &[u8]) -> Option<u8> {
    let both = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = str::from_utf8(digits).ok().filter(|_| both)?;
    u8::from_str_radix(digits, 16).ok()
}

/// Base64 with or without its padding.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|byte| !matches!(byte, b'=' | b'\n'));
    let digits = &text[..end.map_or(0, |end| end + 1)];
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    for group in digits.chunks(4) {
        let bits = group.iter().try_fold(0_u32, |bits, digit| {
            Some(bits << 6 | u32::from(base64_digit(*digit)?))
        })?;
        let bits = bits << (6 * (4 - group.len()));
        let bytes = [16, 8, 0].map(|shift| low_u8(bits >> shift));
        let count = group.len().checked_sub(1).filter(|count| *count > 0)?;
        out.extend_from_slice(&bytes[..count]);
    }
    Some(out)
}

fn base64_digit(digit: u8) -> Option<u8> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &[u8]) -> Option<Records> {
        let mut records = Records::default();
        records.read(text).ok().map(|()| records)
    }

    #[test]
    fn values_may_have_any_bytes() {
        let read = records(b"26 SCHILY.xattr.user.a=\n\n\n11 path=x=\n").unwrap_or_default();
        assert_eq!(read.xattrs.len(), 1);
        assert!(read.xattrs.contains_key(b"user.a".as_slice()));
        assert_eq!(read.path.as_deref(), Some(b"x=".as_slice()));
        for bad in [
            b"12 path=x=\n".as_slice(),
            b"10 path=x=\n",
            b"x path=x\n",
            b"3 \n",
            b"99999999999999999999999 path=x\n",
            b"9 path=x",
            b"18446744073709551615 path=x\n",
        ] {
            assert!(records(bad).is_none(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn times_reach_before_1970() {
        let cases: [(&[u8], (i64, u32)); 5] = [
            (b"12.5", (12, 500_000_000)),
            (b"12", (12, 0)),
            (b"1.1234567891", (1, 123_456_789)),
            (b"-1.5", (-2, 500_000_000)),
            (b"-3", (-3, 0)),
        ];
        for (text, (seconds, nanoseconds)) in cases {
            let read = time(b"mtime", text).ok().flatten();
            assert_eq!(read, Some(Timestamp::new(seconds, nanoseconds)));
        }
        for bad in [
            b"x".as_slice(),
            b"1.x",
            b"+1",
            b"--1",
            b"9999999999999999999",
        ] {
            assert!(time(b"mtime", bad).is_err(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn escapes_and_base64() {
        assert_eq!(unescape(b"a%3Db%25c%41%4", is_gnu_escape), b"a=b%c%41%4");
        assert_eq!(unescape(b"%41%zz", |_| true), b"A%zz");
        for (text, value) in [
            (b"".as_slice(), b"".as_slice()),
            (b"TQ", b"M"),
            (b"TWE=", b"Ma"),
            (b"TWFuTWFu", b"ManMan"),
        ] {
            assert_eq!(base64(text).as_deref(), Some(value));
        }
        assert_eq!(base64(b"T"), None);
        assert_eq!(base64(b"T!"), None);
    }
}
