//! `statfs` compared with the kernel on the same image.

use crate::image;
use uext4::WriteContext;
use uext4_testkit::oracle::KernelMount;

const SHAPES: &[&[&str]] = &[
    &[],
    &["-b", "1024"],
    &["-b", "2048", "-m", "0"],
    &["-O", "bigalloc", "-C", "16384"],
    &["-O", "^resize_inode,meta_bg"],
    &["-b", "1024", "-O", "^resize_inode,meta_bg", "-m", "20"],
    &[
        "-O",
        "^has_journal,^extent,^64bit,^metadata_csum,^flex_bg",
        "-b",
        "1024",
    ],
    &["-O", "^has_journal,sparse_super2"],
    &[
        "-O",
        "^sparse_super,^resize_inode",
        "-b",
        "1024",
        "-g",
        "1024",
    ],
    &["-O", "inline_data,ea_inode", "-I", "512"],
];

type Numbers = [u64; 8];

fn kernel(path: &std::path::Path, options: &str) -> Numbers {
    let mount = KernelMount::new(path, options).expect("the kernel mounts it");
    let all = rustix::fs::statvfs(mount.path()).expect("statvfs");
    mount.unmount().expect("unmounts");
    let space = [all.f_bsize, all.f_blocks, all.f_bfree, all.f_bavail];
    let rest = [all.f_files, all.f_ffree, all.f_namemax, all.f_fsid];
    [space, rest].concat().try_into().expect("eight numbers")
}

fn ours(fs: &uext4::Filesystem) -> Numbers {
    let all = fs.statfs();
    let space = [
        all.block_size.into(),
        all.blocks,
        all.blocks_free,
        all.blocks_available,
    ];
    let rest = [all.inodes, all.inodes_free, all.name_max.into(), all.id];
    [space, rest].concat().try_into().expect("eight numbers")
}

#[test]
fn statfs_counts_as_the_kernel_does() {
    if !KernelMount::available_or_skip("statfs") {
        return;
    }
    for shape in SHAPES {
        let device = image::mke2fs(48, shape);
        let (_dir, path) = image::on_disk(&device);
        for options in ["ro", "ro,minixdf"] {
            let fs = image::mount_with(&device, options).expect("mounts");
            assert_eq!(ours(&fs), kernel(&path, options), "{shape:?} {options}");
        }
    }
}

#[test]
fn statfs_counts_as_the_kernel_does_after_changes() {
    if !KernelMount::available_or_skip("statfs after changes") {
        return;
    }
    let root = uext4::Caller::root();
    for shape in SHAPES {
        let device = image::mke2fs(48, shape);
        let fs = image::mount(&device);
        let top = fs.root().expect("root");
        for i in 0..40u64 {
            let file = fs
                .create(&top, format!("{i}").as_bytes(), 0o644, &root)
                .expect("creates");
            fs.write(&file, i * 5000, &vec![1; 30_000], &WriteContext::ROOT)
                .expect("writes");
        }
        fs.unlink(&top, b"7", &root).expect("unlinks");
        fs.sync().expect("syncs");
        let running = ours(&fs);
        drop(top);
        fs.unmount().expect("unmounts");
        let (_dir, path) = image::on_disk(&device);
        assert_eq!(running, kernel(&path, "ro"), "{shape:?}");
    }
}

/// Programs that delete files until there is space would delete more than they need.
#[test]
fn freed_space_is_seen_before_its_commit() {
    let root = uext4::Caller::root();
    let fs = image::mount(&image::ext4(32));
    let top = fs.root().expect("root");
    let file = fs.create(&top, b"large", 0o644, &root).expect("creates");
    let data = vec![1; 4 << 20];
    fs.write(&file, 0, &data, &WriteContext::ROOT)
        .expect("writes");
    fs.sync().expect("syncs");
    let (before, commits) = (fs.statfs(), fs.stats().journal.transactions);
    drop(file);
    fs.unlink(&top, b"large", &root).expect("unlinks");
    let after = fs.statfs();
    assert_eq!(fs.stats().journal.transactions, commits, "no commit ran");
    let freed = after.blocks_free - before.blocks_free;
    assert!(freed * u64::from(after.block_size) >= 4 << 20, "{freed}");
    fs.sync().expect("syncs");
    assert_eq!(fs.statfs().blocks_free, after.blocks_free);
}
