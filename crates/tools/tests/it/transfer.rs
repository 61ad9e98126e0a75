//! `put` and `get` of whole trees against e2fsck, the kernel and the tree itself.

use crate::rig::{Rig, bytes};
use uext4_testkit::manifest::{Field, HostDir, Manifest, Policy};
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::tree::{Shape, TreeSpec};

/// Puts a tree into an image; answers the rig and what the tree looked like.
fn with_tree(entries: usize, mkfs: &[&str]) -> (Rig, Manifest) {
    let rig = Rig::empty();
    rig.ok(&[
        &["mkfs", "disk.img", "--size", "256M", "-q", "-b", "4K"],
        mkfs,
    ]
    .concat());
    let tree = rig.path("tree");
    std::fs::create_dir(&tree).unwrap();
    let shape = Shape {
        data_max_bytes: 24 << 20,
        ..Shape::new(entries)
    };
    TreeSpec::generate(7, &shape)
        .apply(&tree)
        .expect("the tree is made");
    let manifest = Manifest::of(&HostDir::new(&tree)).expect("the tree is walked");
    rig.ok(&["put", "-r", "disk.img", "tree", "/"]);
    rig.assert_clean();
    (rig, manifest)
}

/// Reading the tree changed nothing but access times, which do not count anyway.
fn policy() -> Policy {
    Policy::default().ignore(Field::Root)
}

#[test]
fn a_tree_that_was_put_is_what_the_kernel_reads() {
    if !KernelMount::available_or_skip("a_tree_that_was_put_is_what_the_kernel_reads") {
        return;
    }
    let (rig, manifest) = with_tree(600, &[]);
    let mount = KernelMount::new(&rig.image(), "ro").expect("the kernel mounts it");
    let found = Manifest::of(&HostDir::new(&mount.path().join("tree"))).expect("it is walked");
    mount.unmount().expect("the kernel lets go");
    manifest.assert_same(&found, &policy());
}

#[test]
fn a_tree_comes_back_as_it_was() {
    if !KernelMount::available_or_skip("a_tree_comes_back_as_it_was") {
        return;
    }
    let (rig, manifest) = with_tree(600, &["-O", "inline_data"]);
    let before = bytes(&rig.image());
    rig.ok(&["get", "-r", "disk.img", "/tree", "back"]);
    assert!(bytes(&rig.image()) == before, "get does not write");
    let found = Manifest::of(&HostDir::new(&rig.path("back"))).expect("it is walked");
    manifest.assert_same(&found, &policy());
    let names = rig.json(&["ls", "-aR", "--json", "disk.img", "/tree"]);
    assert_eq!(
        names.as_array().expect("a list").len() + 1,
        manifest.entries.len()
    );
}

#[test]
fn destinations_are_those_of_cp() {
    let rig = Rig::new(&[]);
    std::fs::create_dir_all(rig.path("dir/sub")).unwrap();
    std::fs::write(rig.path("dir/file"), "1").unwrap();
    rig.ok(&["put", "-r", "disk.img", "dir/.", "/"]);
    rig.ok(&["put", "-r", "disk.img", "dir", "/sub"]);
    rig.ok(&["put", "-r", "disk.img", "dir", "/new"]);
    rig.ok(&["put", "disk.img", "dir/file", "/sub/renamed"]);
    for path in ["/file", "/sub/dir/file", "/new/file", "/sub/renamed"] {
        assert_eq!(rig.ok(&["cat", "disk.img", path]), "1", "{path}");
    }
    rig.fails(1, "-r", &["put", "disk.img", "dir", "/x"]);
    rig.fails(1, "exists", &["put", "disk.img", "dir/file", "/file"]);
    std::fs::write(rig.path("dir/file"), "2").unwrap();
    rig.ok(&["put", "--force", "disk.img", "dir/file", "/file"]);
    assert_eq!(rig.ok(&["cat", "disk.img", "/file"]), "2");
    rig.fails(1, "-r", &["get", "disk.img", "/sub", "out"]);
    rig.ok(&["get", "-r", "disk.img", "/", "all"]);
    rig.ok(&["get", "disk.img", "/file", "all/sub"]);
    assert_eq!(bytes(&rig.path("all/sub/file")), b"2");
    rig.fails(1, "exists", &["get", "disk.img", "/file", "all/sub"]);
    rig.assert_clean();
}

#[test]
fn links_of_an_image_lead_nowhere_on_the_host() {
    let rig = Rig::new(&[]);
    std::fs::create_dir(rig.path("outside")).unwrap();
    std::fs::create_dir(rig.path("tree")).unwrap();
    let outside = rig.path("outside");
    rig.ok(&["mkdir", "disk.img", "/tree"]);
    rig.ok(&[
        "ln",
        "-s",
        "disk.img",
        outside.to_str().unwrap(),
        "/tree/link",
    ]);
    rig.ok(&["get", "-r", "disk.img", "/tree", "tree"]);
    assert!(rig.path("tree/tree/link").is_symlink());
    // A second entry of the same name, as only a hostile image has it.
    rig.ok(&["mkdir", "-p", "disk.img", "/evil/linj/x"]);
    rig.ok(&[
        "ln",
        "-s",
        "disk.img",
        outside.to_str().unwrap(),
        "/evil/link",
    ]);
    let mut image = bytes(&rig.image());
    for at in 0..image.len() - 4 {
        if &image[at..at + 4] == b"linj" {
            image[at..at + 4].copy_from_slice(b"link");
        }
    }
    std::fs::write(rig.image(), image).unwrap();
    let output = rig.run(&["get", "-r", "disk.img", "/evil", "evil"]);
    assert!(!output.status.success(), "damaged, or a name that exists");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}
