//! Whole trees: the stored contents are there, also after a remount, and for the kernel's ext4.

use crate::support::{IMAGE_BYTES, Mounted, run};
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::oracle::{self, KernelMount};
use uext4_testkit::tree::{Shape, TreeSpec};

fn policy() -> Policy {
    Policy::default().ignore(Field::Root)
}

fn round_trip(seed: u64, mke2fs: &[&str], block_bytes: usize, words: &[&str]) {
    let tree = TreeSpec::generate(seed, &Shape::new(600).for_block_size(block_bytes));
    let mut mounted = Mounted::with(mke2fs, words);
    run("rmdir", &[&mounted.path("lost+found")]);
    tree.apply(&mounted.root()).expect("the tree fits");
    let expected = tree.manifest();
    expected.assert_same(
        &Manifest::of_dir(&mounted.root()).expect("it reads"),
        &policy(),
    );
    mounted.unmount();
    mounted.mount(words);
    expected.assert_same(
        &Manifest::of_dir(&mounted.root()).expect("it reads"),
        &policy(),
    );
    mounted.unmount();
    if KernelMount::available_or_skip("the kernel reads the tree") {
        let kernel = KernelMount::new(&mounted.image(), "ro").expect("the kernel mounts it");
        expected.assert_same(
            &Manifest::of_dir(kernel.path()).expect("it reads"),
            &policy(),
        );
    }
}

#[test]
fn a_tree_of_4k_blocks() {
    round_trip(1, &["-b", "4096"], 4096, &[]);
}

#[test]
fn a_tree_of_1k_blocks() {
    round_trip(2, &["-b", "1024"], 1024, &[]);
}

#[test]
fn a_tree_written_through() {
    round_trip(3, &["-b", "4096"], 4096, &["through"]);
}

#[test]
fn a_kernel_tree_is_read_and_removed() {
    if !KernelMount::available_or_skip("a_kernel_tree_is_read_and_removed") {
        return;
    }
    let dir = oracle::scratch_dir().expect("there is room");
    let image = dir.path().join("image");
    oracle::mke2fs(&image, IMAGE_BYTES, &["-b", "4096"]).expect("mke2fs runs");
    let tree = TreeSpec::generate(4, &Shape::new(400));
    let kernel = KernelMount::new(&image, "").expect("the kernel mounts it");
    tree.apply(kernel.path()).expect("the tree fits");
    kernel.unmount().expect("it is not in use");
    let mut mounted = Mounted::new();
    mounted.unmount();
    std::fs::copy(&image, mounted.image()).expect("there is room");
    mounted.mount(&[]);
    let found = Manifest::of_dir(&mounted.root()).expect("it reads");
    tree.manifest()
        .assert_same(&found, &policy().ignore(Field::DirectorySize));
    run(
        "sh",
        &[&"-c", &format!("rm -rf {}/*", mounted.root().display())],
    );
    assert_eq!(
        crate::support::names_in(&mounted.root()),
        Vec::<String>::new()
    );
    mounted.unmount();
}
