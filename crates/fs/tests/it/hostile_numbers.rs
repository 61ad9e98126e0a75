//! Block numbers of damaged structures that lie behind the end of the device: every tool that
//! writes refuses them or has no use for them, and none panics.

use crate::image;
use crate::unclean::REFUSED;
use std::ops::ControlFlow;
use std::sync::Arc;
use uext4::device::MemDevice;
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
