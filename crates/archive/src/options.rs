//! What a caller chooses about a source.

use crate::exclude::Patterns;
use crate::platform::Platform;
use std::num::NonZeroUsize;

/// How a source is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Path of the image that gets the root of the source, as in [`uext4_builder::Entry::path`];
    /// empty for the root.
    pub at: Vec<u8>,
    /// Most bytes after decompression, of all layers together. `None`: none for sources that are
    /// not compressed, else 1 GiB and 200 times what was read.
    pub limit: Option<u64>,
    /// Most bytes that each decoder may take for its window. `None`: 128 MiB for zstd, 256 MiB for
    /// xz; others need less.
    pub decoder_memory: Option<u64>,
    /// Layers that are decompressed at once, each by a thread; together they are up to 64 MiB
    /// ahead. `None` for one per processor, at most 8.
    pub threads: Option<NonZeroUsize>,
    /// Whether the source is a tar or a container image.
    pub form: Form,
    /// Platform of an image; `None` for the only one, or `linux` on this processor if there are
    /// several.
    pub platform: Option<Platform>,
    /// Name of one image in a source with several: `org.opencontainers.image.ref.name` of an OCI
    /// layout, or a tag such as `name:latest` of a docker archive.
    pub reference: Option<String>,
    /// Paths of the source that are left out. A hard link to a file that is left out is refused.
    pub exclude: Patterns,
    /// Asked while a stream is read, also while nothing comes; true ends it with
    /// [`uext4_builder::Error::Cancelled`].
    pub is_cancelled: Option<fn() -> bool>,
}

/// Whether a source is a tar or a container image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// An image if it has an image's table of contents, else a tar.
    #[default]
    Detect,
    /// A tar, whatever its names.
    Tar,
    /// An OCI layout or a docker archive.
    Image,
}

#[cfg(feature = "oci")]
impl Options {
    /// Number of threads to start, with the default filled in.
    pub(crate) fn threads(&self) -> usize {
        match self.threads {
            Some(threads) => threads.get(),
            None => {
                let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
                cores.min(8)
            }
        }
    }
}
