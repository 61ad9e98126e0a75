//! Memory of the server while a program walks many names, in a memory control group of its own.

use crate::support::{Mounted, program};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use uext4::device::{Access, FileDevice};
use uext4::{Caller, Filesystem, MountOptions};
use uext4_fuse::Ask;
use uext4_testkit::skip;

const DIRS: u64 = 50;
const NAMES_PER_DIR: u64 = 1000;
/// A server that keeps an inode per name needs more.
const LIMIT_BYTES: u64 = 28 << 20;

/// Walks until one is not disturbed.
const WALKS_MAX: usize = 10;

/// A memory control group.
struct Group(PathBuf);

impl Group {
    /// A group with that limit; none if this process may not make one.
    fn new(limit_bytes: u64) -> Option<Self> {
        let name = format!("uext4-test-{}", std::process::id());
        let kinds = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        kinds.into_iter().find_map(|(root, limit)| {
            let group = Self(Path::new(root).join(&name));
            fs::create_dir(&group.0).ok()?;
            // Without the controller there is no such file, and the drop removes the group.
            fs::write(group.0.join(limit), limit_bytes.to_string()).ok()?;
            Some(group)
        })
    }

    /// A command that runs `program` in the group.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        let enter = "echo $$ > \"$0\" && exec \"$@\"";
        let processes = self.0.join("cgroup.procs");
        command.arg("-c").arg(enter).arg(processes).arg(program);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Empty files, made by the library.
fn fill(image: &Path) {
    let device = Arc::new(FileDevice::open(image, Access::ReadWrite).unwrap());
    let fs = Filesystem::mount(device, MountOptions::default()).unwrap();
    let (root, user) = (fs.root().unwrap(), Caller::root());
    for dir in 0..DIRS {
        let dir = fs.mkdir(&root, format!("dir{dir}").as_bytes(), 0o755, &user);
        let dir = dir.unwrap();
        for name in 0..NAMES_PER_DIR {
            let name = format!("a file with number {name}");
            let file = fs.create(&dir, name.as_bytes(), 0o644, &user);
            drop(file.unwrap());
        }
    }
    fs.unmount().unwrap();
}

fn walk(dir: &Path) -> u64 {
    let each = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.expect("the server lives");
        if entry.metadata().expect("the server lives").is_dir() {
            1 + walk(&entry.path())
        } else {
            1
        }
    };
    fs::read_dir(dir).expect("it reads").map(each).sum()
}

/// The program is outside of the group, as are the kernel's inodes, so all of it stays remembered.
#[test]
fn a_walk_of_many_names_stays_within_a_control_group() {
    let Some(group) = Group::new(LIMIT_BYTES) else {
        // Containers may not make control groups, also in CI.
        skip::record("a walk of many names", "a memory control group");
        return;
    };
    let mut mounted = Mounted::with(&["-b", "4096", "-N", "60000"], &[]);
    mounted.unmount();
    fill(&mounted.image());
    mounted.mount_by(group.command(&program()), &[]);
    // The root itself is not counted, lost+found is.
    let names = DIRS * (NAMES_PER_DIR + 1) + 1;
    // Tests beside this one make the kernel drop its caches.
    let mut known = 0;
    for _ in 0..WALKS_MAX {
        assert_eq!(walk(&mounted.root()), names);
        let stats = mounted
            .client()
            .ask(&Ask::Stats {})
            .expect("the server lives");
        known = stats["nodes"]["known"].as_u64().unwrap();
        if known > names * 9 / 10 {
            break;
        }
    }
    assert!(
        known > names * 9 / 10,
        "the kernel knows {known} of {names} names"
    );
    // What is no longer in memory is read again.
    assert_eq!(walk(&mounted.root()), names);
    mounted.unmount();
}
