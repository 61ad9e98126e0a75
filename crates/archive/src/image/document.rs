//! The JSON documents of images, as far as layers need them.

use super::digest::{Digest, Expected, Verified};
use super::store::{Blob, Store};
use crate::fault::{Checked, DAMAGED, Fault, shown};
use crate::platform::Platform;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::io::Read;

/// Most bytes of a document; registries have the same limit for manifests.
const DOCUMENT_MAX_BYTES: u64 = 4 << 20;

/// An index (with `manifests`) or a manifest (with `layers`): some indexes have no media type.
#[derive(Debug, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) manifests: Option<Vec<Descriptor>>,
    pub(crate) config: Option<Descriptor>,
    pub(crate) layers: Option<Vec<Descriptor>>,
}

/// A reference to a blob: its type, digest and size.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    digest: String,
    size: u64,
    pub(crate) platform: Option<NamedPlatform>,
    #[serde(default)]
    pub(crate) annotations: Option<BTreeMap<String, String>>,
}

/// A platform in a descriptor or a configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NamedPlatform {
    pub(crate) os: String,
    pub(crate) architecture: String,
    pub(crate) variant: Option<String>,
}

/// The part of an image's configuration that is used here.
#[derive(Debug, Deserialize)]
pub(crate) struct Config {
    #[serde(flatten)]
    pub(crate) platform: NamedPlatform,
    #[serde(default)]
    pub(crate) rootfs: RootFs,
}

/// Digests of the tars of all layers.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RootFs {
    #[serde(default)]
    pub(crate) diff_ids: Vec<String>,
}

/// An image in the `manifest.json` of a docker archive.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct DockerImage {
    pub(crate) config: String,
    #[serde(default)]
    pub(crate) repo_tags: Option<Vec<String>>,
    pub(crate) layers: Vec<String>,
}

impl NamedPlatform {
    /// Whether it is the wanted one; a variant counts if one is wanted.
    pub(crate) fn is(&self, wanted: &Platform) -> bool {
        let variant_fits = wanted.variant.is_none() || wanted.variant == self.variant;
        self.os == wanted.os && self.architecture == wanted.architecture && variant_fits
    }

    /// As a user would ask for it.
    pub(crate) fn text(&self) -> String {
        let platform = Platform {
            os: self.os.clone(),
            architecture: self.architecture.clone(),
            variant: self.variant.clone(),
        };
        shown(platform.to_string().as_bytes())
    }
}

impl Descriptor {
    /// What the blob must be.
    pub(crate) fn expected(&self) -> Checked<Expected> {
        Ok(Expected {
            digest: Digest::parse(&self.digest)?,
            bytes: Some(self.size),
        })
    }

    /// The digest as it is written.
    pub(crate) fn digest_text(&self) -> &str {
        &self.digest
    }
}

/// Opens a file that must be there.
pub(crate) fn open(store: &Store, name: &str) -> Checked<Blob> {
    store.open(name)?.ok_or_else(|| {
        let problem = format!("it has no file {}", shown(name.as_bytes()));
        Fault::refused(problem, "copy or save the image again, with all its layers")
    })
}

/// Reads a document, and verifies it if its digest is known.
pub(crate) fn read<T: DeserializeOwned>(
    store: &Store,
    name: &str,
    expected: Option<Expected>,
) -> Checked<T> {
    let blob = open(store, name)?;
    let name = shown(name.as_bytes());
    if blob.bytes > DOCUMENT_MAX_BYTES {
        let problem = format!("its file {name} has more than {DOCUMENT_MAX_BYTES} bytes");
        return Err(Fault::refused(problem, DAMAGED));
    }
    let mut reader: Box<dyn Read> = match expected {
        Some(expected) => Box::new(Verified::new(blob.reader, expected)),
        None => blob.reader,
    };
    let mut text = Vec::new();
    reader
        .by_ref()
        .take(DOCUMENT_MAX_BYTES)
        .read_to_end(&mut text)?;
    serde_json::from_slice(&text).map_err(|error| {
        Fault::refused(
            format!("its file {name} is not as it must be: {error}"),
            DAMAGED,
        )
    })
}
