//! One tree, as a directory and as tar files of several orders, with several numbers of threads:
//! one image, which is clean and shows the tree to the kernel.
//!
//! `UEXT4_ACCEPTANCE=50000 cargo test -p uext4-archive acceptance` has a tree of so many names.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use uext4_archive::{Options, Source};
use uext4_builder::{BuildOptions, Builder, PlacementRule, Size};
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::oracle::{self, KernelMount, Program};
use uext4_testkit::rng::Rng;
use uext4_testkit::skip;
use uext4_testkit::tree::{NodeKind, Shape, TreeSpec, pack};

/// Names of the tree, unless the environment says otherwise.
const ENTRIES: usize = 500;

fn entries() -> usize {
    let given = std::env::var("UEXT4_ACCEPTANCE").ok();
    given.map_or(ENTRIES, |text| text.parse().expect("a number of names"))
}

/// A tree that a tar can hold: no sockets, no second names of devices and pipes, no ACLs of owners
/// with names.
fn tree(seed: u64, entries: usize) -> TreeSpec {
    let mut shape = Shape::new(entries);
    shape.data_max_bytes = (16 << 20) + entries as u64 * 2048;
    let mut tree = TreeSpec::generate(seed, &shape);
    for at in 0..tree.nodes.len() {
        for (name, value) in &mut tree.nodes[at].attributes.xattrs {
            if name.starts_with(b"system.posix_acl") {
                unname(value);
            }
        }
        let first = match &tree.nodes[at].kind {
            NodeKind::Socket => at,
            NodeKind::HardLink(first) => *first,
            _ => continue,
        };
        if !matches!(
            tree.nodes[first].kind,
            NodeKind::File(_) | NodeKind::Symlink(_)
        ) {
            tree.nodes[at].kind = NodeKind::Fifo;
        }
    }
    tree
}

/// Gives the owners of an ACL numbers without a name on this machine, which GNU tar would write.
fn unname(acl: &mut [u8]) {
    for entry in acl[4..].as_chunks_mut::<8>().0 {
        let id: &mut [u8; 4] = entry.last_chunk_mut().expect("4 of 8 bytes");
        *id = match u32::from_le_bytes(*id) {
            low @ ..1000 => low + 60_000,
            65_534 => 65_000,
            other => other,
        }
        .to_le_bytes();
    }
}

/// All paths of a directory for tar, in an order that the seed shuffles.
fn pack_shuffled(dir: &Path, seed: u64, archive: &Path) {
    let manifest = Manifest::of_dir(dir).expect("manifest");
    let mut paths: Vec<Vec<u8>> = manifest.entries.keys().cloned().collect();
    let mut rng = Rng::new(seed);
    for at in (1..paths.len()).rev() {
        paths.swap(at, rng.below(at as u64 + 1) as usize);
    }
    let list = archive.with_extension("list");
    let named = paths.iter().map(|path| [b"./", &path[..]].concat());
    std::fs::write(&list, named.collect::<Vec<_>>().join(&0)).expect("list");
    let tar = Program::new("tar").expect("tar").args([
        "-c",
        "--format=posix",
        "--xattrs",
        "--xattrs-include=*",
        "--acls",
        "--numeric-owner",
        "--sparse",
        "--no-recursion",
        "--null",
        "--verbatim-files-from",
    ]);
    let tar = tar.arg("-f").arg(archive).arg("-C").arg(dir);
    tar.arg("-T").arg(&list).run_ok().expect("tar of a list");
}

fn image(image: &Path, from: &Path, threads: usize, places: PlacementRule) {
    let size = match places {
        PlacementRule::Packed => Size::Min,
        PlacementRule::DiffFriendly => Size::Bytes((192 << 20) + entries() as u64 * 32_768),
    };
    let mut options = BuildOptions::new(size);
    options.threads = threads;
    options.places = places;
    options.format.time = Some(1_700_000_100);
    let mut builder = Builder::create(image, options).expect("builder");
    if from.is_dir() {
        builder.directory(from, b"").expect("directory")
    } else {
        let source = Source::open(from).expect("tar");
        source.feed(&mut builder, &Options::default()).expect("tar");
    }
    builder.finish().expect("image");
}

/// What the kernel shows of the image is what the directory has.
fn compare(image: &Path, dir: &Path) {
    oracle::assert_clean(image);
    if !KernelMount::available_or_skip("acceptance") {
        return;
    }
    let mount = KernelMount::new(image, "ro,noload").expect("mount");
    let mut found = Manifest::of_dir(mount.path()).expect("image");
    found.entries.remove(&b"lost+found"[..]);
    found.entries.get_mut(&b""[..]).expect("root").nlink -= 1;
    let expected = Manifest::of_dir(dir).expect("tree");
    expected.assert_same(&found, &Policy::default().check(Field::Root));
}

/// SHA-256 of a file, by coreutils.
fn sum(path: &Path) -> String {
    let done = Program::new("sha256sum")
        .expect("sha256sum")
        .arg(path)
        .run_ok();
    let text = done.expect("sum").stdout;
    text.split_whitespace().next().expect("a sum").to_owned()
}

fn accept(places: PlacementRule, builds: usize) {
    let scratch = oracle::scratch_dir().expect("scratch");
    let dir = scratch.path().join("tree");
    std::fs::create_dir(&dir).expect("tree");
    tree(60, entries())
        .apply(&dir)
        .expect("a tree on this machine");
    let mut sources: Vec<PathBuf> = vec![dir.clone()];
    let plain = scratch.path().join("tree.tar");
    pack(&dir, &plain).expect("tar");
    sources.push(plain);
    for seed in 0..2 {
        let shuffled = scratch.path().join(format!("shuffled-{seed}.tar"));
        pack_shuffled(&dir, seed, &shuffled);
        sources.push(shuffled);
    }
    let file = scratch.path().join("image");
    let mut first = None;
    for (nr, threads) in [1, 2, 8].into_iter().cycle().take(builds).enumerate() {
        let from = &sources[nr % sources.len()];
        image(&file, from, threads, places);
        let sum = sum(&file);
        let first = first.get_or_insert_with(|| {
            compare(&file, &dir);
            sum.clone()
        });
        let what = from.as_os_str().as_bytes().escape_ascii().to_string();
        assert_eq!(*first, sum, "{what} with {threads} threads");
    }
    // The canary: another time is another image.
    std::fs::write(dir.join("deep0/canary"), "x").expect("canary");
    image(&file, &dir, 2, places);
    assert_ne!(first, Some(sum(&file)));
}

#[test]
fn acceptance_of_one_tree_from_many_sources() {
    if !skip::root_or_skip("acceptance_of_one_tree_from_many_sources") {
        return;
    }
    accept(PlacementRule::Packed, 10);
}

#[test]
fn acceptance_of_diff_friendly_places() {
    if !skip::root_or_skip("acceptance_of_diff_friendly_places") {
        return;
    }
    accept(PlacementRule::DiffFriendly, 4);
}
