//! overlayfs with both layers on one mount, as Docker has them.

use crate::support::{Mounted, names_in, run};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::PathBuf;

/// An overlay on the mount, until it is dropped.
struct Overlay(PathBuf);

impl Overlay {
    fn over(mounted: &Mounted) -> Self {
        let dir = |name: &str| mounted.path(name).display().to_string();
        let (low, up, work) = (dir("low"), dir("up"), dir("work"));
        let options = format!("lowerdir={low},upperdir={up},workdir={work}");
        let at = mounted.path("merged");
        run("mount", &[&"-t", &"overlay", &"o", &"-o", &options, &at]);
        Self(at)
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn copied_files_stay_after_the_next_mount() {
    let systems = fs::read_to_string("/proc/filesystems").expect("/proc is mounted");
    if !systems.contains("overlay") {
        eprintln!("=== SKIPPED: this kernel has no overlayfs ===");
        return;
    }
    let mut mounted = Mounted::new();
    for name in ["low", "up", "work", "merged", "low/dir"] {
        fs::create_dir(mounted.path(name)).unwrap();
    }
    for name in ["low/0", "low/dir/1"] {
        fs::write(mounted.path(name), name).unwrap();
    }
    let overlay = Overlay::over(&mounted);
    for name in ["0", "dir/1"] {
        chown(overlay.0.join(name), Some(5), None).unwrap();
    }
    drop(overlay);
    mounted.unmount();
    mounted.mount(&[]);
    let overlay = Overlay::over(&mounted);
    for _ in 0..3 {
        for name in ["0", "dir/1"] {
            let path = overlay.0.join(name);
            assert_eq!(fs::metadata(&path).unwrap().uid(), 5, "{name}");
            assert_eq!(fs::read(&path).unwrap(), format!("low/{name}").as_bytes());
        }
        assert!(names_in(&overlay.0).contains(&"0".to_owned()));
    }
    drop(overlay);
    mounted.unmount();
}
