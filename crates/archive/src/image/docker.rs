//! Docker archives: `manifest.json` names a configuration and layers of each image.
//!
//! The configuration has the digests of the tars of all layers. Its own digest is its name, where
//! `docker save` made the archive.

use super::digest::{Digest, Expected};
use super::document::{Config, DockerImage, read};
use super::oci::{list, must_be};
use super::store::Store;
use super::{DOCKER, Layer, Of};
use crate::Options;
use crate::fault::{Checked, DAMAGED, Fault, shown};
use crate::tar::name::path_of;

/// The layers of the chosen image, from the bottom up.
pub(super) fn layers(store: &Store, options: &Options) -> Checked<Vec<Layer>> {
    let images: Vec<DockerImage> = read(store, DOCKER, None)?;
    let image = choose(&images, options)?;
    let name = inside(&image.config)?;
    let config: Config = read(store, &name, digest_in(&name))?;
    if let Some(wanted) = &options.platform {
        must_be(&config, wanted)?;
    }
    let digests = &config.rootfs.diff_ids;
    if digests.len() != image.layers.len() {
        let (layers, digests) = (image.layers.len(), digests.len());
        let problem = format!("it has {layers} layers, but {digests} digests of layers");
        return Err(Fault::refused(problem, DAMAGED));
    }
    let both = image.layers.iter().zip(digests);
    both.map(|(name, digest)| layer(name, digest)).collect()
}

/// Whether `manifest.json` is that of a docker archive: a root file system may have one, too.
pub(super) fn is_archive(store: &Store) -> bool {
    let images: Checked<Vec<DockerImage>> = read(store, DOCKER, None);
    images.is_ok_and(|images| {
        !images.is_empty()
            && images.iter().all(|image| {
                let name = inside(&image.config);
                name.and_then(|name| store.open(&name))
                    .is_ok_and(|blob| blob.is_some())
            })
    })
}

fn layer(name: &str, digest: &str) -> Checked<Layer> {
    Ok(Layer {
        name: inside(name)?,
        expected: Expected {
            digest: Digest::parse(digest)?,
            bytes: None,
        },
        of: Of::Tar,
    })
}

fn choose<'a>(images: &'a [DockerImage], options: &Options) -> Checked<&'a DockerImage> {
    let tags = || {
        list(
            images
                .iter()
                .flat_map(|image| image.repo_tags.iter().flatten()),
        )
    };
    let advice = "choose one by its tag as the reference";
    match (images, &options.reference) {
        ([], _) => Err(Fault::refused("it has no image", DAMAGED)),
        (_, Some(wanted)) => images
            .iter()
            .find(|image| image.repo_tags.iter().flatten().any(|t| t == wanted))
            .ok_or_else(|| {
                let wanted = shown(wanted.as_bytes());
                Fault::refused(format!("it has no image {wanted}, only {}", tags()), advice)
            }),
        ([only], None) => Ok(only),
        (_, None) => {
            let problem = format!("it has {} images: {}", images.len(), tags());
            Err(Fault::refused(problem, advice))
        }
    }
}

/// A name of a file in the archive.
fn inside(name: &str) -> Checked<String> {
    let path = path_of(name.as_bytes());
    let path = path.map_err(|fault| fault.about("its file manifest.json has a name that"))?;
    Ok(String::from_utf8_lossy(&path).into_owned())
}

/// The digest in `HEX.json` or `blobs/sha256/HEX`.
fn digest_in(name: &str) -> Option<Expected> {
    let last = name.rsplit('/').next().unwrap_or(name);
    let hex = last.strip_suffix(".json").unwrap_or(last);
    let digest = Digest::parse(&format!("sha256:{hex}")).ok()?;
    Some(Expected {
        digest,
        bytes: None,
    })
}
