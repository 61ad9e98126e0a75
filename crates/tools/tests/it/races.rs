//! `put -r` and `get -r` against concurrent replacement of path components by symbolic links.
//!
//! A thread exchanges names in the tree, which the tool reads or creates, with symbolic links to an
//! outside directory. A local user can do so while root copies. Nothing outside may be imported,
//! linked or changed. `UEXT4_PATH_RACES` sets the number of rounds.

use crate::rig::Rig;
use rustix::fs::{CWD, RenameFlags};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::skip;

const DIRS: usize = 12;

fn rounds() -> usize {
    let given = std::env::var("UEXT4_PATH_RACES").ok();
    given.map_or(12, |text| {
        text.parse().expect("UEXT4_PATH_RACES is a number")
    })
}

/// Target of the attack: files outside of the tree, whose state must not change.
struct Outside {
    dir: PathBuf,
}

impl Outside {
    fn new(rig: &Rig) -> Self {
        let dir = rig.path("outside");
        fs::create_dir(&dir).unwrap();
        for name in ["secret", "a", "pipe"] {
            fs::write(dir.join(name), "secret").unwrap();
            fs::set_permissions(dir.join(name), Permissions::from_mode(0o600)).unwrap();
        }
        Self { dir }
    }

    fn inodes(&self) -> Vec<u64> {
        let entries = fs::read_dir(&self.dir).unwrap();
        entries
            .map(|entry| entry.unwrap().metadata().unwrap().ino())
            .collect()
    }

    fn assert_untouched(&self, round: usize) {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            let name = entry.file_name();
            assert_eq!(meta.mode() & 0o7777, 0o600, "round {round}: {name:?}");
            assert_eq!(meta.nlink(), 1, "round {round}: {name:?}");
            assert_eq!(meta.uid(), 0, "round {round}: {name:?}");
            names.push(name);
        }
        assert_eq!(names.len(), 3, "round {round}: {names:?}");
    }
}

/// Runs `work` while a thread repeatedly exchanges each name with its symbolic link.
fn against_swaps(swaps: &[(PathBuf, PathBuf)], work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for (name, link) in swaps {
                    // Names that do not exist are skipped.
                    let _ = rustix::fs::renameat_with(CWD, name, CWD, link, RenameFlags::EXCHANGE);
                }
                std::thread::yield_now();
            }
        });
        work();
        done.store(true, Ordering::Relaxed);
    });
}

fn make_links(rig: &Rig, dir: &str, target: &Path) -> Vec<PathBuf> {
    fs::create_dir(rig.path(dir)).unwrap();
    let link = |number| {
        let link = rig.path(dir).join(format!("link{number}"));
        std::os::unix::fs::symlink(target, &link).unwrap();
        link
    };
    (0..DIRS).map(link).collect()
}

#[test]
fn put_imports_nothing_from_outside_of_a_tree_that_is_swapped() {
    if !skip::root_or_skip("put_imports_nothing_from_outside_of_a_tree_that_is_swapped") {
        return;
    }
    let rig = Rig::new(&[]);
    let outside = Outside::new(&rig);
    fs::create_dir(rig.path("tree")).unwrap();
    let links = make_links(&rig, "links", &outside.dir);
    let swap = |(number, link): (usize, PathBuf)| {
        let dir = rig.path("tree").join(format!("d{number}"));
        fs::create_dir_all(dir.join("below")).unwrap();
        for name in ["x", "y", "z"] {
            fs::write(dir.join(name), "x").unwrap();
        }
        (dir, link)
    };
    let swaps: Vec<_> = links.into_iter().enumerate().map(swap).collect();
    for round in 0..rounds() {
        against_swaps(&swaps, || {
            rig.run(&["put", "-r", "disk.img", "tree", "/"]);
        });
        let names = rig.ok(&["ls", "-aR", "disk.img", "/tree"]);
        assert!(!names.contains("secret"), "round {round}: {names}");
        rig.ok(&["rm", "-r", "disk.img", "/tree"]);
    }
    outside.assert_untouched(0);
    rig.assert_clean();
}

/// An image with `/tree/dN/a`, their hard links in `/tree/linksN`, and pipes in `/tree/pN`.
fn image_of_links(rig: &Rig) {
    let tree = rig.path("made/tree");
    for number in 0..DIRS {
        let dir = tree.join(format!("d{number}"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("a"), "a").unwrap();
        let dir = tree.join(format!("p{number}"));
        fs::create_dir_all(&dir).unwrap();
        let pipe = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(CWD, dir.join("pipe"), pipe, mode, 0).unwrap();
        fs::set_permissions(dir.join("pipe"), Permissions::from_mode(0o666)).unwrap();
        rustix::fs::chown(
            dir.join("pipe"),
            Some(rustix::fs::Uid::from_raw(7)),
            Some(rustix::fs::Gid::from_raw(7)),
        )
        .unwrap();
    }
    for number in 0..DIRS {
        let links = tree.join(format!("links{number}"));
        fs::create_dir(&links).unwrap();
        for other in 0..DIRS {
            let target = tree.join(format!("d{other}/a"));
            fs::hard_link(target, links.join(format!("hard{other}"))).unwrap();
        }
    }
    rig.ok(&["put", "-r", "disk.img", "made/.", "/"]);
}

fn files(dir: &Path, found: &mut Vec<(PathBuf, u64)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            files(&path, found);
        } else {
            found.push((path, meta.ino()));
        }
    }
}

#[test]
fn get_links_and_changes_nothing_outside_of_a_tree_that_is_swapped() {
    // Owners and nodes need root, and the attack targets root.
    let name = "get_links_and_changes_nothing_outside_of_a_tree_that_is_swapped";
    if !KernelMount::available_or_skip(name) {
        return;
    }
    let rig = Rig::new(&[]);
    let outside = Outside::new(&rig);
    let secrets = outside.inodes();
    image_of_links(&rig);
    for round in 0..rounds() {
        let out = format!("out{round}");
        fs::create_dir(rig.path(&out)).unwrap();
        let dirs = make_links(&rig, &format!("{out}-links"), &outside.dir);
        let pipes = make_links(&rig, &format!("{out}-pipes"), &outside.dir.join("pipe"));
        let tree = rig.path(&out).join("tree");
        let dir = |number: usize| tree.join(format!("d{number}"));
        // Pipes are not in a swapped directory, because the exchange itself would change files
        // outside.
        let pipe = |number: usize| tree.join(format!("p{number}/pipe"));
        let dirs = dirs.into_iter().enumerate();
        let pipes = pipes.into_iter().enumerate();
        let swaps: Vec<_> = dirs
            .map(|(number, link)| (dir(number), link))
            .chain(pipes.map(|(number, link)| (pipe(number), link)))
            .collect();
        against_swaps(&swaps, || {
            rig.run(&["get", "-r", "disk.img", "/tree", &out]);
        });
        outside.assert_untouched(round);
        let mut found = Vec::new();
        files(&rig.path(&out), &mut found);
        let leaked = found.iter().find(|(_, inode)| secrets.contains(inode));
        assert!(
            leaked.is_none(),
            "round {round}: {leaked:?} is from outside"
        );
        for part in ["", "-links", "-pipes"] {
            fs::remove_dir_all(rig.path(&format!("{out}{part}"))).unwrap();
        }
    }
}
