//! Attributes in inodes of their own (`ea_inode`) under every change of the seed of hashes, judged
//! by e2fsck, the kernel and a mount.

use crate::image;
use std::sync::Arc;
use uext4::device::{BlockDevice, MemDevice};
use uext4::format::Feature;
use uext4::format::quota::QuotaKind;
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::{
    Error, Filesystem, MountOptions, Presence, Reseal, SetAttr, SetMode, Threads, Tuning, reseal,
    set_quota,
};
use uext4_testkit::oracle::{self, KernelMount};

const OLD: [u8; 16] = [3; 16];
const NEW: [u8; 16] = [9; 16];

fn options() -> MountOptions {
    MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    }
}

/// The attributes of a file: values in inodes, one of which all files share, and some in the inode
/// or a block.
fn attributes(file: usize) -> Vec<(String, Vec<u8>)> {
    let small = (0..3 + file * 4).map(|nr| (format!("user.{nr}"), vec![7; 20]));
    let large = [
        ("user.shared".into(), vec![1; 5000]),
        ("user.own".into(), vec![file as u8; 9000]),
        ("user.n\u{e4}me".into(), vec![2; 3000 + file]),
    ];
    small.chain(large).collect()
}

fn made(features: &str) -> Arc<MemDevice> {
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.block_size = Some(1024);
    options.uuid = Some(OLD);
    options.apply_features("ea_inode").expect("a feature");
    options.apply_features(features).expect("known features");
    let device = image::fresh(24, &options);
    let fs = image::mount(&device);
    for file in 0..4 {
        let name = format!("/{file}");
        fs.paths().write(&name, b"text").expect("writes");
        for (attribute, value) in attributes(file) {
            let set = fs
                .paths()
                .set_xattr(&name, &attribute, &value, SetMode::Any);
            set.expect("sets");
        }
    }
    fs.unmount().expect("unmounts");
    device
}

#[track_caller]
fn assert_values(device: &Arc<MemDevice>, what: &str) {
    image::assert_clean(device);
    let fs = image::mount(device);
    for file in 0..4 {
        for (name, value) in attributes(file) {
            let found = fs.paths().xattr(format!("/{file}"), &name);
            assert!(found.expect("reads") == value, "{what}: {name} of {file}");
        }
    }
    fs.unmount().expect("unmounts");
    if KernelMount::available_or_skip("large_values") {
        let (_dir, path) = image::on_disk(device);
        let kernel = KernelMount::new(&path, "").expect("mounts");
        for file in 0..4 {
            for (name, value) in attributes(file) {
                let mut found = vec![0; 1 << 16];
                let path = kernel.path().join(file.to_string());
                let len = rustix::fs::getxattr(path, &*name, &mut found[..]);
                let found = &found[..len.expect("the kernel reads")];
                assert!(found == value, "{what}: {name} of {file} by the kernel");
            }
        }
        kernel.unmount().expect("unmounts");
        oracle::assert_clean(&path);
    }
}

fn resealed(device: &Arc<MemDevice>, wanted: Reseal) -> Result<(), Error> {
    let device: Arc<dyn BlockDevice> = device.clone();
    reseal(device, options(), wanted)
}

fn tuned(device: &Arc<MemDevice>, tuning: &Tuning) -> Result<(), Error> {
    let fs = Filesystem::mount(device.clone(), options())?;
    let done = fs.tune(tuning);
    fs.unmount()?;
    done
}

#[test]
fn large_values_survive_every_change_of_the_seed() {
    let uuid = Reseal {
        uuid: Some(NEW),
        ..Reseal::default()
    };
    let checksums_off = Reseal {
        metadata_csum: Some(Presence::Absent),
        ..Reseal::default()
    };
    let both = Reseal {
        uuid: Some(NEW),
        ..checksums_off
    };
    // The seed differs from that of the UUID.
    let own_seed = Tuning {
        uuid: Some([5; 16]),
        features: vec![(Feature::CSUM_SEED, Presence::Present)],
        ..Tuning::default()
    };
    let none = Tuning::default();
    let cases = [
        ("^metadata_csum,^metadata_csum_seed", &none, uuid),
        ("^metadata_csum,^metadata_csum_seed,uninit_bg", &none, uuid),
        ("metadata_csum,^metadata_csum_seed", &none, uuid),
        (
            "metadata_csum,^metadata_csum_seed",
            &own_seed,
            checksums_off,
        ),
        ("metadata_csum,^metadata_csum_seed", &own_seed, both),
        ("metadata_csum,^metadata_csum_seed", &none, both),
    ];
    for (features, before, wanted) in cases {
        let device = made(features);
        tuned(&device, before).expect("tunes");
        let what = format!("{features}, {wanted:?}");
        assert_values(&device, &format!("before {what}"));
        resealed(&device, wanted).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_values(&device, &what);
        resealed(
            &device,
            Reseal {
                uuid: Some(OLD),
                ..wanted
            },
        )
        .expect("back");
        assert_values(&device, &format!("{what} and back"));
    }
}

/// e2fsck counts a value in an inode for each file that refers to it, as Linux does: when the quota
/// starts, and after changes by a mount.
#[test]
fn owners_of_files_are_charged_for_values_in_inodes() {
    for features in ["", "bigalloc,^resize_inode", "^extents,^64bit"] {
        let device = made(features);
        let fs = image::mount(&device);
        for file in 0..4 {
            let owners = SetAttr {
                uid: Some(1000 + file % 2),
                gid: Some(file),
                ..SetAttr::default()
            };
            let set = fs.paths().set_attr(format!("/{file}"), &owners);
            set.expect("sets owners");
        }
        fs.unmount().expect("unmounts");
        let home: Arc<dyn BlockDevice> = device.clone();
        let kinds = [QuotaKind::User, QuotaKind::Group];
        set_quota(&home, &options(), &kinds).expect("counts");
        image::assert_clean(&device);
        let fs = image::mount(&device);
        let users = fs.quota(QuotaKind::User).expect("quota is on");
        let inodes = |id| {
            users
                .iter()
                .find(|user| user.id == id)
                .map(|user| user.inodes)
        };
        // Two files, each with three values.
        assert_eq!(
            [inodes(1000), inodes(1001)],
            [Some(8), Some(8)],
            "{features}"
        );
        fs.paths().remove_xattr("/0", "user.own").expect("removes");
        fs.paths().remove_file("/1").expect("removes");
        let value = vec![9; 7000];
        let set = fs.paths().set_xattr("/2", "user.new", &value, SetMode::Any);
        set.expect("sets");
        fs.unmount().expect("unmounts");
        image::assert_clean(&device);
        set_quota(&home, &options(), &[]).expect("ends");
        image::assert_clean(&device);
    }
}

#[test]
fn a_mount_does_not_change_the_seed_of_values() {
    let device = made("^metadata_csum,^metadata_csum_seed");
    let tuning = Tuning {
        uuid: Some(NEW),
        ..Tuning::default()
    };
    let refused = tuned(&device, &tuning);
    assert!(
        matches!(refused, Err(Error::NotSupported(_))),
        "{refused:?}"
    );
    assert_values(&device, "refused");
}
