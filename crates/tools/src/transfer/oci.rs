//! An OCI image layout with one layer.
//!
//! Layout: `blobs/sha256` has layer, configuration and manifest by their digests; `index.json`
//! names the manifest. The configuration has the digest of the layer before its compression.
//! Invariants: the bytes depend on the layer, the platform, the tag and `SOURCE_DATE_EPOCH`.
//! Without that variable no time is told.
//!
//! References: OCI Image Format Specification 1.1.

use super::compress::{Compression, Compressor};
use super::digest::{Digests, Measured, Measuring};
use super::target::{NewDirectory, Old, Target};
use crate::failure::{At, Result};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::PathBuf;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// What an image says of itself.
pub(crate) struct Labels {
    pub(crate) platform: Platform,
    /// Name of the image in the layout.
    pub(crate) tag: String,
    /// Time of creation, as RFC 3339 has it.
    pub(crate) created: Option<String>,
}

/// Operating system and processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Platform {
    os: String,
    architecture: String,
    variant: Option<String>,
}

impl Platform {
    /// Linux on the processor of this machine, in the words of Go.
    pub(crate) fn host() -> Self {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", None),
            "x86" => ("386", None),
            "aarch64" => ("arm64", None),
            "arm" => ("arm", Some("v7".to_owned())),
            "powerpc64" => ("ppc64le", None),
            "loongarch64" => ("loong64", None),
            same => (same, None),
        };
        Self {
            os: "linux".into(),
            architecture: architecture.into(),
            variant,
        }
    }

    /// From `OS/ARCHITECTURE` or `OS/ARCHITECTURE/VARIANT`.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        let words: Vec<&str> = text.split('/').collect();
        let (os, architecture, variant) = match words[..] {
            [os, architecture] => (os, architecture, None),
            [os, architecture, variant] => (os, architecture, Some(variant.to_owned())),
            _ => return Err("it is OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT".into()),
        };
        if words.iter().any(|word| word.is_empty()) {
            return Err("a part of it is empty".into());
        }
        Ok(Self {
            os: os.into(),
            architecture: architecture.into(),
            variant,
        })
    }

    fn values(&self) -> Map<String, Value> {
        let mut values = Map::new();
        values.insert("architecture".into(), json!(self.architecture));
        values.insert("os".into(), json!(self.os));
        if let Some(variant) = &self.variant {
            values.insert("variant".into(), json!(variant));
        }
        values
    }
}

/// The layer of a layout while it is written.
pub(crate) type Layer = Measuring<Compressor<Measuring<Target>>>;

/// A layout that is being made.
pub(crate) struct Layout {
    directory: NewDirectory,
    compression: Compression,
    labels: Labels,
}

impl Layout {
    /// Begins a layout in a new or empty directory.
    pub(crate) fn begin(
        out: &std::path::Path,
        compression: Compression,
        labels: Labels,
    ) -> Result<Self> {
        let directory = NewDirectory::begin(out)?;
        let blobs = directory.work().join("blobs/sha256");
        std::fs::create_dir_all(&blobs).at(out.display())?;
        Ok(Self {
            directory,
            compression,
            labels,
        })
    }

    /// The stream of the layer, a tar archive.
    pub(crate) fn layer(&self) -> Result<Layer> {
        let path = self.directory.work().join("layer");
        let file = Measuring::new(Target::open(&path, Old::Keep)?, Digests::Yes);
        let compressor = Compressor::new(file, self.compression).at(path.display())?;
        Ok(Measuring::new(compressor, Digests::Yes))
    }

    /// Ends layer and layout; returns digests and sizes of manifest and layer.
    pub(crate) fn end(self, layer: Layer) -> Result<(Measured, Measured)> {
        let (compressor, tar) = layer.end();
        let at = self.directory.work().join("layer");
        let (file, blob) = compressor.end().at(at.display())?.end();
        file.keep()?;
        std::fs::rename(&at, self.blob(&blob)).at(at.display())?;
        let config = self.put(&self.config(&tar))?;
        let manifest = json!({
            "config": descriptor(CONFIG, &config),
            "layers": [descriptor(&self.layer_type(), &blob)],
            "mediaType": MANIFEST,
            "schemaVersion": 2,
        });
        let manifest = self.put(&manifest)?;
        self.file("index.json", &self.index(&manifest))?;
        self.file("oci-layout", &json!({"imageLayoutVersion": "1.0.0"}))?;
        self.directory.keep()?;
        Ok((manifest, blob))
    }

    fn layer_type(&self) -> String {
        let suffix = match self.compression {
            Compression::None => "",
            Compression::Gzip => "+gzip",
            Compression::Zstd => "+zstd",
        };
        format!("{LAYER}{suffix}")
    }

    fn config(&self, tar: &Measured) -> Value {
        let mut config = self.labels.platform.values();
        let mut step = json!({"created_by": "uext4 export"});
        if let Some(created) = &self.labels.created {
            config.insert("created".into(), json!(created));
            step["created"] = json!(created);
        }
        config.insert("config".into(), json!({}));
        config.insert("history".into(), json!([step]));
        let layers = json!({"diff_ids": [tar.digest], "type": "layers"});
        config.insert("rootfs".into(), layers);
        Value::Object(config)
    }

    fn index(&self, manifest: &Measured) -> Value {
        let mut entry = descriptor(MANIFEST, manifest);
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": self.labels.tag});
        entry["platform"] = Value::Object(self.labels.platform.values());
        json!({"manifests": [entry], "mediaType": INDEX, "schemaVersion": 2})
    }

    fn put(&self, value: &Value) -> Result<Measured> {
        let bytes = value.to_string().into_bytes();
        let blob = Measured::of(&bytes);
        let path = self.blob(&blob);
        std::fs::write(&path, &bytes).at(path.display())?;
        Ok(blob)
    }

    fn file(&self, name: &str, value: &Value) -> Result<()> {
        let path = self.directory.work().join(name);
        let mut file = std::fs::File::create(&path).at(path.display())?;
        file.write_all(value.to_string().as_bytes())
            .at(path.display())
    }

    /// Path of a blob in the layout, by its digest.
    fn blob(&self, blob: &Measured) -> PathBuf {
        let digest = blob.digest.as_deref().and_then(|name| name.split_once(':'));
        let (algorithm, digits) = digest.expect("all blobs are measured with their digest");
        let blobs = self.directory.work().join("blobs");
        blobs.join(algorithm).join(digits)
    }
}

fn descriptor(media_type: &str, blob: &Measured) -> Value {
    json!({"digest": blob.digest, "mediaType": media_type, "size": blob.bytes})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_have_two_or_three_words() {
        let arm = Platform::parse("linux/arm/v7").unwrap();
        assert_eq!(arm.variant.as_deref(), Some("v7"));
        for wrong in ["linux", "linux/", "/amd64", "a/b/c/d", "a/b/"] {
            assert!(Platform::parse(wrong).is_err(), "{wrong}");
        }
    }
}
