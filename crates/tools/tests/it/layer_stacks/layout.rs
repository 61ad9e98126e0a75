//! An OCI layout of a stack of layers, written without help of uext4.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};
use uext4_testkit::layers::Object;

use super::order::Member;

/// One member of a tar: its name, the type flag, the mode, the target of a link, and its size.
struct Fields<'a> {
    name: &'a str,
    flag: u8,
    mode: u16,
    target: &'a str,
    size: u64,
}

/// A header of ustar.
fn header(fields: &Fields<'_>) -> [u8; 512] {
    let mut bytes = [0; 512];
    let mut put = |at: usize, text: &str| {
        bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
    };
    put(0, fields.name);
    put(100, &format!("{:07o}", fields.mode));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", fields.size));
    put(136, "14524606000");
    put(148, "        ");
    put(157, fields.target);
    put(257, "ustar");
    put(263, "00");
    bytes[156] = fields.flag;
    let sum: u32 = bytes.iter().map(|byte| u32::from(*byte)).sum();
    bytes[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    bytes
}

fn append(tar: &mut Vec<u8>, fields: &Fields<'_>) {
    tar.extend(header(fields));
    tar.resize(tar.len() + fields.size as usize, b'x');
    tar.resize(tar.len().next_multiple_of(512), 0);
}

fn append_entry(tar: &mut Vec<u8>, path: &str, object: &Object) {
    let mut fields = Fields {
        name: path,
        flag: b'0',
        mode: 0o644,
        target: "",
        size: 0,
    };
    match object {
        Object::Directory { mode: None } => return,
        Object::Directory { mode: Some(mode) } => (fields.flag, fields.mode) = (b'5', *mode),
        Object::File(size) => fields.size = *size,
        Object::Symlink(target) => {
            (fields.flag, fields.mode, fields.target) = (b'2', 0o777, target);
        }
        Object::Link(target) => (fields.flag, fields.target) = (b'1', target),
    }
    append(tar, &fields);
}

/// An uncompressed tar.
fn tar(members: &[Member]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (path, object) in members {
        append_entry(&mut tar, path, object);
    }
    tar.resize(tar.len() + 1024, 0);
    tar
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a blob; returns its descriptor without the last brace.
fn blob(layout: &Path, kind: &str, bytes: &[u8]) -> String {
    let digest = digest(bytes);
    fs::write(layout.join("blobs/sha256").join(&digest), bytes).expect("a blob");
    let (kind, size) = (format!("application/vnd.oci.image.{kind}"), bytes.len());
    format!(r#"{{"mediaType":"{kind}","digest":"sha256:{digest}","size":{size}"#)
}

/// Makes a layout of layers, the lowest first, with the reference `latest`.
pub(super) fn write(layout: &Path, layers: &[Vec<Member>]) {
    let tars: Vec<Vec<u8>> = layers.iter().map(|members| tar(members)).collect();
    fs::create_dir_all(layout.join("blobs/sha256")).expect("a directory");
    let layers = tars
        .iter()
        .map(|tar| blob(layout, "layer.v1.tar", tar) + "}");
    let layers = layers.collect::<Vec<_>>().join(",");
    let ids = tars
        .iter()
        .map(|tar| format!(r#""sha256:{}""#, digest(tar)));
    let ids = ids.collect::<Vec<_>>().join(",");
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","config":{{}},
        "rootfs":{{"type":"layers","diff_ids":[{ids}]}}}}"#
    );
    let config = blob(layout, "config.v1+json", config.as_bytes());
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"{kind}","config":{config}}},"layers":[{layers}]}}"#
    );
    let manifest = blob(layout, "manifest.v1+json", manifest.as_bytes());
    let name = r#""annotations":{"org.opencontainers.image.ref.name":"latest"}"#;
    let index = format!(r#"{{"schemaVersion":2,"manifests":[{manifest},{name}}}]}}"#);
    fs::write(layout.join("index.json"), index).expect("the index");
    let version = r#"{"imageLayoutVersion":"1.0.0"}"#;
    fs::write(layout.join("oci-layout"), version).expect("the version");
}
