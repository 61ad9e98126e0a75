//! Images: made by umoci and skopeo, judged by what umoci unpacks; and made by hand to be wrong.

use std::fs;
use std::path::Path;
use uext4_archive::{Options, Source};
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::oracle::Program;

use crate::made::{Tar, read, read_file};
use crate::recorder::Recorder;
use uext4_testkit::skip;

fn run(program: &'static str, arguments: &[&str]) {
    Program::new(program)
        .unwrap()
        .args(arguments)
        .run_ok()
        .unwrap();
}

fn has_programs() -> bool {
    ["umoci", "skopeo"]
        .iter()
        .all(|name| Program::new(name).is_ok())
}

/// A layout with three layers, which change, remove, replace and hide.
fn make_layout(dir: &Path) {
    let layout = dir.join("layout");
    let image = format!("{}:latest", layout.display());
    let bundle = dir.join("bundle");
    let root = bundle.join("rootfs");
    run("umoci", &["init", "--layout", layout.to_str().unwrap()]);
    run("umoci", &["new", "--image", &image]);
    run(
        "umoci",
        &["unpack", "--image", &image, bundle.to_str().unwrap()],
    );
    let repack = || {
        run(
            "umoci",
            &[
                "repack",
                "--refresh-bundle",
                "--image",
                &image,
                bundle.to_str().unwrap(),
            ],
        );
    };
    fs::create_dir_all(root.join("etc/old")).unwrap();
    fs::create_dir_all(root.join("keep/deep")).unwrap();
    for path in [
        "etc/changed",
        "etc/removed",
        "etc/old/inside",
        "keep/deep/file",
        "to-dir",
    ] {
        fs::write(root.join(path), path.repeat(999)).unwrap();
    }
    fs::hard_link(root.join("etc/changed"), root.join("etc/hard")).unwrap();
    repack();
    fs::remove_file(root.join("etc/removed")).unwrap();
    fs::remove_dir_all(root.join("etc/old")).unwrap();
    fs::remove_file(root.join("to-dir")).unwrap();
    fs::create_dir(root.join("to-dir")).unwrap();
    fs::write(root.join("to-dir/new"), "new").unwrap();
    repack();
    fs::create_dir(root.join("etc/old")).unwrap();
    fs::write(root.join("etc/old/again"), "again").unwrap();
    fs::write(root.join("etc/changed"), "changed").unwrap();
    repack();
    // What a second program makes of all layers.
    let judge = dir.join("judge");
    run(
        "umoci",
        &["unpack", "--image", &image, judge.to_str().unwrap()],
    );
}

fn assert_is(expected: &Manifest, source: Source, options: &Options) -> Recorder {
    let recorder = Recorder::of(source, options).unwrap();
    // umoci keeps no attributes of a directory that only a parent of a change is.
    let policy = Policy::archived()
        .ignore(Field::Root)
        .ignore(Field::DirectoryMtime);
    expected.assert_same(&recorder.manifest(), &policy);
    recorder
}

#[test]
fn images_of_umoci_and_skopeo() {
    if !skip::root_or_skip("images_of_umoci_and_skopeo") {
        return;
    }
    if !has_programs() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    make_layout(dir.path());
    let expected = Manifest::of_dir(&dir.path().join("judge/rootfs")).unwrap();
    let layout = dir.path().join("layout");
    let path = |name: &str| dir.path().join(name);
    let of_layout = format!("oci:{}:latest", layout.display());
    let policy = ["--insecure-policy", "copy", &of_layout];
    let copies = [
        (
            "docker.tar",
            format!(
                "docker-archive:{}:some/name:tag",
                path("docker.tar").display()
            ),
        ),
        (
            "oci.tar",
            format!("oci-archive:{}", path("oci.tar").display()),
        ),
        ("zstd", format!("oci:{}:latest", path("zstd").display())),
    ];
    for (name, target) in &copies {
        let mut arguments = policy.to_vec();
        if *name == "zstd" {
            arguments.extend(["--dest-compress-format", "zstd", "--dest-compress"]);
        }
        arguments.push(target);
        run("skopeo", &arguments);
    }
    run(
        "tar",
        &[
            "-cf",
            path("layout.tar").to_str().unwrap(),
            "-C",
            layout.to_str().unwrap(),
            ".",
        ],
    );
    run(
        "tar",
        &[
            "-czf",
            path("layout.tgz").to_str().unwrap(),
            "-C",
            layout.to_str().unwrap(),
            ".",
        ],
    );
    for threads in [1, 8] {
        let options = Options {
            threads: std::num::NonZeroUsize::new(threads),
            ..Options::default()
        };
        for name in [
            "layout",
            "zstd",
            "docker.tar",
            "oci.tar",
            "layout.tar",
            "layout.tgz",
        ] {
            let recorder = assert_is(&expected, Source::open(path(name)).unwrap(), &options);
            assert_eq!(recorder.layer, 2, "{name}");
        }
        let pipe = fs::File::open(path("docker.tar")).unwrap();
        assert_is(&expected, Source::stream("pipe", pipe), &options);
    }
    let tagged = Options {
        reference: Some("docker.io/some/name:tag".into()),
        ..Options::default()
    };
    assert_is(
        &expected,
        Source::open(path("docker.tar")).unwrap(),
        &tagged,
    );
    let absent = Options {
        reference: Some("other".into()),
        ..Options::default()
    };
    for name in ["docker.tar", "layout"] {
        let error = Recorder::of(Source::open(path(name)).unwrap(), &absent).unwrap_err();
        assert!(
            error.to_string().contains("it has no image other, only "),
            "{error}"
        );
    }
}

fn sha256(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x");
    fs::write(&file, bytes).unwrap();
    let output = Program::new("sha256sum")
        .unwrap()
        .arg(&file)
        .run_ok()
        .unwrap();
    output.stdout[..64].to_string()
}

/// A layout in a tar, in the making.
#[derive(Default)]
pub(crate) struct Layout {
    blobs: Vec<(String, Vec<u8>)>,
}

impl Layout {
    /// Adds a blob; returns its descriptor without the last brace.
    fn blob(&mut self, kind: &str, bytes: &[u8]) -> String {
        let digest = sha256(bytes);
        self.blobs.push((digest.clone(), bytes.to_vec()));
        let size = bytes.len();
        let kind = format!("application/vnd.oci.image.{kind}");
        format!(r#"{{"mediaType":"{kind}","digest":"sha256:{digest}","size":{size}"#)
    }

    pub(crate) fn manifest(&mut self, layers: &[Vec<u8>]) -> String {
        let config = self.blob(
            "config.v1+json",
            br#"{"os":"linux","architecture":"s390x"}"#,
        );
        let layers: Vec<_> = layers
            .iter()
            .map(|layer| self.blob("layer.v1.tar", layer) + "}")
            .collect();
        let text = format!(r#"{{"config":{config}}},"layers":[{}]}}"#, layers.join(","));
        self.blob("manifest.v1+json", text.as_bytes())
    }

    fn index(&mut self, descriptors: &[String]) -> String {
        let text = format!(r#"{{"manifests":[{}]}}"#, descriptors.join(","));
        self.blob("index.v1+json", text.as_bytes())
    }

    pub(crate) fn tar(&self, top: &[String]) -> Vec<u8> {
        let mut tar = Tar::default();
        for (digest, bytes) in &self.blobs {
            tar = tar.file(&format!("blobs/sha256/{digest}"), bytes);
        }
        let index = format!(r#"{{"manifests":[{}]}}"#, top.join(","));
        let layout = r#"{"imageLayoutVersion":"1.0.0"}"#;
        tar.file("oci-layout", layout.as_bytes())
            .file("index.json", index.as_bytes())
            .end()
    }
}

fn on(descriptor: &str, architecture: &str) -> String {
    format!(r#"{descriptor},"platform":{{"os":"linux","architecture":"{architecture}"}}}}"#)
}

fn for_platform(platform: &str) -> Options {
    Options {
        platform: Some(platform.parse().unwrap()),
        ..Options::default()
    }
}

#[test]
fn an_index_in_an_index_has_a_manifest_for_each_platform() {
    let mut layout = Layout::default();
    let mut of = |name: &str| layout.manifest(&[Tar::default().file(name, b"x").end()]);
    let arm = on(&of("arm"), "arm64");
    let s390 = on(&of("s390"), "s390x");
    let index = layout.index(&[arm, s390]) + "}";
    let bytes = layout.tar(&[index]);
    for read in [read, read_file] {
        for (platform, path) in [("linux/arm64", "arm"), ("linux/s390x", "s390")] {
            assert_eq!(
                read(&bytes, &for_platform(platform)).unwrap().paths(),
                [path]
            );
        }
        let error = read(&bytes, &for_platform("linux/riscv64")).unwrap_err();
        let words = "no image for linux/riscv64, only for linux/arm64, linux/s390x; choose";
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_platform_may_be_said_in_the_configuration_only() {
    let mut layout = Layout::default();
    let manifest = layout.manifest(&[Tar::default().file("a", b"x").end()]) + "}";
    let bytes = layout.tar(&[manifest]);
    assert_eq!(read(&bytes, &Options::default()).unwrap().paths(), ["a"]);
    assert!(read(&bytes, &for_platform("linux/s390x")).is_ok());
    let error = read(&bytes, &for_platform("linux/arm64")).unwrap_err();
    assert!(
        error.contains("no image for linux/arm64, only for linux/s390x"),
        "{error}"
    );
}

#[test]
fn whiteouts_hide_the_layers_below_only() {
    let lower = Tar::default()
        .file("d/a", b"1")
        .file("d/b", b"1")
        .file("e/c", b"1")
        .file("f", b"1");
    let upper = Tar::default()
        .file("d/.wh.a", b"")
        .file("d/new", b"2")
        .file("e/.wh..wh..opq", b"")
        .file("e/kept", b"2")
        .file(".wh..wh.plnk/1.2", b"");
    let mut layout = Layout::default();
    let manifest = layout.manifest(&[lower.end(), upper.end()]) + "}";
    let bytes = layout.tar(&[manifest]);
    let options = Options {
        at: b"srv".to_vec(),
        ..Options::default()
    };
    let paths = read(&bytes, &options).unwrap().paths();
    assert_eq!(paths, ["srv/d/b", "srv/d/new", "srv/e/kept", "srv/f"]);
    for bad in [".wh.", "d/.wh...", ".wh.x/y"] {
        let mut layout = Layout::default();
        let manifest = layout.manifest(&[Tar::default().file(bad, b"").end()]) + "}";
        let error = read(&layout.tar(&[manifest]), &options).unwrap_err();
        assert!(
            error.contains("a whiteout") && error.contains(", layer sha256:"),
            "{error}"
        );
    }
}

fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = bytes
        .windows(from.len())
        .position(|window| window == from.as_bytes());
    let at = at.unwrap();
    [&bytes[..at], to.as_bytes(), &bytes[at + to.len()..]].concat()
}

#[test]
fn wrong_images_are_refused() {
    let layer = Tar::default().file("a", b"contents").end();
    let mut layout = Layout::default();
    let manifest = layout.manifest(std::slice::from_ref(&layer)) + "}";
    let good = layout.tar(std::slice::from_ref(&manifest));
    assert!(read(&good, &Options::default()).is_ok());
    let refuses = |bytes: &[u8], options: &Options, words: &str| {
        for read in [read, read_file] {
            let error = read(bytes, options).unwrap_err();
            assert!(error.contains(words), "{error}\nmust say: {words}");
        }
    };
    let digest = sha256(&layer);
    let none = Options::default();
    let changed = replaced(&good, "contents", "CONTENTS");
    refuses(
        &changed,
        &none,
        &format!("the blob sha256:{digest} has contents of another digest"),
    );
    let changed = replaced(&good, "\"layers\"", "\"Layers\"");
    refuses(&changed, &none, "has contents of another digest");
    layout.blobs.retain(|(name, _)| *name != digest);
    refuses(
        &layout.tar(std::slice::from_ref(&manifest)),
        &none,
        &format!("it has no file blobs/sha256/{digest}"),
    );
    refuses(&layout.tar(&[]), &none, "it has no image");
    let size = manifest.rsplit(':').next().unwrap().trim_end_matches('}');
    let other = manifest.replace(size, "7");
    refuses(
        &layout.tar(&[other]),
        &none,
        "has another size than 7 bytes",
    );
    let evil = manifest.replace("sha256:", "sha256:../../");
    refuses(
        &layout.tar(&[evil]),
        &none,
        "which is neither sha256 nor sha512",
    );
    refuses(
        &layout.tar(&["5".into()]),
        &none,
        "its file index.json is not as it must be",
    );
    let mut several = Layout::default();
    let mut named = |name: &str| {
        let manifest = several.manifest(&[Tar::default().file(name, b"x").end()]);
        format!(r#"{manifest},"annotations":{{"org.opencontainers.image.ref.name":"{name}"}}}}"#)
    };
    let both = [named("one"), named("two")];
    let bytes = several.tar(&both);
    refuses(
        &bytes,
        &none,
        "it has 2 images: one, two; choose one by its reference",
    );
    let options = Options {
        reference: Some("two".into()),
        ..Options::default()
    };
    assert_eq!(read(&bytes, &options).unwrap().paths(), ["two"]);
    let limited = Options {
        limit: Some(good.len() as u64 + 100),
        ..Options::default()
    };
    assert!(read_file(&good, &limited).is_ok());
}

#[test]
fn deep_indexes_and_other_artifacts_are_refused() {
    let mut layout = Layout::default();
    let mut top = layout.manifest(&[]) + "}";
    for _ in 0..9 {
        top = layout.index(&[top]) + "}";
    }
    let error = read(&layout.tar(&[top]), &Options::default()).unwrap_err();
    assert!(
        error.contains("more than 8 indexes in each other"),
        "{error}"
    );
    let mut layout = Layout::default();
    let config = layout.blob("config.v1+json", b"{}");
    let chart = layout.blob("layer.v1.other", b"x");
    let text = format!(r#"{{"config":{config}}},"layers":[{chart}}}]}}"#);
    let manifest = layout.blob("manifest.v1+json", text.as_bytes()) + "}";
    let error = read(&layout.tar(&[manifest]), &Options::default()).unwrap_err();
    assert!(error.contains("layer.v1.other, which is no tar"), "{error}");
}

/// Old docker archives have a directory for each layer, and links to layers that are shared.
#[test]
fn layers_of_docker_may_be_links() {
    let layer = Tar::default().file("a", b"contents").end();
    let digest = sha256(&layer);
    let config = format!(r#"{{"rootfs":{{"diff_ids":["sha256:{digest}","sha256:{digest}"]}}}}"#);
    let name = format!("{}.json", sha256(config.as_bytes()));
    let manifest = format!(
        r#"[{{"Config":"{name}","RepoTags":null,"Layers":["x/layer.tar","y/layer.tar"]}}]"#
    );
    let archive = |target: &str, config: &str| {
        let tar = Tar::default()
            .file(&name, config.as_bytes())
            .file("x/layer.tar", &layer);
        tar.link(b'2', "y/layer.tar", target)
            .file("manifest.json", manifest.as_bytes())
            .end()
    };
    for read in [read, read_file] {
        let recorder = read(&archive("../x/layer.tar", &config), &Options::default()).unwrap();
        assert_eq!((recorder.paths().len(), recorder.layer), (1, 1));
        let cases = [
            (archive("layer.tar", &config), "is behind too many links"),
            (archive("../z", &config), "it has no file y/layer.tar"),
            (archive("../../x", &config), "it has no file y/layer.tar"),
            (
                archive("../x/layer.tar", &config[..config.len() - 1]),
                "another digest",
            ),
            (
                replaced(&archive("../x/layer.tar", &config), "contents", "CONTENTS"),
                "another digest",
            ),
        ];
        for (bytes, words) in cases {
            let error = read(&bytes, &Options::default()).unwrap_err();
            assert!(error.contains(words), "{error}\nmust say: {words}");
        }
    }
}
