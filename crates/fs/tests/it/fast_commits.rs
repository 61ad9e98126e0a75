//! Fast commits that the kernel wrote, replayed by us, by the kernel and by e2fsck.

use crate::crashed::{self, Crashed};
use crate::image;
use rustix::fs::FallocateFlags as Flags;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::device::{MemDevice, Recorder, Survivors, Tearing};
use uext4::{Access, Caller, Error, Filesystem, MountOptions, RemountError};
use uext4_judge::EngineTarget;
use uext4_testkit::manifest::{Field, Manifest};
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::rng::Rng;

const MIB: u64 = 32;
const BASE_FILES: u64 = 8;
const SEEDS: u64 = 12;

/// Small changes, each made durable by an fsync.
struct Work {
    root: PathBuf,
    rng: Rng,
    files: Vec<PathBuf>,
    made: u64,
}

impl Work {
    fn new(root: &Path, seed: u64) -> Self {
        Self {
            root: root.to_path_buf(),
            rng: Rng::new(seed),
            files: Vec::new(),
            made: 0,
        }
    }

    /// Creates the files that a full commit contains.
    fn base(&mut self) {
        fs::create_dir(self.root.join("dir")).unwrap();
        for nr in 0..BASE_FILES {
            let path = self.name("base");
            let len = [100, 5_000, 70_000][nr as usize % 3];
            fs::write(&path, self.rng.bytes(len)).unwrap();
            if nr % 2 == 1 {
                // Later writes change the state of these blocks, not their place.
                let file = OpenOptions::new().write(true).open(&path).unwrap();
                rustix::fs::fallocate(&file, Flags::KEEP_SIZE, 0, 150_000).unwrap();
            }
            self.files.push(path);
        }
        rustix::fs::syncfs(File::open(&self.root).unwrap()).unwrap();
    }

    fn name(&mut self, kind: &str) -> PathBuf {
        self.made += 1;
        let dir = if self.rng.chance(50) {
            self.root.join("dir")
        } else {
            self.root.clone()
        };
        dir.join(format!("{kind} {}", self.made))
    }

    fn file(&mut self) -> PathBuf {
        self.rng.pick(&self.files).clone()
    }

    fn take(&mut self) -> PathBuf {
        let slot = self.rng.below(self.files.len() as u64) as usize;
        self.files.swap_remove(slot)
    }

    fn step(&mut self) {
        match self.rng.below(if self.files.len() < 3 { 1 } else { 10 }) {
            0..=2 => self.create(),
            3..=4 => self.write(),
            5 => self.unlink(),
            6 => self.link(),
            7 => self.rename(),
            8 => self.truncate(),
            _ => self.punch(),
        }
    }

    fn create(&mut self) {
        let path = self.name("new");
        let len = self.rng.below(30_000) as usize;
        fs::write(&path, self.rng.bytes(len)).unwrap();
        sync(&path);
        self.files.push(path);
    }

    fn write(&mut self) {
        let path = self.file();
        let (at, len) = (self.rng.below(200_000), 1 + self.rng.below(20_000) as usize);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&self.rng.bytes(len), at).unwrap();
        file.sync_all().unwrap();
    }

    fn unlink(&mut self) {
        fs::remove_file(self.take()).unwrap();
        let other = self.file();
        self.touch(&other);
    }

    fn link(&mut self) {
        let (from, to) = (self.file(), self.name("link"));
        fs::hard_link(&from, &to).unwrap();
        sync(&from);
        self.files.push(to);
    }

    fn rename(&mut self) {
        let from = self.take();
        let to = if self.rng.chance(30) {
            self.take()
        } else {
            self.name("moved")
        };
        fs::rename(from, &to).unwrap();
        self.touch(&to);
        self.files.push(to);
    }

    fn truncate(&mut self) {
        let path = self.file();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(self.rng.below(100_000)).unwrap();
        file.sync_all().unwrap();
    }

    fn punch(&mut self) {
        let path = self.file();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let (at, len) = (self.rng.below(60_000), 1 + self.rng.below(30_000));
        let flags = match self.rng.below(4) {
            0 => Flags::empty(),
            1 => Flags::KEEP_SIZE,
            2 => Flags::KEEP_SIZE | Flags::ZERO_RANGE,
            _ => Flags::KEEP_SIZE | Flags::PUNCH_HOLE,
        };
        rustix::fs::fallocate(&file, flags, at, len).unwrap();
        file.sync_all().unwrap();
    }

    /// A small change, so that the fsync has something to commit.
    fn touch(&mut self, path: &Path) {
        let file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all_at(b"touched", 3).unwrap();
        file.sync_all().unwrap();
    }
}

fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// Number of fast commits of the mounted device, from the kernel's statistics.
fn fast_commits(mounted: &Path) -> u64 {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let name = mounts.lines().find_map(|line| {
        let (device, rest) = line.split_once(' ')?;
        rest.starts_with(mounted.to_str()?)
            .then(|| device.trim_start_matches("/dev/").to_owned())
    });
    let path = format!("/proc/fs/ext4/{}/fc_info", name.expect("a mounted device"));
    let text = fs::read_to_string(path).unwrap();
    let first = text.lines().find_map(|line| line.strip_suffix(" commits"));
    first
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

fn crashed(seed: u64, count: &mut u64) -> Crashed {
    crashed_with("fast_commit", seed, count)
}

pub(crate) fn crashed_with(features: &str, seed: u64, count: &mut u64) -> Crashed {
    let block = ["1024", "4096"][seed as usize % 2];
    Crashed::by_kernel(MIB, &["-O", features, "-b", block], "", |root| {
        let mut work = Work::new(root, seed);
        work.base();
        let before = fast_commits(root);
        (0..4 + seed % 12).for_each(|_| work.step());
        *count = fast_commits(root) - before;
    })
}

/// Every step ends with an fsync, so the recovered tree must equal the tree at the crash.
#[test]
fn what_was_synced_is_there_after_our_replay() {
    if !KernelMount::available_or_skip("what_was_synced_is_there_after_our_replay") {
        return;
    }
    let (mut with_fast_commits, mut kernel_agrees, mut e2fsck_agrees) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut count = 0;
        let crashed = crashed(seed, &mut count);
        with_fast_commits += u64::from(count > 0);
        let ours = crashed.our_tree();
        let differences = crashed.live_tree().diff(&ours, &crashed::policy());
        assert!(differences.is_empty(), "seed {seed}: {differences:?}");
        let same = |tree: &Manifest| tree.diff(&ours, &crashed::policy()).is_empty();
        kernel_agrees += u64::from(crashed.kernel_tree().is_ok_and(|tree| same(&tree)));
        e2fsck_agrees += u64::from(crashed.e2fsck_tree().is_some_and(|tree| same(&tree)));
    }
    eprintln!("of {SEEDS}: kernel {kernel_agrees}, e2fsck {e2fsck_agrees}");
    assert!(
        with_fast_commits > SEEDS / 2,
        "only {with_fast_commits} seeds have fast commits"
    );
    // Both fail if an inode number was reused; then the tree at the crash is the only reference.
    assert!(
        kernel_agrees > SEEDS / 2,
        "only {kernel_agrees} replays of the kernel agree"
    );
    assert!(
        e2fsck_agrees > SEEDS / 4,
        "only {e2fsck_agrees} replays of e2fsck agree"
    );
}

/// Files that leave inline storage, and files whose extents share clusters. Linux logs no fast
/// commit for data that a fallocate moves out of an inode, so its own replay loses it too.
#[test]
fn inline_data_and_clusters_come_back() {
    if !KernelMount::available_or_skip("inline_data_and_clusters_come_back") {
        return;
    }
    for features in ["fast_commit,inline_data", "fast_commit,bigalloc"] {
        let (mut with_fast_commits, mut whole) = (0, 0);
        for seed in 100..108 {
            let mut count = 0;
            let crashed = crashed_with(features, seed, &mut count);
            with_fast_commits += u64::from(count > 0);
            let lost = lost_paths(&crashed, &crashed.our_tree());
            whole += u64::from(lost.is_empty());
            let lost_by_linux = match lost.is_empty() {
                true => BTreeSet::new(),
                false => lost_paths(&crashed, &crashed.kernel_tree().unwrap()),
            };
            assert!(
                lost.is_subset(&lost_by_linux),
                "{features}, seed {seed}: {lost:?} but {lost_by_linux:?}"
            );
        }
        assert!(with_fast_commits > 4, "{features}: {with_fast_commits}");
        assert!(whole > 4, "{features}: only {whole} are whole");
    }
}

/// Paths that differ from the tree at the crash.
fn lost_paths(crashed: &Crashed, found: &Manifest) -> BTreeSet<Vec<u8>> {
    let differences = crashed.live_tree().diff(found, &crashed::policy());
    differences.into_iter().map(|found| found.path).collect()
}

#[test]
fn a_crash_in_our_replay_repeats_it() {
    if !KernelMount::available_or_skip("a_crash_in_our_replay_repeats_it") {
        return;
    }
    for seed in [8, 23] {
        let crashed = crashed(seed, &mut 0);
        let bytes = fs::read(crashed.image()).unwrap();
        let recorder = Arc::new(Recorder::new(Arc::new(MemDevice::from_bytes(&bytes))));
        Filesystem::mount(recorder.clone(), crashed::options())
            .unwrap()
            .abandon();
        let mut log = recorder.log();
        log.keep_whole(1024..2048);
        for cut in 0..=log.len() {
            for survivors in [Survivors::All, Survivors::None, torn(cut)] {
                let image = Arc::new(log.image(cut, survivors));
                let fs = Filesystem::mount(image.clone(), crashed::options()).unwrap();
                let tree = Manifest::of(&EngineTarget::new(&fs)).unwrap();
                // The kernel finds data in unwritten blocks that it has read.
                let policy = crashed::policy().ignore(Field::DataRuns);
                let differences = crashed.live_tree().diff(&tree, &policy);
                assert!(
                    differences.is_empty(),
                    "seed {seed}, cut {cut}: {differences:?}"
                );
                fs.unmount().unwrap();
                if survivors == torn(cut) {
                    image::assert_clean(&image);
                }
            }
        }
    }
}

fn torn(cut: usize) -> Survivors {
    Survivors::Seeded {
        seed: cut as u64,
        tearing: Tearing::Sectors,
    }
}

#[test]
fn a_read_only_mount_replays_in_memory() {
    if !KernelMount::available_or_skip("a_read_only_mount_replays_in_memory") {
        return;
    }
    let crashed = crashed(3, &mut 0);
    let image = crashed.copy("read-only.img");
    let options = MountOptions {
        access: Access::ReadOnly,
        ..crashed::options()
    };
    let device = image::Sealed::new(crashed::open(&image));
    let mounted = Filesystem::mount(device, options).unwrap();
    let root = mounted.root().unwrap();
    let dir = mounted.lookup(&root, b"dir", &Caller::root()).unwrap();
    for (path, entry) in &crashed.live_tree().entries {
        let Some(name) = path.strip_prefix(b"dir/") else {
            continue;
        };
        let found = mounted.lookup(&dir, name, &Caller::root()).unwrap();
        assert_eq!(mounted.attr(&found).size_bytes, entry.size_bytes);
    }
    // Writing the replay back block by block would let a crash apply records twice.
    let refused = mounted.remount("rw").unwrap_err();
    assert!(
        matches!(&refused, Error::Remount(RemountError::FastCommits)),
        "{refused}"
    );
    mounted.unmount().unwrap();
    assert!(fs::read(&image).unwrap() == fs::read(crashed.image()).unwrap());
}
