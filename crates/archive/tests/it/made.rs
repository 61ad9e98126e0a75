//! Archives made by hand, block by block, so that they can be wrong.

use std::io::Cursor;
use uext4_archive::{Options, Source};

use crate::recorder::Recorder;

/// A tar in the making.
#[derive(Clone, Default)]
pub(crate) struct Tar(pub(crate) Vec<u8>);

/// A header in the making.
pub(crate) struct Header(pub(crate) [u8; 512]);

impl Header {
    pub(crate) fn new(kind: u8, name: &[u8], size: u64) -> Header {
        let mut header = Header([0; 512]);
        header.0[..name.len()].copy_from_slice(name);
        header
            .put(100, b"0000644\0")
            .put(108, b"0000007\0")
            .put(116, b"0000010\0");
        header.put(124, format!("{size:011o}\0").as_bytes());
        header.put(136, b"00000001000\0").put(257, b"ustar\x0000");
        header.0[156] = kind;
        header
    }

    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Header {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    pub(crate) fn sealed(&mut self) -> [u8; 512] {
        self.put(148, b"        ");
        let sum: u32 = self.0.iter().map(|byte| u32::from(*byte)).sum();
        self.put(148, format!("{sum:06o}\0 ").as_bytes());
        self.0
    }
}

impl Tar {
    pub(crate) fn add(mut self, header: &mut Header, data: &[u8]) -> Tar {
        self.0.extend(header.sealed());
        self.0.extend(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn file(self, name: &str, data: &[u8]) -> Tar {
        self.add(
            &mut Header::new(b'0', name.as_bytes(), data.len() as u64),
            data,
        )
    }

    pub(crate) fn link(self, kind: u8, name: &str, target: &str) -> Tar {
        let mut header = Header::new(kind, name.as_bytes(), 0);
        self.add(header.put(157, target.as_bytes()), b"")
    }

    pub(crate) fn extended(self, kind: u8, text: &[u8]) -> Tar {
        self.add(&mut Header::new(kind, b"extended", text.len() as u64), text)
    }

    pub(crate) fn pax(self, records: &[(&str, &[u8])]) -> Tar {
        self.extended(b'x', &records_of(records))
    }

    /// With its end mark.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}

/// The text of pax records.
pub(crate) fn records_of(records: &[(&str, &[u8])]) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in records {
        let body = key.len() + value.len() + 3;
        let length = (body + 1..)
            .find(|n| n.to_string().len() + body == *n)
            .unwrap();
        text.extend(format!("{length} {key}=").bytes());
        text.extend(*value);
        text.push(b'\n');
    }
    text
}

/// What a stream of these bytes feeds, or the error as text.
pub(crate) fn read(bytes: &[u8], options: &Options) -> Result<Recorder, String> {
    let source = Source::stream("made.tar", Cursor::new(bytes.to_vec()));
    Recorder::of(source, options).map_err(|error| error.to_string())
}

/// What these bytes feed as a regular file.
pub(crate) fn read_file(bytes: &[u8], options: &Options) -> Result<Recorder, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let source = Source::open(file.path()).unwrap();
    let name = file.path().display().to_string();
    Recorder::of(source, options).map_err(|error| error.to_string().replace(&name, "made.tar"))
}
