//! Which image is behind a qcow2 image.
//!
//! References: docs/interop/qcow2.txt of QEMU, "Header" and "Header extensions".

use crate::options::BACKING_NAME_MAX;
use crate::qcow2::BACKING_FORMAT;
use crate::{Backing, Format};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use uext4_num::clamp_usize;

/// Bytes of the header without extensions, of version 2 and of version 3.
const HEADER_BYTES: [u64; 2] = [72, 104];
/// Place of the length of a header of version 3.
const LENGTH_AT: u64 = 100;
/// Most bytes from the begin in which extensions are looked for.
const EXTENSIONS_MAX: u64 = 1 << 16;

impl Backing {
    /// The image behind a qcow2 image. Without a format in the header it is raw.
    ///
    /// # Errors
    /// Of the system; `InvalidData` if the file is no qcow2 image, or not a proper one.
    pub fn of_qcow2(file: &File) -> io::Result<Option<Self>> {
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        let mut magic = [0; 4];
        file.read_exact_at(&mut magic, 0)?;
        let version = word(file, 4)?;
        if &magic != b"QFI\xFB" || !(2..=3).contains(&version) {
            return Err(malformed());
        }
        let name_at = (u64::from(word(file, 8)?) << 32) | u64::from(word(file, 12)?);
        if name_at == 0 {
            return Ok(None);
        }
        let len = clamp_usize(word(file, 16)?);
        if len == 0 || len > BACKING_NAME_MAX {
            return Err(malformed());
        }
        let mut name = vec![0; len];
        file.read_exact_at(&mut name, name_at)?;
        let name = String::from_utf8(name).map_err(|_| malformed())?;
        let start = match version {
            2 => HEADER_BYTES[0],
            _ => HEADER_BYTES[1].max(word(file, LENGTH_AT)?.into()),
        };
        let format = match format_of(file, start)?.as_deref() {
            Some(b"qcow2") => Format::Qcow2,
            _ => Format::Raw,
        };
        Ok(Some(Self { name, format }))
    }
}

/// The format that an extension of the header gives.
fn format_of(file: &File, start: u64) -> io::Result<Option<Vec<u8>>> {
    let mut at = start;
    while at < EXTENSIONS_MAX {
        let (kind, len) = (word(file, at)?, word(file, at + 4)?);
        match kind {
            0 => return Ok(None),
            BACKING_FORMAT if u64::from(len) <= EXTENSIONS_MAX => {
                let mut format = vec![0; clamp_usize(len)];
                file.read_exact_at(&mut format, at + 8)?;
                return Ok(Some(format));
            }
            _ => at += 8 + u64::from(len).next_multiple_of(8),
        }
    }
    Ok(None)
}

fn word(file: &File, at: u64) -> io::Result<u32> {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, at)?;
    Ok(u32::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Container, Options};
    use std::ops::ControlFlow;

    #[test]
    fn what_is_behind_an_image_is_found() {
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join("made.qcow2");
        let wanted = [
            None,
            Some(("./a", Format::Raw)),
            Some(("/b/c.qcow2", Format::Qcow2)),
        ];
        for backing in wanted {
            let backing = backing.map(|(name, format)| Backing {
                name: name.into(),
                format,
            });
            let options = Options {
                format: Format::Qcow2,
                backing: backing.clone(),
                ..Options::default()
            };
            let container = Container::create(&path, options).expect("there is room");
            let made = container.finish(1 << 20, [0; 16], |_| ControlFlow::Continue(()));
            made.expect("there is room");
            let file = File::open(&path).expect("it is there");
            let found = Backing::of_qcow2(&file).expect("it is proper");
            assert_eq!(found, backing);
        }
        std::fs::write(&path, vec![7; 4096]).expect("there is room");
        let file = File::open(&path).expect("it is there");
        let error = Backing::of_qcow2(&file).expect_err("it is none");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
