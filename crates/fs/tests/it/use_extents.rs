//! Extents for files with block maps: the same tree on the same blocks.

use crate::resize::crash::{Flushes, Judges, Recorded, record_mount};
use crate::resize::kind::{Image, Kind};
use std::ops::ControlFlow;
use std::sync::Arc;
use uext4::device::BlockDevice;
use uext4::{
    ExtentsProgress, ExtentsUsed, FallocateMode, Filesystem, Presence, Reseal, WriteContext,
};
use uext4_testkit::manifest::Policy;
use uext4_testkit::oracle::{self, Access, KernelMount};

fn go_on(_progress: ExtentsProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn use_extents(image: &Image) -> ExtentsUsed {
    let device: Arc<dyn BlockDevice> = image.main.clone();
    uext4::use_extents(&device, &image.options(), &mut go_on).expect("extents")
}

fn old_kind(name: &str, block_size: u32, blocks: u64) -> Kind {
    let mut kind = Kind::named(name);
    (kind.block_size, kind.blocks) = (block_size, blocks);
    kind
}

fn make(kind: &Kind) -> Image {
    kind.make(kind.blocks * u64::from(kind.block_size))
}

fn convert(image: &Image) {
    let device: Arc<dyn BlockDevice> = image.main.clone();
    uext4::convert(&device, &image.options(), Some(1024)).expect("a conversion");
}

/// A file of every second block from block `first` on.
fn comb(fs: &Filesystem, path: &str, first: u64, teeth: u64) {
    let block = u64::from(fs.statfs().block_size);
    let file = fs.paths().create(path).expect("a file");
    for tooth in 0..teeth {
        let bytes = vec![(tooth % 251) as u8 + 1; block as usize];
        let at = (first + 2 * tooth) * block;
        file.write_all_at(at, &bytes).expect("a block");
    }
}

/// The same of a file that was whole, which takes less time for many teeth.
fn long_comb(fs: &Filesystem, path: &str, teeth: u64) {
    let block = u64::from(fs.statfs().block_size);
    let file = fs.paths().create(path).expect("a file");
    file.write_all_at(0, &vec![7; (2 * teeth * block) as usize])
        .expect("data");
    for at in (0..teeth).map(|tooth| (2 * tooth + 1) * block) {
        let hole = at..at + block;
        fs.fallocate(
            file.inode(),
            FallocateMode::PunchHole,
            hole,
            &WriteContext::ROOT,
        )
        .expect("a hole");
    }
}

/// Files with tables of all levels, holes, and few and many runs; a directory with an index.
fn fill(image: &Image) {
    image.fill("/files", 2 << 20, 7);
    image.mounted(|fs| {
        let paths = fs.paths();
        comb(fs, "/four", 20, 4);
        comb(fs, "/five", 0, 5);
        comb(fs, "/many", 5, 700);
        let deep = paths.create("/deep").expect("a file");
        for mib in [0, 1, 5, 70, 90] {
            deep.write_all_at((mib << 20) + 5000, &[mib as u8; 9000])
                .expect("data");
        }
        paths.write("/empty", b"").expect("a file");
        paths.symlink("x/".repeat(90), "/long").expect("a link");
        paths.create_dir_all("/names").expect("a directory");
        for nr in 0..300 {
            let name = format!("/names/{nr} with a long name, so that many blocks are needed");
            paths.write(name, b"").expect("a file");
        }
    });
}

/// The runs of a file: bytes of the file, of the device, and length.
fn runs(image: &Image, path: &str) -> Vec<(u64, u64, u64)> {
    let found = image.mounted(|fs| {
        let inode = fs.paths().inode(path).expect("a file");
        fs.fiemap(&inode, 0, u64::MAX).expect("a map")
    });
    let mut runs: Vec<(u64, u64, u64)> = Vec::new();
    for extent in found {
        match runs.last_mut() {
            Some((logical, physical, len))
                if *logical + *len == extent.logical_bytes
                    && *physical + *len == extent.physical_bytes =>
            {
                *len += extent.len_bytes;
            }
            _ => runs.push((
                extent.logical_bytes,
                extent.physical_bytes,
                extent.len_bytes,
            )),
        }
    }
    runs
}

/// What debugfs shows of these paths.
fn stat(image: &Image, paths: &[&str]) -> String {
    let (_dir, path) = crate::image::on_disk(&image.main);
    let commands: Vec<String> = paths.iter().map(|path| format!("stat {path}")).collect();
    oracle::debugfs(&path, Access::Read, &commands).expect("debugfs answers")
}

const ALL: [&str; 9] = [
    "/", "/four", "/five", "/many", "/deep", "/empty", "/long", "/names", "/files/1",
];

#[test]
fn maps_of_every_depth_become_trees_of_the_same_blocks() {
    let kinds = [
        (old_kind("ext3", 1024, 12 << 10), false),
        (old_kind("ext3", 1024, 12 << 10), true),
        (old_kind("ext2", 1024, 12 << 10), false),
        (old_kind("ext3", 4096, 8 << 10), true),
    ];
    for (kind, has_checksums) in kinds {
        let image = make(&kind);
        if has_checksums {
            let wanted = Reseal {
                metadata_csum: Some(Presence::Present),
                ..Reseal::default()
            };
            uext4::reseal(image.main.clone(), image.options(), wanted).expect("checksums");
        }
        fill(&image);
        convert(&image);
        let tree = image.tree();
        let files = ["/four", "/five", "/many", "/deep"];
        let before = files.map(|path| runs(&image, path));
        assert!(before[2].len() == 700, "{}", before[2].len());
        let free = image.mounted(|fs| fs.statfs().blocks_free);
        assert_eq!(stat(&image, &ALL).matches("\nBLOCKS:").count(), ALL.len());
        let used = use_extents(&image);
        image.assert_clean(kind.name);
        assert!(used.files > 310 && used.freed_blocks > 10, "{used:?}");
        assert_eq!((used.too_fragmented, used.without_space), (0, 0));
        let now = image.mounted(|fs| fs.statfs().blocks_free);
        assert_eq!(now, free + used.freed_blocks - used.tree_blocks, "{used:?}");
        let shown = stat(&image, &ALL);
        assert_eq!(shown.matches("\nEXTENTS:").count(), ALL.len(), "{shown}");
        assert!(!shown.contains("\nBLOCKS:"), "{shown}");
        assert!(stat(&image, &["<7>"]).contains("\nBLOCKS:"));
        assert_eq!(before, files.map(|path| runs(&image, path)));
        tree.assert_same(&image.tree(), &Policy::default());
        if KernelMount::available_or_skip("maps_of_every_depth") {
            let (_dir, path) = crate::image::on_disk(&image.main);
            tree.assert_same(&image.kernel_tree(&path), &Policy::default());
        }
        let again = use_extents(&image);
        assert_eq!(again, ExtentsUsed::default());
    }
}

/// A stop leaves files of both kinds, and another call goes on.
#[test]
fn a_stop_leaves_the_other_files_as_they_are() {
    let image = make(&old_kind("ext3", 1024, 12 << 10));
    fill(&image);
    convert(&image);
    let tree = image.tree();
    let device: Arc<dyn BlockDevice> = image.main.clone();
    let mut told = Vec::new();
    let stop = &mut |progress: ExtentsProgress| {
        told.push(progress);
        match progress.done_inodes < progress.total_inodes / 2 {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    let first = uext4::use_extents(&device, &image.options(), stop).expect("extents");
    image.assert_clean("half");
    tree.assert_same(&image.tree(), &Policy::default());
    let last = told.last().expect("progress");
    assert_eq!(last.done_inodes, last.total_inodes / 2);
    let rest = use_extents(&image);
    assert!(first.files > 50 && rest.files > 50, "{first:?}, {rest:?}");
    image.assert_clean("all");
    tree.assert_same(&image.tree(), &Policy::default());
}

#[test]
fn a_file_that_no_transaction_holds_stays() {
    let image = make(&old_kind("ext3", 1024, 64 << 10));
    image.mounted(|fs| {
        long_comb(fs, "/comb", 24_000);
        long_comb(fs, "/other", 3000);
    });
    convert(&image);
    let tree = image.tree();
    let used = use_extents(&image);
    assert_eq!((used.too_fragmented, used.without_space), (1, 0));
    image.assert_clean("a comb");
    let shown = stat(&image, &["/comb", "/other"]);
    assert_eq!(shown.matches("\nBLOCKS:").count(), 1, "one stays");
    assert_eq!(shown.matches("\nEXTENTS:").count(), 1, "one does not");
    tree.assert_same(&image.tree(), &Policy::default());
}

/// A full file system of combs with a table each; some also have a file whose extents need no
/// block, before them.
fn full(first: Option<&str>) -> Image {
    let image = make(&old_kind("ext3", 1024, 12 << 10));
    image.mounted(|fs| {
        if let Some(path) = first {
            fs.paths().write(path, [1; 30_000]).expect("a file");
        }
        for nr in 0..100 {
            comb(fs, &format!("/{nr}"), 20, 5);
        }
        let file = fs.paths().create("/filler").expect("a file");
        let mut at = 0;
        while file.write_all_at(at, &[1; 1024]).is_ok() {
            at += 1024;
        }
        // Blocks that are held back for tables and directories.
        for nr in 0.. {
            if fs.paths().create_dir(format!("/dir {nr}")).is_err() {
                break;
            }
        }
    });
    convert(&image);
    image
}

#[test]
fn files_without_space_stay() {
    let image = full(None);
    let tree = image.tree();
    let used = use_extents(&image);
    assert!(used.without_space >= 100, "{used:?}");
    assert_eq!((used.too_fragmented, used.freed_blocks), (0, 0));
    image.assert_clean("full");
    tree.assert_same(&image.tree(), &Policy::default());
    image.mounted(|fs| fs.paths().remove_file("/filler").expect("space"));
    let rest = use_extents(&image);
    assert_eq!((rest.files, rest.without_space), (100, 0));
    image.assert_clean("with space");
}

/// The table of the first file is space for the second, and so on.
#[test]
fn each_file_makes_space_for_the_next() {
    let image = full(Some("/first"));
    let tree = image.tree();
    let used = use_extents(&image);
    assert!(used.files > 100, "{used:?}");
    assert!(
        used.without_space <= 1 && used.freed_blocks > 100,
        "{used:?}"
    );
    image.assert_clean("full");
    tree.assert_same(&image.tree(), &Policy::default());
}

fn record(flushes: Flushes) -> Recorded {
    let image = make(&old_kind("ext3", 1024, 12 << 10));
    image.mounted(|fs| {
        for nr in 0..8 {
            comb(fs, &format!("/comb {nr}"), nr * 40, 3 + nr * 90);
        }
        fs.paths().create_dir_all("/dir/below").expect("a path");
        fs.paths().write("/dir/file", [4; 30_000]).expect("a file");
    });
    convert(&image);
    record_mount(&image, flushes, |device| {
        uext4::use_extents(&device, &image.options(), &mut go_on).expect("extents");
    })
}

#[test]
fn every_crash_leaves_tables_or_trees() {
    if let Some(failure) = record(Flushes::Heeded).first_failure(Judges::All) {
        panic!("{failure}");
    }
}

/// The control: without flushes some crash must be noticed.
#[test]
fn a_device_that_ignores_flushes_is_noticed() {
    let failure = record(Flushes::Ignored).first_failure(Judges::Own);
    assert!(failure.is_some(), "no cut was noticed");
}
