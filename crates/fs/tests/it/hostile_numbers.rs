//! Block numbers of damaged structures that lie behind the end of the device: every tool that
//! writes refuses them or has no use for them, and none panics. Also a live log that the superblock
//! does not announce.

use crate::image;
use crate::unclean::REFUSED;
use std::ops::ControlFlow;
use std::sync::Arc;
use uext4::device::{BlockDevice, MemDevice};
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::resize::{self, Least};
use uext4::{CompactOptions, Error, MountOptions, Threads};
use uext4_testkit::oracle::{self, Access};

fn options() -> MountOptions {
    MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    }
}

fn damaged(field: &str) -> Arc<MemDevice> {
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.block_size = Some(1024);
    let features = "^ea_inode,^metadata_csum,^metadata_csum_seed";
    options.apply_features(features).expect("known features");
    let device = image::fresh(24, &options);
    let fs = image::mount(&device);
    fs.paths().write("/file", vec![7; 90_000]).expect("writes");
    fs.unmount().expect("unmounts");
    let (_dir, path) = image::on_disk(&device);
    oracle::debugfs(&path, Access::Write, &[field]).expect("debugfs writes");
    let bytes = std::fs::read(path).expect("reads");
    assert!(bytes != device.to_bytes(), "{field}: nothing is damaged");
    Arc::new(MemDevice::from_bytes(&bytes))
}

#[test]
fn a_shrinking_names_inode_and_block() {
    let fields = [
        ("sif /file file_acl 0x7ffffff0", "block 2147483632"),
        ("sif /file file_acl 24577", "block 24577"),
        (
            "sif <7> block[DIND] 0x7ffffff0",
            "inode 7, block 2147483632",
        ),
    ];
    for (field, word) in fields {
        let device = damaged(field);
        let before = device.to_bytes();
        for least in [Least::Possible, Least::Bytes(20 << 20)] {
            let planned = resize::plan_shrink(device.clone(), options(), least);
            let made = resize::shrink(device.clone(), options(), least);
            for refused in [planned, made] {
                let Err(error @ Error::Corrupt(_)) = refused else {
                    panic!("{field}: {refused:?}");
                };
                let said = error.to_string();
                assert!(said.contains("inode ") && said.contains(word), "{said}");
            }
            assert!(device.to_bytes() == before, "{field}: written");
        }
    }
}

#[test]
fn no_tool_panics() {
    let fields = [
        "sif /file file_acl 0x7ffffff0",
        "sif <7> block[DIND] 0x7ffffff0",
        "sif <8> block[2] 0x7ffffff0",
        "sif <8> file_acl 0x7ffffff0",
        "sif <2> file_acl 0x7ffffff0",
        "sif /file block[5] 0x7ffffff0",
        "sif /file block[4] 0xffffffff",
        "set_super_value mmp_block 0x7ffffff0",
        "set_super_value first_meta_bg 0x7ffffff0",
        "set_super_value orphan_file_inum 0x7ffffff0",
        "set_super_value last_orphan 0x7ffffff0",
    ];
    for field in fields {
        let device = damaged(field);
        for (_, work) in REFUSED {
            let _any_answer = work(Arc::new(device.snapshot()), options());
        }
        if let Ok(fs) = image::mount_with(&device, "") {
            let options = CompactOptions { dry_run: false };
            let _any_answer = fs.compact(&options, &mut |_| ControlFlow::Continue(()));
            let _any_answer = fs.unmount();
        }
    }
}

/// A table whose pointers all name the table: a few blocks that claim to map 2^24.
#[test]
fn a_map_that_names_itself_is_refused() {
    let device = image::mke2fs(24, &["-b", "1024", "-O", "^extents,^metadata_csum,^64bit"]);
    let fs = image::mount(&device);
    let content = vec![7; 90_000];
    fs.paths().write("/file", content).expect("writes");
    fs.unmount().expect("unmounts");
    let (_dir, path) = image::on_disk(&device);
    let stat = oracle::debugfs_one(&path, "stat /file").expect("debugfs reads");
    let (_, table) = stat.split_once("(IND):").expect("it has a table");
    let digits = table.bytes().take_while(u8::is_ascii_digit).count();
    let table: u32 = table[..digits].parse().expect("a number");
    for level in ["IND", "DIND", "TIND"] {
        let field = format!("sif /file block[{level}] {table}");
        oracle::debugfs(&path, Access::Write, &[field]).expect("debugfs writes");
    }
    let device = Arc::new(MemDevice::from_bytes(&std::fs::read(path).expect("reads")));
    let pointers = table.to_le_bytes().repeat(256);
    let at = u64::from(table) * 1024;
    device.write_at(at, &pointers).expect("it is inside");
    let before = device.to_bytes();
    let refused = resize::shrink(device.clone(), options(), Least::Possible);
    let said = refused.expect_err("it is damaged").to_string();
    assert!(said.contains(&format!("block {table}")), "{said}");
    assert!(device.to_bytes() == before, "written");
}

/// As after `debugfs -R "feature -needs_recovery"`: the kernel discards such a log.
#[test]
fn a_log_without_needs_recovery_is_discarded() {
    const INCOMPAT_AT: u64 = 1024 + 0x60;
    const STATE_AT: u64 = 1024 + 0x3A;
    let device = image::mke2fs(24, &["-O", "^metadata_csum"]);
    let fs = image::mount(&device);
    fs.paths().write("/old", vec![7; 9000]).expect("writes");
    fs.unmount().expect("unmounts");
    let fs = image::mount(&device);
    fs.paths().write("/new", vec![8; 9000]).expect("writes");
    fs.sync().expect("commits");
    fs.abandon();
    drop(fs);
    let mut incompat = [0];
    device.read_at(INCOMPAT_AT, &mut incompat).expect("reads");
    assert_ne!(incompat[0] & 4, 0, "the log is live");
    let cleared = [incompat[0] & !4];
    device.write_at(INCOMPAT_AT, &cleared).expect("writes");
    device.write_at(STATE_AT, &[1]).expect("writes");
    for (what, work) in REFUSED {
        let device = Arc::new(device.snapshot());
        if let Err(refused) = work(device.clone(), options()) {
            assert!(
                matches!(refused, Error::Mount(_) | Error::Resize(_)),
                "{what}: {refused:?}"
            );
        }
        image::assert_clean(&device);
        let fs = image::mount(&device);
        assert_eq!(fs.paths().read("/old").expect(what), vec![7; 9000]);
        assert!(
            fs.paths().read("/new").is_err(),
            "{what}: the log is replayed"
        );
        fs.unmount().expect(what);
    }
}
