//! Members of a tar: a header, the extended headers before it, and where its contents are.
//!
//! Extended headers (`x`, `L`, `K`) count for the next member, global ones (`g`) for all after
//! them. Precedence: `x`, then `g`, then `L` and `K`, then the header. Owners are numbers; names of
//! owners are ignored, because they mean something on one machine only.

use super::acl;
use super::header::{BLOCK, Block, Header};
use super::name;
use super::pax::Records;
use super::sparse::SparseMap;
use super::tape::Tape;
use crate::fault::{Checked, DAMAGED, Fault, UNKNOWN_FORM, shown};
use std::io::{self, Read};
use std::ops::Range;
use uext4_builder::{Attributes, Error, Xattr};
use uext4_format::acl::Acl;
use uext4_format::{DeviceNumber, Timestamp};
use uext4_num::{clamp_usize, u64_of};

/// Most bytes of the extended headers of a member: more than the attributes of a file with the
/// feature `ea_inode` usually take.
const EXTENDED_MAX_BYTES: u64 = 64 << 20;
/// Most bytes of the global headers, which are copied for each member.
const GLOBAL_MAX_BYTES: u64 = 64 << 10;
const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// Whether a tar must end with a block of zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndMark {
    /// It must: nothing else tells that the tar is complete.
    Required,
    /// A decoder or a digest tells.
    Optional,
}

/// Type of a member, with its target or device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemberType {
    Directory,
    File,
    Symlink(Vec<u8>),
    /// Path of the target in the archive.
    Link(Vec<u8>),
    CharDevice(DeviceNumber),
    BlockDevice(DeviceNumber),
    Fifo,
}

#[derive(Debug)]
pub(crate) struct Member {
    /// Path below the root of the tar.
    pub(crate) path: Vec<u8>,
    pub(crate) attributes: Attributes,
    pub(crate) kind: MemberType,
    /// Size of a regular file.
    pub(crate) size: u64,
    /// Ranges of the file that the tar has, in this order.
    pub(crate) ranges: Vec<Range<u64>>,
    /// Bytes of the tar that the contents take; the tape is at their start.
    pub(crate) stored: u64,
}

pub(crate) struct Reader {
    pub(crate) tape: Tape,
    end_mark: EndMark,
    globals: Records,
    globals_bytes: u64,
    /// Name of the current member, as far as known, and where its first header is.
    name: Vec<u8>,
    at: u64,
}

/// What the headers before the one of a member say.
#[derive(Default)]
struct Extended {
    records: Option<Records>,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    bytes: u64,
}

impl Reader {
    pub(crate) fn new(tape: Tape, end_mark: EndMark) -> Reader {
        Reader {
            tape,
            end_mark,
            globals: Records::default(),
            globals_bytes: 0,
            name: Vec::new(),
            at: 0,
        }
    }

    /// The next member, or `None` at the end. The caller moves the tape behind its contents with
    /// [`Reader::finish`].
    pub(crate) fn next(&mut self) -> Checked<Option<Member>> {
        self.name.clear();
        self.at = self.tape.position();
        self.member().map_err(|fault| self.locate(fault))
    }

    /// Moves behind the contents of a member that started at `start`.
    pub(crate) fn finish(&mut self, start: u64, stored: u64) -> Checked<()> {
        let read = self.tape.position() - start;
        let result = padded(stored).and_then(|all| Ok(self.tape.skip(all.saturating_sub(read))?));
        result.map_err(|fault| self.locate(fault))
    }

    /// Says which member a fault is about.
    pub(crate) fn locate(&self, fault: Fault) -> Fault {
        let fault = match fault {
            Fault::Read(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Fault::refused("is cut off", DAMAGED)
            }
            Fault::Sink(Error::Refused {
                source_name,
                problem,
                advice,
            }) => Fault::refused(format!("is not accepted: {source_name}: {problem}"), advice),
            other => other,
        };
        let place = match &self.name[..] {
            [] => format!("the header at byte {}", self.at),
            name => format!("the entry {} at byte {}", shown(name), self.at),
        };
        match fault {
            Fault::Read(error) => {
                Fault::Read(io::Error::new(error.kind(), format!("{error}, in {place}")))
            }
            other => other.about(&place),
        }
    }

    fn member(&mut self) -> Checked<Option<Member>> {
        let mut extended = Extended::default();
        loop {
            let Some(block) = self.header_block()? else {
                if extended.bytes > 0 {
                    let problem = "is an extended header without an entry";
                    return Err(Fault::refused(problem, DAMAGED));
                }
                return Ok(None);
            };
            let header = Header::new(&block).map_err(|fault| self.no_header(fault))?;
            match header.kind() {
                b'x' | b'X' => {
                    let text = self.text(&header, &mut extended.bytes, EXTENDED_MAX_BYTES)?;
                    let records = extended.records.get_or_insert_with(|| self.globals.clone());
                    records.read(&text)?;
                }
                b'g' => {
                    let mut bytes = self.globals_bytes;
                    let text = self.text(&header, &mut bytes, GLOBAL_MAX_BYTES)?;
                    self.globals_bytes = bytes;
                    self.globals.read(&text)?;
                    self.check_globals()?;
                }
                b'L' => extended.long_name = Some(self.long_text(&header, &mut extended.bytes)?),
                b'K' => extended.long_link = Some(self.long_text(&header, &mut extended.bytes)?),
                b'V' => self.tape.skip(padded(header.size()?)?)?,
                _ => return self.of_header(&block, &header, extended).map(Some),
            }
        }
    }

    /// Refuses what only one file can have: each entry behind it would cost as much again.
    fn check_globals(&self) -> Checked<()> {
        let globals = &self.globals;
        let names = globals.path.is_some() || globals.link_path.is_some();
        if names || globals.size.is_some() || !globals.sparse.is_empty() {
            let problem = "has a global header with a name, size or map of one file";
            return Err(Fault::refused(problem, DAMAGED));
        }
        Ok(())
    }

    /// A first block without a right checksum is the one of something else.
    fn no_header(&self, fault: Fault) -> Fault {
        if self.tape.position() > u64_of(BLOCK) {
            return fault;
        }
        no_archive()
    }

    /// The next block, or `None` at the end of the tar.
    fn header_block(&mut self) -> Checked<Option<Block>> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.tape.read(&mut block[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        match filled {
            0 if self.end_mark == EndMark::Optional => Ok(None),
            ..BLOCK if self.tape.position() == u64_of(filled) => Err(no_archive()),
            0 => Err(Fault::refused(
                "is missing, and so is the end mark of the archive",
                "the archive is not complete: copy it again, or append 1024 zero bytes if it is",
            )),
            BLOCK if block == [0; BLOCK] => Ok(None),
            BLOCK => Ok(Some(block)),
            _ => Err(Fault::refused("is cut off", DAMAGED)),
        }
    }

    /// Contents of an extended header; with those before it, `sum` of at most `max_bytes`.
    fn text(&mut self, header: &Header<'_>, sum: &mut u64, max_bytes: u64) -> Checked<Vec<u8>> {
        let size = header.size()?;
        *sum = sum.saturating_add(size.max(1));
        if *sum > max_bytes {
            let problem = format!("has extended headers of more than {max_bytes} bytes");
            return Err(Fault::refused(problem, DAMAGED));
        }
        let mut text = vec![0; clamp_usize(size)];
        self.tape.read_exact(&mut text)?;
        self.tape.skip(padded(size)? - size)?;
        Ok(text)
    }

    fn long_text(&mut self, header: &Header<'_>, sum: &mut u64) -> Checked<Vec<u8>> {
        let mut text = self.text(header, sum, EXTENDED_MAX_BYTES)?;
        let end = text.iter().position(|byte| *byte == 0);
        text.truncate(end.unwrap_or(text.len()));
        Ok(text)
    }

    fn of_header(
        &mut self,
        block: &Block,
        header: &Header<'_>,
        extended: Extended,
    ) -> Checked<Member> {
        let records = extended.records.unwrap_or_else(|| self.globals.clone());
        let sparse_name = records.sparse.name.clone().or(records.path.clone());
        let name = sparse_name.or(extended.long_name);
        self.name = name.unwrap_or_else(|| header.name());
        let link = records.link_path.clone().or(extended.long_link);
        let link = link.unwrap_or_else(|| header.link_name().to_vec());
        let kind = kind(header, &records, &self.name, link)?;
        let attributes = attributes(header, &records, &kind)?;
        let (map, stored) = self.contents(block, header, &records, &kind)?;
        Ok(Member {
            path: name::path_of(&self.name)?,
            attributes,
            kind,
            size: map.size,
            ranges: map.ranges,
            stored,
        })
    }

    /// The map of the contents, and the bytes of them from here on.
    fn contents(
        &mut self,
        block: &Block,
        header: &Header<'_>,
        records: &Records,
        kind: &MemberType,
    ) -> Checked<(SparseMap, u64)> {
        let has_data = *kind == MemberType::File || header.kind() == b'D';
        let stored = match records.size {
            _ if !has_data => 0,
            Some(size) => size,
            None => header.size()?,
        };
        padded(stored)?;
        let next = || {
            let mut block = [0; BLOCK];
            self.tape.read_exact(&mut block)?;
            Ok(block)
        };
        if *kind != MemberType::File {
            return Ok((SparseMap::default(), stored));
        }
        if header.kind() == b'S' {
            let map = SparseMap::old_gnu(header, block, next)?;
            return Ok((map.checked(stored)?, stored));
        }
        if let Some((map, taken)) = records.sparse.map(next)? {
            let left = stored
                .checked_sub(taken)
                .ok_or_else(|| Fault::refused("has a sparse map longer than its data", DAMAGED))?;
            return Ok((map.checked(left)?, left));
        }
        let whole = SparseMap {
            size: stored,
            ranges: std::iter::once(0..stored).collect(),
        };
        Ok((whole.checked(stored)?, stored))
    }
}

/// The first bytes are those of no tar file: a text, an image or nothing.
fn no_archive() -> Fault {
    Fault::refused(
        "is none of a tar file",
        "give a tar file, plain or compressed with gzip, zstd, xz, bzip2 or lz4, or a directory",
    )
}

/// Bytes with those that fill up the last block.
fn padded(bytes: u64) -> Checked<u64> {
    let whole = bytes.checked_next_multiple_of(u64_of(BLOCK));
    whole
        .filter(|whole| i64::try_from(*whole).is_ok())
        .ok_or_else(|| Fault::refused("has a size beyond 63 bits", DAMAGED))
}

/// Type of a member. A regular file with a name that ends in `/` is how old tars say directory.
fn kind(header: &Header<'_>, records: &Records, name: &[u8], link: Vec<u8>) -> Checked<MemberType> {
    Ok(match header.kind() {
        b'0' | 0 | b'7' if name.ends_with(b"/") => MemberType::Directory,
        b'0' | 0 | b'7' | b'S' => MemberType::File,
        b'1' => MemberType::Link(name::target_of(&link)?),
        b'2' if link.is_empty() => {
            return Err(Fault::refused(
                "is a symbolic link without a target",
                DAMAGED,
            ));
        }
        b'2' => MemberType::Symlink(link),
        b'3' => MemberType::CharDevice(device(header, records)?),
        b'4' => MemberType::BlockDevice(device(header, records)?),
        b'5' | b'D' => MemberType::Directory,
        b'6' => MemberType::Fifo,
        other => {
            let letter = other.escape_ascii();
            let problem = format!("has the type '{letter}', which is not known");
            return Err(Fault::refused(problem, UNKNOWN_FORM));
        }
    })
}

/// Linux has 12 bits of a major and 20 of a minor number.
fn device(header: &Header<'_>, records: &Records) -> Checked<DeviceNumber> {
    let (major, minor) = header.device()?;
    let major = records.device.0.unwrap_or(major);
    let minor = records.device.1.unwrap_or(minor);
    match (fit(major, 0xFFF), fit(minor, 0xF_FFFF)) {
        (Some(major), Some(minor)) => Ok(DeviceNumber { major, minor }),
        _ => {
            let problem = format!("is the device {major}:{minor}, which Linux cannot have");
            Err(Fault::refused(
                problem,
                "leave the device out of the archive",
            ))
        }
    }
}

fn fit(value: u64, max: u32) -> Option<u32> {
    u32::try_from(value).ok().filter(|value| *value <= max)
}

fn attributes(header: &Header<'_>, records: &Records, kind: &MemberType) -> Checked<Attributes> {
    let mtime = match records.mtime {
        Some(mtime) => mtime,
        None => Timestamp::new(header.mtime()?, 0),
    };
    let mut attributes = Attributes {
        permissions: header.permissions()?,
        uid: owner(records.uid, || header.uid())?,
        gid: owner(records.gid, || header.gid())?,
        mtime,
        xattrs: all_xattrs(records),
    };
    if let Some(acl) = list(&records.acl_access)? {
        attributes.permissions = attributes.permissions & 0o7000 | acl.mode_bits();
        let value = (!acl.is_equivalent_to_mode()).then(|| acl.to_xattr());
        set(&mut attributes.xattrs, ACCESS, value);
    }
    if let Some(acl) = list(&records.acl_default)? {
        if *kind != MemberType::Directory {
            let problem = "has a default ACL, but is no directory";
            return Err(Fault::refused(problem, DAMAGED));
        }
        set(&mut attributes.xattrs, DEFAULT, Some(acl.to_xattr()));
    }
    Ok(attributes)
}

fn all_xattrs(records: &Records) -> Vec<Xattr> {
    let all = records.xattrs.iter();
    let all = all.map(|(name, value)| Xattr {
        name: name.clone(),
        value: value.clone(),
    });
    all.collect()
}

fn list(text: &Option<Vec<u8>>) -> Checked<Option<Acl>> {
    text.as_deref().map_or(Ok(None), acl::parse)
}

fn set(xattrs: &mut Vec<Xattr>, name: &[u8], value: Option<Vec<u8>>) {
    xattrs.retain(|xattr| xattr.name != name);
    let name = name.to_vec();
    xattrs.extend(value.map(|value| Xattr { name, value }));
}

/// All ones is no owner on Linux.
fn owner(record: Option<u64>, header: impl FnOnce() -> Checked<i64>) -> Checked<u32> {
    let number = match record {
        Some(number) => Some(number),
        None => u64::try_from(header()?).ok(),
    };
    let id = number.and_then(|number| u32::try_from(number).ok());
    id.filter(|id| *id != u32::MAX).ok_or_else(|| {
        let problem = "has an owner or a group outside of 0 to 4294967294";
        Fault::refused(
            problem,
            "make the archive with other owners, as tar --owner does",
        )
    })
}
