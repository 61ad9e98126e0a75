//! Gives the members of a tar to a sink, and the whiteouts of a layer.
//!
//! A whiteout is an empty file `.wh.NAME`, which hides NAME of the layers below, or `.wh..wh..opq`,
//! which hides all that these have in its directory. Other names `.wh..wh.*` are notes of AUFS.
//! A hard link leads to an earlier member, or to a file of the layers below: the sink knows them.
//! Reference: OCI image specification, "Image Layer Filesystem Changeset".

use super::name::{join, split};
use super::reader::{Member, MemberType, Reader};
use super::tape::{Stored, Tape};
use crate::fault::{Checked, DAMAGED, Fault};
use crate::options::Options;
use std::io::{self, Read};
use std::sync::Arc;
use uext4_builder::{Content, Data, Entry, Node, Sink};
use uext4_num::{clamp_usize, u64_of};

/// Whether names `.wh.*` are whiteouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whiteouts {
    /// They are files: a plain tar.
    Files,
    /// They hide files of the layers below.
    Hide,
}

const WHITEOUT: &[u8] = b".wh.";
const NOTES: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// The way of members to a sink.
pub(crate) struct Feed<'a> {
    sink: &'a mut dyn Sink,
    options: &'a Options,
    /// Path of the image that gets the root of the tar.
    below: &'a [u8],
    whiteouts: Whiteouts,
}

impl<'a> Feed<'a> {
    pub(crate) fn new(
        sink: &'a mut dyn Sink,
        options: &'a Options,
        whiteouts: Whiteouts,
    ) -> Feed<'a> {
        Feed {
            sink,
            options,
            below: &options.at,
            whiteouts,
        }
    }

    /// Reads a tar to its end.
    pub(crate) fn read(&mut self, reader: &mut Reader) -> Checked<()> {
        while let Some(member) = reader.next()? {
            let (start, stored) = (reader.tape.position(), member.stored);
            let result = self.member(&mut reader.tape, member);
            result.map_err(|fault| reader.locate(fault))?;
            reader.finish(start, stored)?;
        }
        Ok(reader.tape.drain()?)
    }

    fn member(&mut self, tape: &mut Tape, member: Member) -> Checked<()> {
        if self.whiteouts == Whiteouts::Hide && self.hides(&member)? {
            return Ok(());
        }
        if self.options.exclude.matches(&member.path) {
            return Ok(());
        }
        let path = join(self.below, &member.path);
        if member.path.is_empty() && member.kind != MemberType::Directory {
            return Err(Fault::refused("is the root, but no directory", DAMAGED));
        }
        let node = match member.kind {
            MemberType::File => return self.file(tape, member, path),
            MemberType::Link(target) => Node::Link(join(self.below, &target)),
            MemberType::Directory => Node::Directory,
            MemberType::Symlink(target) => Node::Symlink(target),
            MemberType::CharDevice(number) => Node::CharDevice(number),
            MemberType::BlockDevice(number) => Node::BlockDevice(number),
            MemberType::Fifo => Node::Fifo,
        };
        let attributes = member.attributes;
        self.add(Entry {
            path,
            attributes,
            node,
        })
    }

    fn add(&mut self, entry: Entry<'_>) -> Checked<()> {
        self.sink.add(entry).map_err(Fault::Sink)
    }

    fn file(&mut self, tape: &mut Tape, member: Member, path: Vec<u8>) -> Checked<()> {
        let (size, ranges, attributes) = (member.size, member.ranges, member.attributes);
        if let Some((file, start)) = tape.file_position() {
            let file = Box::new(Stored::new(Arc::clone(file), start, &ranges));
            // The sink gets no file whose end is missing.
            tape.skip(member.stored)?;
            let data = Data::Later { ranges, file };
            let node = Node::File(Content { size, data });
            return self.add(Entry {
                path,
                attributes,
                node,
            });
        }
        let mut part = Part {
            left: member.stored,
            failed: None,
            tape,
        };
        let reader = &mut part;
        let data = Data::Stream { ranges, reader };
        let node = Node::File(Content { size, data });
        let result = self.add(Entry {
            path,
            attributes,
            node,
        });
        // A stream that fails is this tar's error, whatever the sink makes of it.
        match part.failed {
            Some(fault) => Err(fault),
            None => result,
        }
    }

    /// Whether the member is a whiteout or a note, which the sink is told.
    fn hides(&mut self, member: &Member) -> Checked<bool> {
        let mut parts = member.path.split(|byte| *byte == b'/');
        if parts.any(|part| part.starts_with(NOTES) && part != OPAQUE) {
            return Ok(true);
        }
        let (directory, last) = split(&member.path);
        let is_inside = directory
            .split(|byte| *byte == b'/')
            .any(|part| part.starts_with(WHITEOUT));
        if is_inside {
            return Err(Fault::refused("is below a whiteout", DAMAGED));
        }
        let Some(hidden) = last.strip_prefix(WHITEOUT) else {
            return Ok(false);
        };
        let above = join(self.below, directory);
        let told = match hidden {
            _ if last == OPAQUE => self.sink.hide_below(&above),
            b"" | b"." | b".." => {
                return Err(Fault::refused("is a whiteout without a name", DAMAGED));
            }
            _ => self.sink.hide(&join(&above, hidden)),
        };
        told.map(|()| true).map_err(Fault::Sink)
    }
}

/// The contents of one member as a stream.
struct Part<'a> {
    tape: &'a mut Tape,
    left: u64,
    failed: Option<Fault>,
}

impl Read for Part<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = clamp_usize(self.left).min(buf.len());
        if count == 0 {
            return Ok(0);
        }
        let result = match self.tape.read(&mut buf[..count]) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            other => other,
        };
        result
            .inspect(|count| self.left -= u64_of(*count))
            .map_err(|error| {
                if error.kind() == io::ErrorKind::Interrupted {
                    return error;
                }
                let copy = io::Error::new(error.kind(), error.to_string());
                self.failed = Some(error.into());
                copy
            })
    }
}
