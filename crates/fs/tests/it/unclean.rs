//! A file system that a crash without a journal left, and one with recorded errors: no change makes
//! it clean, and changes of structure are refused before the first write. Judged by the superblock,
//! by which `e2fsck -p` decides whether to look.

use crate::image;
use std::ops::ControlFlow;
use std::sync::Arc;
use uext4::device::{BlockDevice, MemDevice};
use uext4::format::quota::QuotaKind;
use uext4::format::superblock::state;
use uext4::mkfs::{DeviceContents, MkfsOptions, Preset};
use uext4::resize::{self, Least, NewSize};
use uext4::{
    Error, Filesystem, InternalJournal, Journal, MountOptions, Presence, Reseal, ResizeError,
    Threads,
};
use uext4::{Tuning, convert, reseal, set_journal, set_quota, use_extents};
use uext4_testkit::oracle::{self, Repair};

pub(crate) type Device = Arc<dyn BlockDevice>;
pub(crate) type Work = (&'static str, fn(Device, MountOptions) -> Result<(), Error>);

fn options() -> MountOptions {
    MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    }
}

/// The marks of the superblock on the device.
fn marks(device: &MemDevice) -> u16 {
    let disk = uext4::read_superblock(device, None).expect("a superblock");
    disk.state & (state::VALID | state::ERROR)
}

fn fresh(features: &str) -> Arc<MemDevice> {
    let mut options = MkfsOptions::new(Preset::Ext4);
    options.block_size = Some(1024);
    options.apply_features(features).expect("known features");
    image::fresh(24, &options)
}

/// Without a journal, after a crash.
fn crashed() -> Arc<MemDevice> {
    let device = fresh("^has_journal,^orphan_file,^ea_inode");
    let fs = image::mount(&device);
    fs.paths().write("/file", vec![7; 5000]).expect("writes");
    fs.abandon();
    drop(fs);
    assert_eq!(marks(&device), 0);
    device
}

fn with_errors(features: &str) -> Arc<MemDevice> {
    let device = fresh(features);
    let (_dir, path) = image::on_disk(&device);
    oracle::debugfs(&path, oracle::Access::Write, &["set_super_value state 3"])
        .expect("debugfs writes");
    Arc::new(MemDevice::from_bytes(&std::fs::read(path).expect("reads")))
}

/// Changes of structure.
pub(crate) const REFUSED: [Work; 8] = [
    ("grow", |device, options| {
        resize::grow(device, options, 23 << 20, DeviceContents::Unknown).map(drop)
    }),
    ("shrink", |device, options| {
        resize::shrink(device, options, Least::Possible).map(drop)
    }),
    ("inode size", |device, options| {
        resize::set_inode_size(device, options, 512)
    }),
    ("checksums", |device, options| {
        let metadata_csum = Some(Presence::Absent);
        let wanted = Reseal {
            metadata_csum,
            ..Reseal::default()
        };
        reseal(device, options, wanted)
    }),
    ("journal", |device, options| {
        set_journal(
            &device,
            &options,
            Journal::Internal(InternalJournal::of(2048)),
        )
    }),
    ("quota", |device, options| {
        set_quota(&device, &options, &[QuotaKind::User])
    }),
    ("convert", |device, options| {
        convert(&device, &options, None).map(drop)
    }),
    ("extents", |device, options| {
        use_extents(&device, &options, &mut |_| ControlFlow::Continue(())).map(drop)
    }),
];

/// A name and what it does on a mount.
type Use = (&'static str, fn(&Filesystem));

#[test]
fn the_state_at_the_mount_comes_back_at_the_unmount() {
    let works: [Use; 5] = [
        ("nothing", |_| {}),
        ("a file", |fs| fs.paths().write("/new", [1; 9]).unwrap()),
        ("a label", |fs| {
            let label = Some(b"label".to_vec());
            let tuning = Tuning {
                label,
                ..Tuning::default()
            };
            fs.tune(&tuning).unwrap();
        }),
        ("a freeze", |fs| {
            fs.freeze().unwrap();
            fs.thaw().unwrap();
        }),
        ("remounts", |fs| {
            fs.remount("ro").unwrap();
            fs.remount("rw").unwrap();
        }),
    ];
    let device = crashed();
    for (what, work) in works {
        let fs = image::mount(&device);
        work(&fs);
        fs.unmount().unwrap();
        assert_eq!(marks(&device), 0, "{what}");
    }
    let (_dir, path) = image::on_disk(&device);
    let verdict = oracle::e2fsck_repair(&path, Repair::Everything).unwrap();
    assert!(verdict.is_clean() || verdict.is_repaired(), "{verdict:?}");
    let device = Arc::new(MemDevice::from_bytes(&std::fs::read(path).unwrap()));
    for (what, work) in works {
        assert_eq!(marks(&device), state::VALID, "before {what}");
        let fs = image::mount(&device);
        assert_eq!(marks(&device), 0, "{what}: in use");
        work(&fs);
        fs.unmount().unwrap();
    }
    assert_eq!(marks(&device), state::VALID);
}

#[test]
fn changes_of_structure_are_refused_before_a_write() {
    let states = [
        ("a crash", crashed()),
        ("errors", with_errors("^ea_inode")),
        ("errors", with_errors("^has_journal,^orphan_file,^ea_inode")),
    ];
    for (state, device) in states {
        let before = device.to_bytes();
        for (what, work) in REFUSED {
            let refused = work(device.clone(), options());
            let wanted = matches!(
                (&refused, state),
                (Err(Error::Resize(ResizeError::Unclean)), "a crash")
                    | (Err(Error::Resize(ResizeError::Errors)), "errors")
            );
            assert!(wanted, "{what} after {state}: {refused:?}");
            let said = refused.unwrap_err().to_string();
            assert!(said.contains("run `uext4 fsck -f` first"), "{said}");
            assert!(device.to_bytes() == before, "{what} after {state}: written");
        }
    }
}

#[test]
fn a_mounted_one_does_not_grow() {
    let device = crashed();
    let fs = image::mount(&device);
    let refused = fs.grow(NewSize::Device);
    let is_unclean = matches!(refused, Err(Error::Resize(ResizeError::Unclean)));
    assert!(is_unclean, "{refused:?}");
    fs.unmount().unwrap();
}
