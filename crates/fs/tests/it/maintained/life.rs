//! One file system through its steps.

use super::step::{self, Step};
use crate::resize::kind::{Image, Kind};
use std::sync::Arc;
use uext4::device::BlockDevice;
use uext4::format::Feature;
use uext4_judge::EngineTarget;
use uext4_testkit::manifest::{FileKind, Manifest, Policy};
use uext4_testkit::ops::{Palette, Stream, Target};
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::rng::Rng;

/// Blocks that a life may grow to, as a multiple of those at its begin.
const GROWTH_MAX: u64 = 5;
/// Lives of a hundred that begin as ext2 or ext3, besides those that are so by chance.
const OLD_PERCENT: u64 = 15;
/// Free bytes with which the kernel writes as well.
const FREE_FOR_KERNEL: u64 = 4 << 20;
/// Operations before the first step.
const FIRST_OPS: usize = 260;
/// Operations of a step of use.
const LATER_OPS: usize = 60;

/// See the module.
pub(super) struct Life {
    image: Image,
    tree: Manifest,
    rng: Rng,
    stream: Stream,
}

impl Life {
    /// A new file system with files.
    pub(super) fn begin(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let old = *rng.pick(&["ext2", "ext3"]);
        let kind = match rng.chance(OLD_PERCENT) {
            true => Kind::named(old),
            false => *rng.pick(&Kind::ALL),
        };
        let image = kind.make(kind.blocks * u64::from(kind.block_size) * GROWTH_MAX);
        let palette = Palette {
            file_max_bytes: 400 << 10,
            ..Palette::default()
        };
        let mut life = Self {
            image,
            tree: Manifest::default(),
            rng,
            stream: Stream::new(seed, palette),
        };
        life.run(FIRST_OPS);
        life
    }

    /// As it is now, for steps on copies of it.
    pub(super) fn image(&self) -> &Image {
        &self.image
    }

    pub(super) fn tree(&self) -> &Manifest {
        &self.tree
    }

    pub(super) fn kind_name(&self) -> &'static str {
        self.image.kind.name
    }

    pub(super) fn has_kernel(&self) -> bool {
        let disk = uext4::read_superblock(&*self.image.main, None).expect("a superblock");
        let rare = [Feature::CASEFOLD, Feature::ENCRYPT, Feature::VERITY];
        let has = |feature: &Feature| disk.features().has(*feature);
        let counts = [Feature::PROJECT, Feature::QUOTA].iter().any(has);
        let known = !rare.iter().any(has) && (!counts || KernelMount::has_quota());
        known && self.image.kind.has_kernel()
    }

    /// The next step.
    pub(super) fn draw(&mut self) -> Step {
        let files = self.files();
        step::draw(&mut self.rng, &self.image, &files)
    }

    /// The regular files.
    fn files(&self) -> Vec<Vec<u8>> {
        let entries = self.tree.entries.iter();
        let files = entries.filter(|(_, entry)| entry.kind == FileKind::File);
        files.map(|(path, _)| path.clone()).collect()
    }

    /// Takes a step; returns whether the file system allowed it.
    pub(super) fn take(&mut self, step: &Step) -> uext4::Result<bool> {
        match step {
            Step::Use => {
                self.run(LATER_OPS);
                Ok(true)
            }
            step => {
                let device: Arc<dyn BlockDevice> = self.image.main.clone();
                step.take(device, &self.image)
            }
        }
    }

    fn run(&mut self, ops: usize) {
        let stream = self.stream.by_ref().take(ops);
        self.tree = self.image.mounted(|fs| {
            let mut target = EngineTarget::new(fs);
            for op in stream {
                let _may_fail = target.run(&op);
            }
            Manifest::of(&target).expect("a tree")
        });
    }

    #[track_caller]
    pub(super) fn judge(&self, what: &str) {
        self.image.assert_clean(what);
        let differences = self.tree.diff(&self.image.tree(), &Policy::default());
        assert!(differences.is_empty(), "{what}: {differences:?}");
    }

    #[track_caller]
    pub(super) fn judge_by_kernel(&self, what: &str) {
        let (_dir, path) = crate::image::on_disk(&self.image.main);
        let disk = uext4::read_superblock(&*self.image.main, None).expect("a superblock");
        let free_bytes = disk.free_blocks_count * u64::from(self.image.kind.block_size);
        // After a shrinking the kernel may have no space for files of its own.
        let found = match free_bytes > FREE_FOR_KERNEL {
            true => self.image.kernel_tree(&path),
            false => {
                let mounted = KernelMount::new(&path, "ro").expect("the kernel mounts it");
                let tree = Manifest::of_dir(mounted.path()).expect("a tree");
                mounted.unmount().expect("unmount");
                tree
            }
        };
        let differences = self.tree.diff(&found, &Policy::default());
        assert!(differences.is_empty(), "{what}, kernel: {differences:?}");
    }
}
