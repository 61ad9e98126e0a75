use super::*;
use crate::{Access, BlockDevice, FileDevice};
use uext4_testkit::{oracle, wait};

/// Reads a file of the device in `/sys`; none while it is detached.
fn told(device: &Path, what: &str) -> Option<String> {
    let name = device.file_name().expect("a device has a name");
    let path = Path::new("/sys/block").join(name).join("loop").join(what);
    let told = std::fs::read_to_string(path).ok()?;
    Some(told.trim_end().to_owned())
}

fn image() -> (tempfile::TempDir, PathBuf) {
    let dir = oracle::scratch_dir().expect("a scratch directory");
    let image = dir.path().join("disk.img");
    std::fs::write(&image, vec![0; 1 << 20]).expect("it fits");
    (dir, image)
}

#[test]
fn it_shows_the_file_and_goes_with_its_last_descriptor() {
    if !oracle::KernelMount::available_or_skip("it_shows_the_file_and_goes") {
        return;
    }
    for (how, direct) in [(LoopIo::Buffered, "0"), (LoopIo::Direct, "1")] {
        let (_dir, image) = image();
        let attached = AttachedLoop::attach(&image, how).expect("a free device");
        let path = attached.path().to_owned();
        let below = told(&path, "backing_file");
        assert_eq!(below.as_deref(), image.to_str());
        // tmpfs supports direct I/O since Linux 6.6.
        let dio = told(&path, "dio").expect("it is attached");
        assert!(dio == direct || dio == "0", "{how:?}: {dio}");
        let device = FileDevice::open(&path, Access::ReadWrite).expect("no other program uses it");
        drop(attached);
        device.write_at(4096, b"through it").expect("it is there");
        device.flush().expect("it is there");
        assert_eq!(told(&path, "backing_file"), below);
        drop(device);
        // A child that another test forks may hold a descriptor until its exec.
        wait::until_true("the detach", || told(&path, "backing_file") != below);
        let bytes = std::fs::read(&image).expect("the file stays");
        assert_eq!(&bytes[4096..4106], b"through it");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_refused() {
    if !oracle::KernelMount::available_or_skip("a_file_that_cannot_be_written_is_refused") {
        return;
    }
    let (dir, _) = image();
    for (path, kind) in [
        (dir.path().join("absent"), io::ErrorKind::NotFound),
        (dir.path().to_owned(), io::ErrorKind::IsADirectory),
    ] {
        let refused = AttachedLoop::attach(&path, LoopIo::Buffered).map(drop);
        assert_eq!(refused.expect_err("no image").kind(), kind);
    }
}
