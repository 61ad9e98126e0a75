//! One source on its way to a sink: as a tar, or as an image.

use crate::ahead::Ahead;
use crate::budget::{Budget, Counted, Side};
use crate::compression::{Compression, MAGIC_BYTES, peek};
use crate::fault::{Checked, Fault};
#[cfg(feature = "oci")]
use crate::image::{self, Index, Store};
use crate::options::{Form, Options};
use crate::tar::{EndMark, Feed, Reader, Tape, Whiteouts};
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use uext4_builder::Sink;
use uext4_num::u64_of;

/// Bytes of a stream that tell whether it is an image: its first headers.
const LOOK_BYTES: u64 = 32 << 10;

/// Bytes that are decoded ahead.
const AHEAD_BYTES: usize = 4 << 20;

/// What feeding a source needs.
pub(crate) struct Work<'a> {
    #[cfg_attr(not(feature = "oci"), expect(dead_code, reason = "layers have names"))]
    pub(crate) name: &'a str,
    pub(crate) options: &'a Options,
    pub(crate) sink: &'a mut dyn Sink,
}

impl Work<'_> {
    /// A tar that is not compressed, in a regular file.
    pub(crate) fn file(&mut self, file: Arc<File>) -> Checked<()> {
        let bytes = file.metadata()?.len();
        Budget::new(self.options.limit).allows(bytes)?;
        let tape = || Tape::file(Arc::clone(&file), 0..bytes);
        if self.may_be_image(tape()) && self.image_in(&file)? {
            return Ok(());
        }
        self.tar(tape(), EndMark::Required)
    }

    /// A stream, compressed or not.
    pub(crate) fn stream(&mut self, reader: Box<dyn Read + Send>) -> Checked<()> {
        let budget = Budget::new(self.options.limit);
        let found = Arc::new(OnceLock::new());
        let told = found.clone();
        let memory = self.options.decoder_memory;
        // The first byte may never come, so the thread waits for that, too.
        let ahead = Ahead::start(AHEAD_BYTES, self.options.is_cancelled, move || {
            let (start, reader) = peek(reader, u64_of(MAGIC_BYTES))?;
            let compression = *told.get_or_init(|| Compression::of(&start));
            let read = Counted {
                reader,
                budget: Arc::clone(&budget),
                side: Side::Read,
            };
            Ok(Box::new(Counted {
                reader: compression.decoder(Box::new(read), memory)?,
                budget,
                side: Side::Made,
            }))
        })?;
        let (start, mut reader) = peek(Box::new(ahead), LOOK_BYTES)?;
        if self.may_be_image(Tape::stream(Box::new(io::Cursor::new(start)))) {
            return self.copied(&mut reader);
        }
        let end_mark = match found.get() {
            Some(Compression::None) | None => EndMark::Required,
            Some(_) => EndMark::Optional,
        };
        self.tar(Tape::stream(reader), end_mark)
    }

    fn tar(&mut self, tape: Tape, end_mark: EndMark) -> Checked<()> {
        let mut reader = Reader::new(tape, end_mark);
        Feed::new(self.sink, self.options, Whiteouts::Files).read(&mut reader)
    }

    /// Whether the first names are those of an image; a tar with other names is not read twice.
    fn may_be_image(&self, tape: Tape) -> bool {
        match self.options.form {
            Form::Tar => false,
            Form::Image => true,
            Form::Detect => begins_like_image(Reader::new(tape, EndMark::Optional)),
        }
    }
}

#[cfg(feature = "oci")]
impl Work<'_> {
    /// A directory with the files of an image.
    pub(crate) fn directory(&mut self, path: PathBuf) -> Checked<()> {
        self.image(&Store::Directory(path))
    }

    fn image(&mut self, store: &Store) -> Checked<()> {
        image::feed(self.name, store, self.sink, self.options).map_err(Fault::Sink)
    }

    /// Feeds the image in a tar; false if there is none.
    fn image_in(&mut self, file: &Arc<File>) -> Checked<bool> {
        let store = Store::Tar(Index::read(file)?);
        if self.options.form == Form::Detect && !image::is_image(&store)? {
            return Ok(false);
        }
        self.image(&store).map(|()| true)
    }

    /// An image in a stream: its table of contents may come last, and its layers are wanted in
    /// another order.
    fn copied(&mut self, reader: &mut dyn Read) -> Checked<()> {
        let mut file = tempfile::tempfile().map_err(no_temporary)?;
        io::copy(reader, &mut file)?;
        let file = Arc::new(file);
        if self.image_in(&file)? {
            return Ok(());
        }
        let bytes = file.metadata()?.len();
        self.tar(Tape::file(file, 0..bytes), EndMark::Required)
    }
}

#[cfg(feature = "oci")]
fn no_temporary(error: io::Error) -> io::Error {
    let directory = std::env::temp_dir();
    let text = format!(
        "no temporary file for the image in {} ({error}); TMPDIR names another directory",
        directory.display()
    );
    io::Error::new(error.kind(), text)
}

#[cfg(not(feature = "oci"))]
impl Work<'_> {
    pub(crate) fn directory(&mut self, _: PathBuf) -> Checked<()> {
        Err(no_images())
    }

    fn image_in(&mut self, _: &Arc<File>) -> Checked<bool> {
        match self.options.form {
            Form::Image => Err(no_images()),
            Form::Tar | Form::Detect => Ok(false),
        }
    }

    fn copied(&mut self, _: &mut dyn Read) -> Checked<()> {
        Err(no_images())
    }
}

#[cfg(not(feature = "oci"))]
fn no_images() -> Fault {
    Fault::refused(
        "images are not built in",
        "give a tar file, or use a build with the feature oci",
    )
}

#[cfg(feature = "oci")]
fn begins_like_image(mut reader: Reader) -> bool {
    while let Ok(Some(member)) = reader.next() {
        if !member.path.is_empty() {
            return image::may_begin_with(&member.path);
        }
    }
    false
}

#[cfg(not(feature = "oci"))]
fn begins_like_image(_: Reader) -> bool {
    false
}
