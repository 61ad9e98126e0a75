//! End-to-end test: mkfs, mount, change, unmount, check, mount again.

use crate::image;
use uext4::{Caller, Error, FileType, RenameFlags, WriteContext};

#[test]
fn an_empty_mount_leaves_a_clean_image() {
    let device = image::ext4(64);
    image::mount(&device).unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn files_and_directories_survive_a_remount() {
    let device = image::ext4(64);
    let root_user = Caller::root();
    let fs = image::mount(&device);
    let root = fs.root().unwrap();
    let dir = fs.mkdir(&root, b"dir", 0o755, &root_user).unwrap();
    for i in 0..300 {
        let name = format!("file number {i}");
        let file = fs.create(&dir, name.as_bytes(), 0o644, &root_user).unwrap();
        let data = vec![i as u8; i * 97];
        let written = fs.write(&file, 0, &data, &WriteContext::ROOT).unwrap();
        assert_eq!(written.len_bytes, data.len());
    }
    fs.symlink(&dir, b"short", b"target", &root_user).unwrap();
    fs.symlink(&dir, b"long", &[b'x'; 200], &root_user).unwrap();
    fs.mknod(
        &dir,
        b"null",
        FileType::CharDevice,
        0o666,
        (1, 3),
        &root_user,
    )
    .unwrap();
    for i in (0..300).step_by(3) {
        fs.unlink(&dir, format!("file number {i}").as_bytes(), &root_user)
            .unwrap();
    }
    let flags = RenameFlags::Replace;
    fs.rename(&dir, b"file number 1", &root, b"moved", flags, &root_user)
        .unwrap();
    drop((dir, root));
    fs.unmount().unwrap();
    drop(fs);
    image::assert_clean(&device);

    let fs = image::mount(&device);
    let root = fs.root().unwrap();
    let dir = fs.lookup(&root, b"dir", &root_user).unwrap();
    for i in 2..300 {
        let name = format!("file number {i}");
        let found = fs.lookup(&dir, name.as_bytes(), &root_user);
        if i % 3 == 0 {
            assert!(matches!(found, Err(Error::NotFound)));
            continue;
        }
        let mut data = vec![0; 40000];
        let len = fs.read(&found.unwrap(), 0, &mut data).unwrap();
        assert_eq!(len, i * 97);
        assert!(data[..len].iter().all(|byte| *byte == i as u8));
    }
    let long = fs.lookup(&dir, b"long", &root_user).unwrap();
    assert_eq!(fs.read_link(&long).unwrap(), [b'x'; 200]);
    drop((dir, root, long));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}
