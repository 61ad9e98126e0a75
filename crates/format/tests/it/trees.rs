//! Trees, directories and attributes written by the kernel: all verify, are in order, and survive a
//! rewrite by uext4.

mod attributes;
mod directories;
mod mapping;
mod rewrite;
mod volume;

use std::path::Path;
use std::process::Command;

use uext4_testkit::oracle::{Access, KernelMount, debugfs, mke2fs_image};
use volume::Volume;

/// Makes an image, lets the kernel fill it with `fill`, and opens it for the checks.
fn filled(options: &[&str], hash: &str, fill: impl FnOnce(&Path)) -> Volume {
    let (dir, path) = mke2fs_image(64 << 20, options).expect("mke2fs");
    debugfs(
        &path,
        Access::Write,
        &[format!("ssv def_hash_version {hash}")],
    )
    .expect("debugfs");
    let mount = KernelMount::new(&path, "").expect("mount");
    fill(mount.path());
    mount.unmount().expect("unmount");
    Volume::open(dir, &path)
}

fn run(program: &str, args: &[&str], file: &Path) {
    let done = Command::new(program)
        .args(args)
        .arg(file)
        .status()
        .expect(program);
    assert!(done.success(), "{program} {args:?} {}", file.display());
}
