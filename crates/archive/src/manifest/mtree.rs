//! Specifications of trees: the format mtree of the BSDs and of bsdtar.
//!
//! A line is a name and `KEY=VALUE`. A name without `/` is in the directory of the line before,
//! into which a line of `type=dir` leads and out of which `..` leads; a name with `/` is a whole
//! path.
//! `/set` gives defaults and `/unset` takes them back. Names have `\ooo` for other bytes.
//!
//! | key | meaning |
//! | --- | --- |
//! | `type` | `file` `dir` `link` `char` `block` `fifo` `socket` |
//! | `mode` `uid` `gid` | octal permissions, numbers of owners |
//! | `time` | seconds, and nanoseconds behind a point |
//! | `link` | target of a symbolic link |
//! | `device` | `FORMAT,MAJOR,MINOR`, or a number as Linux has it |
//! | `xattr.NAME` | an extended attribute, with `\ooo`: an addition of this reader |
//! | `optional` | the file may be missing |
//! | `flags` | only `none`: the image gets no inode flags |
//! | `uname` `gname` | only beside `uid` and `gid` |
//!
//! Keys that describe contents (sizes, digests) are comments here; others are refused.
//! Reference: mtree(5) of FreeBSD and of libarchive.

use crate::fault::{Checked, DAMAGED, Fault, shown};
use crate::tar::name::{join, path_of, split};
use std::collections::BTreeMap;
use uext4_builder::{Result, Xattr};
use uext4_format::{DeviceNumber, Timestamp};

const ADVICE: &str = "write it as mtree -c or bsdtar --format=mtree do";
/// Keys that say nothing of what the image gets.
const COMMENTS: &str = "size nlink inode resdevice tags ignore nochange cksum md5 md5digest \
                        rmd160 rmd160digest ripemd160digest sha1 sha1digest sha256 sha256digest \
                        sha384 sha384digest sha512 sha512digest";

/// A parsed mtree specification: attributes by path.
#[derive(Debug, Default)]
pub struct Mtree {
    pub(super) name: String,
    pub(super) lines: BTreeMap<Vec<u8>, Line>,
}

/// What is said of one path.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) kind: Option<EntryType>,
    pub(super) mode: Option<u16>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) mtime: Option<Timestamp>,
    pub(super) target: Option<Vec<u8>>,
    pub(super) device: Option<DeviceNumber>,
    pub(super) xattrs: Vec<Xattr>,
    pub(super) is_optional: bool,
    names: (bool, bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryType {
    File,
    Directory,
    Symlink,
    CharDevice,
    BlockDevice,
    Fifo,
    Socket,
}

impl Mtree {
    /// Reads the text of a specification; its name is for messages.
    ///
    /// # Errors
    /// A line that is none, with its number.
    pub fn parse(name: impl Into<String>, text: &[u8]) -> Result<Mtree> {
        let mut reader = Reading::default();
        reader.mtree.name = name.into();
        for (index, line) in joined(text) {
            let taken = reader.take(index + 1, &line);
            let subject = format!("line {}", index + 1);
            taken.map_err(|fault| fault.about(&subject).of_source(&reader.mtree.name))?;
        }
        Ok(reader.mtree)
    }
}

/// Lines with those that a backslash at the end continues, and the index of the first.
fn joined(text: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut lines: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut goes_on = false;
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let (part, more) = match line.trim_ascii_end().strip_suffix(b"\\") {
            Some(part) => (part, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, whole)) => whole.extend(part),
            None => lines.push((index, part.to_vec())),
        }
        goes_on = more;
    }
    lines
}

#[derive(Default)]
struct Reading {
    mtree: Mtree,
    defaults: Line,
    directory: Vec<u8>,
}

impl Reading {
    fn take(&mut self, number: usize, line: &[u8]) -> Checked<()> {
        let mut words = line
            .split(|byte| byte.is_ascii_whitespace())
            .filter(|word| !word.is_empty());
        match words.next() {
            None | Some([b'#', ..]) => Ok(()),
            Some(b"..") => {
                self.directory = split(&self.directory).0.to_vec();
                Ok(())
            }
            Some(b"/set") => words.try_for_each(|word| self.defaults.set(word)),
            Some(b"/unset") => words.try_for_each(|word| self.defaults.unset(word)),
            Some(name) => self.entry(number, name, words),
        }
    }

    fn entry<'a>(
        &mut self,
        number: usize,
        name: &[u8],
        mut words: impl Iterator<Item = &'a [u8]>,
    ) -> Checked<()> {
        let mut line = self.defaults.clone();
        line.number = number;
        words.try_for_each(|word| line.set(word))?;
        if line.names.0 && line.uid.is_none() || line.names.1 && line.gid.is_none() {
            let problem = "names an owner without its number";
            return Err(Fault::refused(problem, "write uid=NUMBER and gid=NUMBER"));
        }
        let is_whole = name.contains(&b'/');
        let relative = path_of(&unescape(name)?)?;
        let path = if is_whole {
            relative
        } else {
            join(&self.directory, &relative)
        };
        if line.kind == Some(EntryType::Directory) && !is_whole {
            self.directory = path.clone();
        }
        self.mtree.lines.insert(path, line);
        Ok(())
    }
}

impl Line {
    fn set(&mut self, word: &[u8]) -> Checked<()> {
        let equals = word.iter().position(|byte| *byte == b'=');
        let (key, value) = word.split_at(equals.unwrap_or(word.len()));
        let value = value.strip_prefix(b"=").unwrap_or(value);
        let bad = || {
            let problem = format!("has {}, whose value is none", shown(word));
            Fault::refused(problem, ADVICE)
        };
        match key {
            b"type" => self.kind = Some(kind(value).ok_or_else(bad)?),
            b"mode" => self.mode = Some(octal(value).ok_or_else(bad)?),
            b"uid" => self.uid = Some(id(value).ok_or_else(bad)?),
            b"gid" => self.gid = Some(id(value).ok_or_else(bad)?),
            b"time" => self.mtime = Some(time(value).ok_or_else(bad)?),
            b"link" => self.target = Some(unescape(value)?),
            b"device" => self.device = Some(device(value).ok_or_else(bad)?),
            b"uname" => self.names.0 = true,
            b"gname" => self.names.1 = true,
            b"optional" => self.is_optional = true,
            _ => self.set_other(key, value)?,
        }
        Ok(())
    }

    fn set_other(&mut self, key: &[u8], value: &[u8]) -> Checked<()> {
        if let Some(name) = key.strip_prefix(b"xattr.") {
            let (name, value) = (unescape(name)?, unescape(value)?);
            self.xattrs.retain(|xattr| xattr.name != name);
            self.xattrs.push(Xattr { name, value });
            return Ok(());
        }
        if key == b"flags" {
            if matches!(value, b"" | b"none" | b"0") {
                return Ok(());
            }
            let problem = format!(
                "has the flags {}, which an image does not get",
                shown(value)
            );
            let advice = "leave flags out, and set them with chattr on a mount of the image";
            return Err(Fault::refused(problem, advice));
        }
        if COMMENTS.split(' ').any(|known| known.as_bytes() == key) {
            return Ok(());
        }
        let problem = format!("has the key {}, which is none", shown(key));
        Err(Fault::refused(problem, ADVICE))
    }

    fn unset(&mut self, key: &[u8]) -> Checked<()> {
        match key {
            b"all" => *self = Line::default(),
            b"type" => self.kind = None,
            b"mode" => self.mode = None,
            b"uid" => self.uid = None,
            b"gid" => self.gid = None,
            b"time" => self.mtime = None,
            b"link" => self.target = None,
            b"device" => self.device = None,
            b"uname" => self.names.0 = false,
            b"gname" => self.names.1 = false,
            b"optional" => self.is_optional = false,
            _ => {}
        }
        Ok(())
    }
}

fn kind(value: &[u8]) -> Option<EntryType> {
    Some(match value {
        b"file" => EntryType::File,
        b"dir" => EntryType::Directory,
        b"link" => EntryType::Symlink,
        b"char" => EntryType::CharDevice,
        b"block" => EntryType::BlockDevice,
        b"fifo" => EntryType::Fifo,
        b"socket" => EntryType::Socket,
        _ => return None,
    })
}

fn octal(value: &[u8]) -> Option<u16> {
    let mode = u16::from_str_radix(str::from_utf8(value).ok()?, 8).ok()?;
    (mode <= 0o7777).then_some(mode)
}

fn id(value: &[u8]) -> Option<u32> {
    let id = str::from_utf8(value).ok()?.parse().ok()?;
    (id != u32::MAX).then_some(id)
}

/// Nanoseconds are a number behind the point, as bsdtar writes them, not a fraction.
fn time(value: &[u8]) -> Option<Timestamp> {
    let text = str::from_utf8(value).ok()?;
    let (seconds, nanoseconds) = text.split_once('.').unwrap_or((text, "0"));
    let nanoseconds: u32 = nanoseconds.parse().ok()?;
    let time = Timestamp::new(seconds.parse().ok()?, nanoseconds);
    (nanoseconds < 1_000_000_000).then_some(time)
}

fn device(value: &[u8]) -> Option<DeviceNumber> {
    let text = str::from_utf8(value).ok()?;
    let words: Vec<&str> = text.split(',').collect();
    match words[..] {
        [number] => Some(DeviceNumber::of_new(integer(number)?)),
        [_, major, minor] => {
            let (major, minor) = (integer(major)?, integer(minor)?);
            (major <= 0xFFF && minor <= 0xF_FFFF).then_some(DeviceNumber { major, minor })
        }
        _ => None,
    }
}

fn integer(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Replaces `\ooo`, and `\s` `\t` `\n` `\r` `\#` `\\` of vis(3).
fn unescape(text: &[u8]) -> Checked<Vec<u8>> {
    let bad = || {
        let problem = format!("has a bad escape in {}", shown(text));
        Fault::refused(problem, DAMAGED)
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        out.push(match rest.next().ok_or_else(bad)? {
            b's' => b' ',
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            same @ (b'\\' | b'#') => *same,
            first @ b'0'..=b'3' => {
                let two = rest.as_slice().get(..2).ok_or_else(bad)?;
                rest.nth(1);
                if !two.iter().all(|digit| matches!(digit, b'0'..=b'7')) {
                    return Err(bad());
                }
                (first - b'0') << 6 | (two[0] - b'0') << 3 | (two[1] - b'0')
            }
            _ => return Err(bad()),
        });
    }
    Ok(out)
}
