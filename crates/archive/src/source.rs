//! Opening a source and finding out what it is: by its bytes, not by its name.
//!
//! | source | way |
//! | --- | --- |
//! | directory | an OCI layout, or a docker archive that was unpacked |
//! | plain tar in a regular file | contents are read later, where the builder wants them |
//! | compressed, or a pipe | a thread decodes ahead; contents are streams |
//! | image in a plain tar | its names are indexed, layers are read in place |
//! | image in a pipe, or compressed | first copied to a temporary file without a name |

use crate::compression::{Compression, MAGIC_BYTES};
use crate::fault::{Checked, Fault};
use crate::options::Options;
use crate::tar::name;
use crate::work::Work;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4_builder::{Result, Sink};
use uext4_num::clamp_usize;

/// A tar, an OCI layout or a docker archive.
pub struct Source {
    name: String,
    bytes: Bytes,
}

enum Bytes {
    Directory(PathBuf),
    File(Arc<File>),
    Stream(Box<dyn Read + Send>),
}

impl Source {
    /// Opens a path; `-` is standard input.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(path: impl AsRef<Path>) -> Result<Source> {
        let path = path.as_ref();
        if path == Path::new("-") {
            return Ok(Source::stream("standard input", io::stdin()));
        }
        let name = path.display().to_string();
        let bytes = open(path).map_err(|error| Fault::Read(error).of_source(&name))?;
        Ok(Source { name, bytes })
    }

    /// A stream, with its name for messages.
    pub fn stream(name: impl Into<String>, reader: impl Read + Send + 'static) -> Source {
        Source {
            name: name.into(),
            bytes: Bytes::Stream(Box::new(reader)),
        }
    }

    /// Gives all files to a sink. A plain tar adds to the current layer; an image begins a layer of
    /// the sink before each of its layers but the first.
    ///
    /// # Errors
    /// Those of the source, with the entry and its byte; contents that are refused; those of the
    /// sink. The sink has some files then.
    pub fn feed(self, sink: &mut dyn Sink, options: &Options) -> Result<()> {
        let name = self.name.clone();
        self.start(sink, options)
            .map_err(|fault| fault.of_source(&name))
    }

    fn start(self, sink: &mut dyn Sink, options: &Options) -> Checked<()> {
        if !options.at.is_empty() {
            let path = name::path_of(&options.at);
            if path.map_err(|fault| fault.about("the target path"))? != options.at {
                let problem = "the target path is not made of names with one `/` between each";
                return Err(Fault::refused(problem, "give the shortest form of it"));
            }
        }
        let mut work = Work {
            name: &self.name,
            options,
            sink,
        };
        match self.bytes {
            Bytes::Directory(path) => work.directory(path),
            Bytes::File(file) => {
                let mut start = [0; MAGIC_BYTES];
                let length = clamp_usize(file.metadata()?.len()).min(MAGIC_BYTES);
                file.read_exact_at(&mut start[..length], 0)?;
                match Compression::of(&start) {
                    Compression::None => work.file(file),
                    _ => work.stream(Box::new(file)),
                }
            }
            Bytes::Stream(reader) => work.stream(reader),
        }
    }
}

fn open(path: &Path) -> io::Result<Bytes> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Ok(Bytes::Directory(path.to_owned()));
    }
    // A pipe that replaced the file meanwhile is noticed instead of waited for.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = metadata.is_file().then(|| {
        let mut options = File::options();
        options.read(true).custom_flags(nonblocking).open(path)
    });
    match opened.transpose()? {
        Some(file) if file.metadata()?.is_file() => Ok(Bytes::File(Arc::new(file))),
        Some(_) => Err(io::Error::other("it was replaced by another kind of file")),
        None => Ok(Bytes::Stream(Box::new(Pipe::Unopened(path.to_owned())))),
    }
}

/// A pipe or a device. The thread that reads it opens it: nothing may be at the other end.
enum Pipe {
    Unopened(PathBuf),
    Open(File),
}

impl Read for Pipe {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Pipe::Unopened(path) = self {
            *self = Pipe::Open(File::open(path)?);
        }
        match self {
            Pipe::Open(file) => file.read(buf),
            Pipe::Unopened(_) => Ok(0),
        }
    }
}
