//! OCI layouts: `index.json` leads through indexes to the manifest of one platform.

use super::document::{Config, Descriptor, Manifest, read};
use super::store::Store;
use super::{INDEX, Layer, Of};
use crate::Options;
use crate::fault::{Checked, DAMAGED, Fault, shown};
use crate::platform::Platform;

/// Most indexes in each other.
const DEPTH_MAX: usize = 8;
/// Annotations that name an image: of the specification, and of containerd and docker.
const NAMES: [&str; 2] = [
    "org.opencontainers.image.ref.name",
    "io.containerd.image.name",
];
/// Starts of media types of file system layers; compression is seen in the bytes.
const LAYER_TYPES: [&str; 4] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
];
const CHOOSE_NAME: &str = "choose one by its reference";
const CHOOSE_PLATFORM: &str = "choose one of them as the platform";

/// The layers of the chosen image, from the bottom up.
pub(super) fn layers(store: &Store, options: &Options) -> Checked<Vec<Layer>> {
    let top: Manifest = read(store, INDEX, None)?;
    let named = named(top.manifests.unwrap_or_default(), options)?;
    let manifest = manifest(store, named, options)?;
    manifest.layers.iter().flatten().map(layer).collect()
}

fn layer(descriptor: &Descriptor) -> Checked<Layer> {
    let kind = &descriptor.media_type;
    let is_layer = LAYER_TYPES.iter().any(|start| kind.starts_with(start));
    if !is_layer || kind.contains("encrypted") {
        let kind = shown(kind.as_bytes());
        let problem = format!("it has a layer of the type {kind}, which is no tar");
        return Err(Fault::refused(problem, "give an image with a file system"));
    }
    let expected = descriptor.expected()?;
    Ok(Layer {
        name: expected.digest.path(),
        expected,
        of: Of::Blob,
    })
}

/// Goes down to the manifest of the platform.
fn manifest(store: &Store, top: Vec<Descriptor>, options: &Options) -> Checked<Manifest> {
    let mut choices = top;
    let mut is_top = true;
    for _ in 0..DEPTH_MAX {
        let chosen = choose(&choices, options, is_top)?;
        let expected = chosen.expected()?;
        let name = expected.digest.path();
        let mut next: Manifest = read(store, &name, Some(expected))?;
        is_top = false;
        match next.manifests.take() {
            Some(manifests) => choices = manifests,
            None => {
                check_platform(store, chosen, &next, options)?;
                return Ok(next);
            }
        }
    }
    let problem = format!("it has more than {DEPTH_MAX} indexes in each other");
    Err(Fault::refused(problem, DAMAGED))
}

/// The descriptors with the wanted name, each blob once.
fn named(all: Vec<Descriptor>, options: &Options) -> Checked<Vec<Descriptor>> {
    let mut found: Vec<Descriptor> = Vec::new();
    for descriptor in &all {
        let wanted = options.reference.as_deref();
        let is_named = wanted.is_none_or(|wanted| names(descriptor).any(|name| name == wanted));
        let is_new = is_named
            && found
                .iter()
                .all(|other| other.digest_text() != descriptor.digest_text());
        if is_new {
            found.push(descriptor.clone());
        }
    }
    if let (true, Some(wanted)) = (found.is_empty(), &options.reference) {
        let wanted = shown(wanted.as_bytes());
        let problem = format!(
            "it has no image {wanted}, only {}",
            list(all.iter().flat_map(names))
        );
        return Err(Fault::refused(problem, CHOOSE_NAME));
    }
    Ok(found)
}

fn names(descriptor: &Descriptor) -> impl Iterator<Item = &str> {
    let annotations = descriptor.annotations.as_ref();
    NAMES
        .iter()
        .filter_map(move |key| annotations?.get(*key))
        .map(String::as_str)
}

/// The only image, or the one for the platform. In an index of platforms the first one counts; at
/// the top, two that fit are two images.
fn choose<'a>(
    choices: &'a [Descriptor],
    options: &Options,
    is_top: bool,
) -> Checked<&'a Descriptor> {
    let wanted = options.platform.clone().unwrap_or_else(Platform::host);
    let mut fitting = choices
        .iter()
        .filter(|choice| choice.platform.as_ref().map(|one| one.is(&wanted)) == Some(true));
    let mut unnamed = choices.iter().filter(|choice| choice.platform.is_none());
    let several = || {
        let names = list(choices.iter().flat_map(names));
        let problem = format!("it has {} images: {names}", choices.len());
        Err(Fault::refused(problem, CHOOSE_NAME))
    };
    match (choices, fitting.next(), unnamed.next()) {
        ([], _, _) => Err(Fault::refused("it has no image", DAMAGED)),
        ([only], _, _) if options.platform.is_none() || only.platform.is_none() => Ok(only),
        (_, Some(_), _) if is_top && fitting.next().is_some() => several(),
        (_, Some(first), _) => Ok(first),
        (_, None, Some(only)) if unnamed.next().is_none() => Ok(only),
        (_, None, Some(_)) => several(),
        (_, None, None) => {
            let platforms = choices.iter().filter_map(|choice| choice.platform.as_ref());
            let platforms = list(platforms.map(|platform| platform.text()));
            let problem = format!("it has no image for {wanted}, only for {platforms}");
            Err(Fault::refused(problem, CHOOSE_PLATFORM))
        }
    }
}

/// A platform that was asked for must be the one of the image, which may be said only there.
fn check_platform(
    store: &Store,
    chosen: &Descriptor,
    manifest: &Manifest,
    options: &Options,
) -> Checked<()> {
    let (Some(wanted), None, Some(config)) =
        (&options.platform, &chosen.platform, &manifest.config)
    else {
        return Ok(());
    };
    let expected = config.expected()?;
    let name = expected.digest.path();
    let config: Config = read(store, &name, Some(expected))?;
    must_be(&config, wanted)
}

/// Refuses an image for another platform.
pub(super) fn must_be(config: &Config, wanted: &Platform) -> Checked<()> {
    if config.platform.is(wanted) {
        return Ok(());
    }
    let platform = config.platform.text();
    let problem = format!("it has no image for {wanted}, only for {platform}");
    Err(Fault::refused(problem, CHOOSE_PLATFORM))
}

/// Texts for a message, at most eight.
pub(super) fn list<T: AsRef<str>>(texts: impl Iterator<Item = T>) -> String {
    let mut texts: Vec<String> = texts
        .take(9)
        .map(|text| shown(text.as_ref().as_bytes()))
        .collect();
    if texts.len() == 9 {
        texts[8] = "...".into();
    }
    match texts[..] {
        [] => "without names".into(),
        _ => texts.join(", "),
    }
}
