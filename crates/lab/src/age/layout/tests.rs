use super::super::profile;
use super::super::volume::{SHAPE, Tree};
use super::super::workload::{Amount, Workload};
use super::*;
use crate::backing::Backing;
use crate::client::LibraryClient;
use std::sync::Arc;

/// A small aged image.
struct Aged {
    backing: Backing,
    profile: &'static Profile,
    geometry: Geometry,
    live: Vec<File>,
}

impl Aged {
    fn new() -> Self {
        let backing = Backing::new(64, 4).unwrap();
        backing.format_with(&SHAPE).unwrap();
        let geometry = Geometry::read(&backing.image()).unwrap();
        let amount = Amount {
            capacity_blocks: geometry.free_blocks,
            used_blocks: geometry.free_blocks * 8 / 10,
            written_blocks: geometry.free_blocks * 2,
        };
        let profile = profile::of_name("agrawal").unwrap();
        let mut workload = Workload::new(profile, amount, 1);
        let filesystem = stage::open(&backing.image(), &Setup::default()).unwrap();
        let filesystem = Arc::new(filesystem);
        let root = LibraryClient::new(filesystem.clone()).unwrap();
        let tree = Tree::create(profile, &root).unwrap();
        tree.age(&mut workload, geometry.free_blocks * BLOCK_BYTES)
            .unwrap();
        drop((tree, root));
        filesystem.unmount().unwrap();
        Self {
            backing,
            profile,
            geometry,
            live: workload.live().to_vec(),
        }
    }

    fn read(&self, live: &[File]) -> Result<Vec<Sample>> {
        read(&self.backing.image(), self.profile, &self.geometry, live)
    }

    fn refusal(&self, live: &[File]) -> String {
        let error = self.read(live).err().expect("the image is refused");
        format!("{error:#}")
    }
}

#[test]
fn an_image_that_differs_from_the_workload_or_is_damaged_is_refused() {
    let aged = Aged::new();
    let samples = aged.read(&aged.live).unwrap();
    let free = samples
        .iter()
        .filter(|one| one.metric.starts_with("free space in"));
    let sum: f64 = free.map(|one| one.value).sum();
    assert!((99.0..101.0).contains(&sum), "{sum} %");
    let missing = aged.refusal(&aged.live[1..]);
    assert!(missing.contains("files are there"), "{missing}");
    let mut longer = aged.live.clone();
    longer[0].size_bytes += 1;
    let longer = aged.refusal(&longer);
    assert!(longer.contains("bytes instead of"), "{longer}");
    let damage = format!("freeb {}", aged.geometry.blocks_per_flex / 4);
    let image = aged.backing.image();
    oracle::debugfs(&image, oracle::Access::Write, &[damage]).unwrap();
    let damaged = aged.refusal(&aged.live);
    assert!(damaged.starts_with("e2fsck"), "{damaged}");
}

/// Extents and their distance, from files whose place is known.
#[test]
fn numbers_of_known_files() {
    let samples = of_extents(vec![1, 1, 1, 5], 512);
    let values: Vec<f64> = samples.iter().map(|one| one.value).collect();
    assert_eq!(values, [4.0, 2.0, 5.0, 4.0, 25.0]);
    let mut locality = Locality::new(2);
    for (dir, block, is_near) in [(0, 100, true), (1, 9000, false), (0, 612, true)] {
        locality.add(dir, block, is_near);
    }
    let [near, distance] = locality.samples().map(|one| one.value);
    assert!((66.0..67.0).contains(&near));
    assert!((distance - 2.0).abs() < 1e-9, "{distance} MiB");
}

#[test]
fn lines_of_e2freefrag_are_read() {
    let line = "    4K...    8K-  :            91            91    0.07%";
    assert_eq!(class(line), Some((0, 0.07)));
    let line = "  512M... 1024M-  :             1        229261  100.00%";
    assert_eq!(class(line), Some((CLASSES.len() - 1, 100.0)));
    let header = "Extent Size Range :  Free extents   Free Blocks  Percent";
    assert_eq!(class(header), None);
}
