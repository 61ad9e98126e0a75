//! Bigalloc on a device that ends inside a cluster.

use super::*;
use crate::ops::WriteContext;

const CLUSTER: u64 = 16 << 10;

/// An image of mke2fs, which ends at a cluster boundary, cut three blocks before its end.
fn image() -> (tempfile::TempDir, std::path::PathBuf) {
    let features = ["-b", "1024", "-C", "16384", "-m", "0", "-I", "256"];
    let options = [
        &["-O", "bigalloc,^metadata_csum,^resize_inode"],
        &features[..],
    ]
    .concat();
    let (scratch, image) = oracle::mke2fs_image(20_000 << 10, &options).expect("mke2fs");
    let set = ["set_super_value blocks_count 19997"];
    oracle::debugfs(&image, oracle::Access::Write, &set).expect("debugfs sets the size");
    let file = std::fs::OpenOptions::new().write(true).open(&image);
    file.and_then(|file| file.set_len(19_997 << 10))
        .expect("cuts the image");
    oracle::assert_clean(&image);
    (scratch, image)
}

#[test]
fn a_cluster_cut_by_the_end_is_given_to_no_file() {
    for (delalloc, allocator) in [
        (false, crate::types::options::Allocator::Linear),
        (true, crate::types::options::Allocator::Optimized),
        (false, crate::types::options::Allocator::FreespaceTree),
    ] {
        let (_scratch, path) = image();
        let device = Arc::new(MemDevice::from_bytes(
            &std::fs::read(&path).expect("the image"),
        ));
        let options = MountOptions {
            delalloc: Some(delalloc),
            allocator,
            ..MountOptions::default()
        };
        let fs = Filesystem::mount(device.clone(), options).expect("mounts");
        let file = create(&fs, "all");
        let data = vec![7; CLUSTER as usize];
        let mut written = 0;
        let full = loop {
            match fs.write(&file, written, &data, &WriteContext::ROOT) {
                Ok(more) => written += more.len_bytes as u64,
                Err(error) => break error,
            }
        };
        assert!(matches!(full, Error::NoSpace), "{full}");
        fs.sync().expect("all that was accepted has its place");
        let extents = fs.fiemap(&file, 0, u64::MAX).expect("extents");
        let end = |extent: &crate::parts::file::Extent| extent.physical_bytes + extent.len_bytes;
        assert!(extents.iter().all(|extent| end(extent) <= 19_984 << 10));
        fs.trim(0..u64::MAX, 0).expect("trims to the end");
        fs.truncate(&file, 0).expect("truncates");
        fs.sync().expect("syncs");
        fs.trim(0..u64::MAX, 0).expect("trims to the end");
        fs.unmount().expect("unmounts");
        assert_clean(&device);
    }
}
