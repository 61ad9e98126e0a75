//! Contents of streams that may not be needed, in a temporary file without a name.
//!
//! A compressed layer is read once. Whether a file that an upper layer hides has another name is
//! known only at its end, so its contents wait here instead of in the image.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uext4_num::{clamp_i64, clamp_usize, u64_of};

use crate::content::chunks::overlap;
use crate::error::{Error, Result, shown};
use crate::sources::entry::ReadAt;

/// Bytes that are copied at once.
const COPY_BYTES: usize = 256 << 10;

/// The temporary file, which is made when it is needed first.
#[derive(Default)]
pub(crate) struct Spool {
    file: Option<Arc<File>>,
    len: u64,
    /// The directory of the image, if the usual ones do not take a file.
    beside: Option<PathBuf>,
}

impl Spool {
    /// Names the image, whose directory is the last choice of a place.
    pub(crate) fn beside(&mut self, image: &Path) {
        let parent = image.parent().filter(|path| !path.as_os_str().is_empty());
        self.beside = Some(parent.unwrap_or(Path::new(".")).to_owned());
    }

    /// Begins the contents of the file at this path of the image.
    pub(crate) fn begin<'a>(&'a mut self, path: &'a [u8]) -> Result<Writer<'a>> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => Arc::new(self.open()?),
        };
        self.file = Some(file.clone());
        Ok(Writer {
            start: self.len,
            buffer: vec![0; COPY_BYTES],
            len: &mut self.len,
            file,
            path,
        })
    }

    fn open(&self) -> Result<File> {
        let usual = std::env::temp_dir();
        let first = match tempfile::tempfile_in(&usual) {
            Ok(file) => return Ok(file),
            Err(error) => error,
        };
        let others = [Some(PathBuf::from("/var/tmp")), self.beside.clone()];
        let mut others = others.into_iter().flatten();
        let file = others.find_map(|directory| tempfile::tempfile_in(directory).ok());
        file.ok_or_else(|| failed(&usual, first))
    }
}

fn failed(directory: &Path, error: io::Error) -> Error {
    let path = format!(
        "a temporary file in {}, for files of layers that others hide (TMPDIR names another \
         directory),",
        directory.display()
    );
    Error::Image { path, error }
}

/// Takes the contents of one file.
pub(crate) struct Writer<'a> {
    file: Arc<File>,
    path: &'a [u8],
    buffer: Vec<u8>,
    start: u64,
    len: &'a mut u64,
}

impl Writer<'_> {
    /// Copies some of the `left` bytes; returns how many.
    pub(crate) fn copy(&mut self, reader: &mut dyn Read, left: u64) -> Result<u64> {
        let chunk = clamp_usize(left).min(COPY_BYTES);
        let bytes = &mut self.buffer[..chunk];
        reader.read_exact(bytes).map_err(|error| Error::Source {
            source_name: shown(self.path),
            error,
        })?;
        let mut file = &*self.file;
        // A hole instead of zeroes: compressed zeroes must not fill the directory.
        let written = if bytes.iter().all(|byte| *byte == 0) {
            let hole = SeekFrom::Current(clamp_i64(u64_of(chunk)));
            file.seek(hole).map(drop)
        } else {
            file.write_all(bytes)
        };
        written.map_err(|error| failed(&std::env::temp_dir(), error))?;
        *self.len += u64_of(chunk);
        Ok(u64_of(chunk))
    }

    /// The contents, which have these ranges of the file one after the other.
    pub(crate) fn finish(self, ranges: &[Range<u64>]) -> Result<Spooled> {
        let sized = self.file.set_len(*self.len);
        sized.map_err(|error| failed(&std::env::temp_dir(), error))?;
        let mut at = self.start;
        let parts = ranges.iter().map(|range| {
            let part = (range.clone(), at);
            at += range.end - range.start;
            part
        });
        Ok(Spooled {
            parts: parts.collect(),
            file: self.file,
        })
    }
}

/// Contents of one file in the spool.
pub(crate) struct Spooled {
    file: Arc<File>,
    /// Ranges of the file, and where each is in the spool.
    parts: Box<[(Range<u64>, u64)]>,
}

impl ReadAt for Spooled {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        buf.fill(0);
        let first = self.parts.partition_point(|(range, _)| range.end <= offset);
        for (range, at) in &self.parts[first..] {
            if range.start >= offset + u64_of(buf.len()) {
                break;
            }
            if let Some(part) = overlap(range, offset, buf.len()) {
                let from = offset + u64_of(part.start) - range.start;
                self.file.read_exact_at(&mut buf[part], at + from)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spooled_contents_have_zeroes_in_holes() {
        let mut spool = Spool::default();
        for _ in 0..2 {
            let mut writer = spool.begin(b"x").unwrap();
            let mut left = 8;
            while left > 0 {
                left -= writer.copy(&mut &b"abcdefgh"[..], left).unwrap();
            }
            let spooled = writer.finish(&[2..5, 7..9, 9..12]).unwrap();
            let whole = b"\0\0abc\0\0defgh\0\0";
            for from in 0..whole.len() {
                for to in from..whole.len() {
                    let mut buf = vec![b'x'; to - from];
                    spooled.read_at(from as u64, &mut buf).unwrap();
                    assert_eq!(buf, whole[from..to], "{from}..{to}");
                }
            }
        }
    }
    #[test]
    fn zeroes_take_no_space() {
        let mut spool = Spool::default();
        let size = u64_of(4 * COPY_BYTES);
        let mut spooled = Vec::new();
        for byte in [0_u8, 7, 0] {
            let mut writer = spool.begin(b"x").unwrap();
            let mut left = size;
            while left > 0 {
                left -= writer.copy(&mut io::repeat(byte), left).unwrap();
            }
            spooled.push(writer.finish(std::slice::from_ref(&(0..size))).unwrap());
        }
        for (contents, byte) in spooled.iter().zip([0, 7, 0]) {
            let mut buf = vec![1; 4 * COPY_BYTES];
            contents.read_at(0, &mut buf).unwrap();
            assert!(buf.iter().all(|read| *read == byte), "{byte}");
        }
        let used = std::os::unix::fs::MetadataExt::blocks(&spooled[0].file.metadata().unwrap());
        assert!(used * 512 < 2 * size, "{used}");
    }
}
