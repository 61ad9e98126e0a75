//! Access that bypasses the page cache: a loop device, whose backing file stands for the disk.

use super::*;
use crate::Window;
use crate::loop_device::LoopDevice;
use std::sync::Arc;
use uext4_sync::Rng;

const SIZE_BYTES: u64 = 1 << 16;

/// A backing file of sevens, and the loop device over it.
fn disk() -> Option<(tempfile::TempDir, PathBuf, LoopDevice)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, vec![7; SIZE_BYTES as usize]).unwrap();
    let node = LoopDevice::attach(&path)?;
    Some((dir, path, node))
}

fn behind(path: &Path, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    File::open(path)
        .unwrap()
        .read_exact_at(&mut bytes, offset)
        .unwrap();
    bytes
}

fn put_behind(path: &Path, offset: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

#[test]
fn what_another_host_wrote_is_read() {
    let Some((_dir, path, node)) = disk() else {
        return;
    };
    let file = Arc::new(FileDevice::open(node.path(), Access::ReadWrite).unwrap());
    let window = Window::new(file.clone(), 4096, SIZE_BYTES - 4096).unwrap();
    let mut rng = Rng::new(1);
    for round in 0..50 {
        let (offset, len) = (rng.below(50_000), 1 + rng.below(9000));
        let mut buf = vec![0; len as usize];
        file.read_at(offset, &mut buf).unwrap();
        let other: Vec<u8> = (0..len).map(|at| (at + round) as u8).collect();
        put_behind(&path, offset, &other);
        file.read_past_cache_at(offset, &mut buf).unwrap();
        assert!(buf == other, "round {round}: {len} bytes at {offset}");
        if let Some(inside) = offset.checked_sub(4096) {
            buf.fill(0);
            window.read_past_cache_at(inside, &mut buf).unwrap();
            assert!(buf == other, "round {round}: {len} bytes at {offset}");
        }
    }
}

#[test]
fn a_sector_is_written_and_nothing_beside_it() {
    let Some((_dir, path, node)) = disk() else {
        return;
    };
    let file = Arc::new(FileDevice::open(node.path(), Access::ReadWrite).unwrap());
    let window = Window::new(file.clone(), 1024, SIZE_BYTES - 1024).unwrap();
    file.read_at(0, &mut [0; 8192]).unwrap();
    put_behind(&path, 4096, &[9; 4096]);
    file.write_past_cache_at(4096 + 512, &[1; 512]).unwrap();
    window.write_past_cache_at(4096 + 1024, &[2; 512]).unwrap();
    let expected = [[9; 512], [1; 512], [9; 512], [9; 512], [2; 512], [9; 512]].concat();
    assert!(behind(&path, 4096, 6 * 512) == expected);
    let mut buf = vec![0; 6 * 512];
    file.read_at(4096, &mut buf).unwrap();
    assert!(buf == expected, "no stale page stays");
}

/// The second call waits for what the first one started.
#[test]
fn what_is_written_out_leaves_the_cache() {
    let Some((_dir, path, node)) = disk() else {
        return;
    };
    let file = Arc::new(FileDevice::open(node.path(), Access::ReadWrite).unwrap());
    let window = Window::new(file.clone(), 8192, 16384).unwrap();
    let devices: [(&dyn BlockDevice, u64); 2] = [(&*file, 0), (&window, 8192)];
    for (device, start) in devices {
        device.write_at(4096, &[1; 4096]).unwrap();
        for _ in 0..2 {
            device.write_out(4096, 4096).unwrap();
        }
        assert!(behind(&path, start + 4096, 4096) == [1; 4096]);
    }
}

#[test]
fn a_durable_write_is_behind_the_cache_when_it_returns() {
    let Some((_dir, path, node)) = disk() else {
        return;
    };
    let file = Arc::new(FileDevice::open(node.path(), Access::ReadWrite).unwrap());
    let window = Window::new(file.clone(), 8192, 16384).unwrap();
    let devices: [(&dyn BlockDevice, u64); 2] = [(&*file, 0), (&window, 8192)];
    for (device, start) in devices {
        for (round, len) in [(1, 4096), (2, 1), (3, 7000)] {
            device.write_durable_at(4096, &vec![round; len]).unwrap();
            assert!(behind(&path, start + 4096, len) == vec![round; len]);
        }
    }
    drop((window, file));
    let device = FileDevice::open(node.path(), Access::ReadOnly).unwrap();
    let refused = device.write_durable_at(0, &[1]);
    assert!(matches!(refused, Err(Error::ReadOnly)));
}

/// A mount that becomes writable, on a file system that supports no `O_DIRECT` as well.
#[test]
fn a_device_opened_to_read_writes_past_the_cache_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, [7; 8192]).unwrap();
    let device = FileDevice::open(&path, Access::ReadOnly).unwrap();
    let mut buf = [0; 1024];
    device.read_past_cache_at(0, &mut buf).unwrap();
    assert!(buf == [7; 1024]);
    let refused = device.write_past_cache_at(0, &[1; 512]);
    assert!(matches!(refused, Err(Error::ReadOnly)));
    assert!(matches!(device.write_out(0, 512), Err(Error::ReadOnly)));
    device.begin_writing().unwrap();
    device.write_past_cache_at(512, &[1; 512]).unwrap();
    device.read_past_cache_at(0, &mut buf).unwrap();
    assert!(buf[..512] == [7; 512] && buf[512..] == [1; 512]);
}

#[test]
fn odd_ranges_and_no_direct_access_give_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    // The last page is short.
    let mut model: Vec<u8> = (0..20_000_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(&path, &model).unwrap();
    let device = FileDevice::open(&path, Access::ReadWrite).unwrap();
    let direct = direct::open(&path, true);
    let mut rng = Rng::new(2);
    for round in 0..200 {
        let offset = rng.below(20_000);
        let len = 1 + rng.below((20_000 - offset).min(6000));
        let place = offset as usize..(offset + len) as usize;
        let handle = direct.as_ref().filter(|_| round % 2 == 0);
        let mut buf = vec![0; len as usize];
        if round % 3 == 0 {
            buf.fill(round as u8);
            direct::write(&device.file, handle, &buf, offset).unwrap();
            model[place].copy_from_slice(&buf);
        } else {
            direct::read(&device.file, handle, &mut buf, offset).unwrap();
            assert!(
                buf == model[place],
                "round {round}: {len} bytes at {offset}"
            );
        }
    }
    for handle in [direct.as_ref(), None] {
        let past = direct::read(&device.file, handle, &mut [0; 2], 19_999);
        assert!(past.is_err(), "a read past the end");
    }
    assert!(std::fs::read(&path).unwrap() == model);
}
