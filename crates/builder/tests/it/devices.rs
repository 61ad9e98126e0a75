//! Devices of any contents: all is written, and there is no superblock before the last write.

use std::sync::Arc;

use uext4_builder::{Builder, Result, Size, Tables};
use uext4_device::{BlockDevice, MemDevice};
use uext4_testkit::oracle;

use crate::support::{attributes, options};

const BYTES: u64 = 24 << 20;
const MAGIC: [u8; 2] = [0x53, 0xEF];

/// A device full of noise, with the magic of an old superblock.
fn used() -> Arc<MemDevice> {
    let device = Arc::new(MemDevice::new(BYTES));
    device
        .write_at(0, &vec![0xA7; BYTES as usize])
        .expect("noise");
    device.write_at(1080, &MAGIC).expect("magic");
    device
}

fn read(device: &MemDevice, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    device.read_at(at, &mut bytes).expect("read");
    bytes
}

fn feed(builder: &mut Builder) -> Result<()> {
    for at in 0..400 {
        let bytes = vec![at as u8 | 1; 37 * at];
        builder.file(format!("d/{at}").as_bytes(), &bytes, attributes(0o644))?;
    }
    Ok(())
}

#[test]
fn noise_on_a_device_does_not_show() {
    for (block_size, list) in [
        (1024, ""),
        (4096, ""),
        (1024, "inline_data,^metadata_csum,^resize_inode"),
        (4096, "inline_data,quota"),
        (4096, "^has_journal,^orphan_file,meta_bg,^resize_inode"),
    ] {
        for size in [
            Size::Min,
            Size::Bytes(BYTES - (1 << 20)),
            Size::Bytes(BYTES),
        ] {
            let device = used();
            let mut options = options(size);
            options.format.block_size = Some(block_size);
            options.format.apply_features(list).expect("known");
            let mut builder = Builder::on(device.clone(), options).expect("builder");
            feed(&mut builder).expect("fed");
            assert_ne!(read(&device, 1080, 2), MAGIC, "the superblock comes last");
            let report = builder.finish().expect("image");
            assert_eq!(read(&device, 1080, 2), MAGIC);
            let dir = oracle::scratch_dir().expect("scratch");
            let image = dir.path().join("image");
            let len = report.geometry.size_bytes() as usize;
            std::fs::write(&image, read(&device, 0, len)).expect("write");
            oracle::assert_clean(&image);
        }
    }
}

#[test]
fn a_failed_build_leaves_no_superblock() {
    for block_size in [1024, 4096] {
        let device = used();
        let mut options = options(Size::Min);
        options.format.block_size = Some(block_size);
        let mut builder = Builder::on(device.clone(), options).expect("builder");
        let large = vec![3; BYTES as usize];
        let outcome = builder.file(b"large", &large, attributes(0o644));
        outcome.and_then(|()| builder.finish()).expect_err("full");
        assert_ne!(
            read(&device, 1080, 2),
            MAGIC,
            "blocks of {block_size} bytes"
        );
    }
}

#[test]
fn refused_options_leave_a_device_as_it_was() {
    let device = used();
    let mut front = options(Size::Min);
    front.tables = Tables::Front;
    assert!(Builder::on(device.clone(), front).is_err());
    let larger = options(Size::Bytes(BYTES + 4096));
    assert!(Builder::on(device.clone(), larger).is_err());
    assert_eq!(read(&device, 1080, 2), MAGIC);
    assert_eq!(read(&device, 0, 1024), vec![0xA7; 1024]);
}
