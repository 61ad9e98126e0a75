//! Holes of an image file on the host: data that move take no more of the host than before.

use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use uext4::device::{Access, BlockDevice, FileDevice};
use uext4::mkfs::{self, MkfsOptions, Preset};
use uext4::resize::{self, Least};
use uext4::{CompactOptions, Filesystem, MountOptions, Threads};
use uext4_testkit::oracle;

const MIB: u64 = 1 << 20;

fn options() -> MountOptions {
    MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    }
}

fn open(path: &Path) -> Arc<FileDevice> {
    Arc::new(FileDevice::open(path, Access::ReadWrite).expect("an image file"))
}

fn mount(path: &Path) -> Filesystem {
    Filesystem::mount(open(path), options()).expect("mounts")
}

fn host_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).expect("it is there").blocks() * 512
}

/// Data around 24 MiB of zeroes.
fn content() -> Vec<u8> {
    let mut bytes = vec![0; 24 << 20];
    bytes[..5000].fill(1);
    bytes[9 << 20..][..5000].fill(2);
    bytes
}

/// A file whose zeroes are holes of the host, behind free space.
fn make(path: &Path) {
    let file = std::fs::File::create(path).expect("a file");
    file.set_len(96 * MIB).expect("a sparse file");
    mkfs::format(&*open(path), &MkfsOptions::new(Preset::Ext4)).expect("mkfs");
    let fs = mount(path);
    fs.paths()
        .write("/front", vec![9; 40 << 20])
        .expect("writes");
    fs.paths().write("/back", content()).expect("writes");
    fs.paths().remove_file("/front").expect("removes");
    fs.unmount().expect("unmounts");
    drop(fs);
    let device = open(path);
    let mut piece = vec![0; 64 << 10];
    for at in (0..96 * MIB).step_by(piece.len()) {
        device.read_at(at, &mut piece).expect("reads");
        if piece.iter().all(|byte| *byte == 0 || *byte == 9) {
            device.write_hole(at, piece.len() as u64).expect("punches");
        }
    }
}

/// A name and what it does to an image.
type Work = (&'static str, fn(&Path));

#[test]
fn holes_of_the_host_stay_holes() {
    let works: [Work; 2] = [
        ("compact", |path| {
            let fs = mount(path);
            let options = CompactOptions { dry_run: false };
            let done = fs.compact(&options, &mut |_| ControlFlow::Continue(()));
            let done = done.expect("compacts");
            assert!(done.moved_bytes > 2 * MIB, "{done:?}");
            fs.unmount().expect("unmounts");
        }),
        ("shrink", |path| {
            let plan = resize::shrink(open(path), options(), Least::Possible).expect("shrinks");
            assert!(plan.after.size_bytes() < 60 * MIB, "{:?}", plan.report());
        }),
    ];
    for (what, work) in works {
        let dir = oracle::scratch_dir().expect("a scratch directory");
        let path = dir.path().join("image");
        make(&path);
        let before = host_bytes(&path);
        assert!(before < 20 * MIB, "the host has no holes: {before}");
        work(&path);
        let after = host_bytes(&path);
        assert!(
            after < before + 4 * MIB,
            "{what}: {before} before, {after} after"
        );
        let fs = mount(&path);
        assert!(
            fs.paths().read("/back").expect("reads") == content(),
            "{what}"
        );
        fs.unmount().expect("unmounts");
        drop(fs);
        oracle::assert_clean(&path);
    }
}
