//! Images: OCI layouts and docker archives.
//!
//! Layout: `store` has the files, `digest` verifies them, `document` has the JSON documents, `oci`
//! and `docker` find the layers of one image, `layers` feeds them from the top down.
//! References: OCI image specification (index, manifest, layout); Docker Image Specification v1.2.

mod digest;
mod docker;
mod document;
mod layers;
mod oci;
mod store;

pub(crate) use layers::feed;
pub(crate) use store::{Index, Store};

use crate::fault::{Checked, Fault};
use digest::Expected;

pub(crate) struct Layer {
    /// Name of the blob in the store.
    pub(crate) name: String,
    /// What must be true of its bytes.
    pub(crate) expected: Expected,
    /// Whether the digest is that of the compressed or of the decompressed bytes.
    pub(crate) of: Of,
}

/// The bytes that a digest is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// Those of the blob, compressed as they are (OCI).
    Blob,
    /// Those of the tar (docker archives).
    Tar,
}

/// Names at the root of a layout, and of a docker archive.
const LAYOUT: &str = "oci-layout";
const INDEX: &str = "index.json";
const DOCKER: &str = "manifest.json";

/// Whether a tar that begins with this name may be an image: what `docker save`, skopeo, podman and
/// `tar` of a layout put first.
pub(crate) fn may_begin_with(path: &[u8]) -> bool {
    let first = path.split(|byte| *byte == b'/').next().unwrap_or_default();
    let stem = first.split(|byte| *byte == b'.').next().unwrap_or_default();
    let is_digest = stem.len() == 64 && stem.iter().all(u8::is_ascii_hexdigit);
    let names: [&[u8]; 5] = [
        b"blobs",
        b"repositories",
        LAYOUT.as_bytes(),
        INDEX.as_bytes(),
        DOCKER.as_bytes(),
    ];
    is_digest || names.contains(&first)
}

/// Whether a tar has the table of contents of an image.
pub(crate) fn is_image(store: &Store) -> Checked<bool> {
    let has = |name| store.open(name).map(|blob| blob.is_some());
    Ok(has(LAYOUT)? && has(INDEX)? || has(DOCKER)? && docker::is_archive(store))
}

/// The layers of the chosen image, from the bottom up.
pub(crate) fn layers(store: &Store, options: &crate::Options) -> Checked<Vec<Layer>> {
    if store.open(INDEX)?.is_some() {
        return oci::layers(store, options);
    }
    if store.open(DOCKER)?.is_some() {
        return docker::layers(store, options);
    }
    Err(Fault::refused(
        "it has neither index.json nor manifest.json, so it is no image",
        "give an OCI layout, a docker archive, or a tar of a root file system",
    ))
}
