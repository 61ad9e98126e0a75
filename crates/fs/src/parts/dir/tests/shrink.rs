//! Directories that lose names free blocks and stay sound at every step.

use super::*;
use crate::parts::dir::index::{Probe, Target, probe};
use uext4_format::LogicalBlock;
use uext4_format::dirent::BlockKind;
use uext4_testkit::oracle::KernelMount;

/// Names are numbers below this bound: two runs do not collide.
pub(super) const RANGE: u64 = 1 << 40;

/// Adds `count` names in random order.
pub(super) fn fill(world: &mut World, count: usize) {
    while world.model.len() < count {
        world.insert().unwrap();
    }
}

/// Removes names in another order until `left` are left.
pub(super) fn empty(world: &mut World, left: usize) {
    let mut names: Vec<_> = world.model.keys().cloned().collect();
    while names.len() > left {
        let at = world.rng.below(names.len() as u64) as usize;
        let name = names.swap_remove(at);
        world.fs.unlink(&world.dir, &name, &ROOT).unwrap();
        world.model.remove(&name);
    }
}

/// Steps from the root to a leaf.
fn depth(world: &World) -> usize {
    let _shared = world.dir.index.read();
    let dir = crate::parts::dir::view::Dir::open(&world.fs.fs, world.dir.arc()).unwrap();
    match probe(&dir, Target::Major(0)).unwrap() {
        Probe::Path(path) => path.len(),
        Probe::Broken(corrupt) => panic!("{corrupt}"),
    }
}

/// Blocks that are nodes.
fn nodes(world: &World) -> u64 {
    let _shared = world.dir.index.read();
    let dir = crate::parts::dir::view::Dir::open(&world.fs.fs, world.dir.arc()).unwrap();
    let is_node = |place: &u32| {
        let block = dir.block_or_damage(LogicalBlock(*place)).unwrap();
        BlockKind::of(block.read().bytes()) == BlockKind::Node
    };
    (1..dir.blocks).filter(is_node).count() as u64
}

fn shrinks(options: &[&str], names: Names, count: usize) {
    let image = Image::new(96, options);
    let mut world = World::new(image.mount(), 11, names, RANGE);
    fill(&mut world, count);
    let full = world.blocks();
    for left in [count / 2, count / 8, count / 50] {
        empty(&mut world, left);
        world.compare();
    }
    let few = world.blocks();
    assert!(few * 4 < full, "{few} of {full} blocks: {options:?}");
    let blocks = {
        let state = world.dir.read();
        state.disk.sectors(&world.fs.fs.base.geometry) * 512 / world.fs.fs.block_size() as u64
    };
    assert!(
        blocks * 3 < full,
        "{blocks} of {full} blocks are still held"
    );
    fill(&mut world, count / 3);
    empty(&mut world, 0);
    world.compare();
    let last = world.blocks();
    let nodes = nodes(&world);
    assert!(
        last <= 2 * nodes + 8,
        "{last} blocks without a name, {nodes} nodes: {options:?}"
    );
    fill(&mut world, 100);
    world.finish(&image);
}

#[test]
fn emptied_directories_shrink() {
    shrinks(&["-b", "1024"], Names::Mixed, 4000);
    shrinks(&["-b", "4096"], Names::Mixed, 12_000);
    shrinks(
        &["-b", "1024", "-O", "^metadata_csum,^extents,^64bit"],
        Names::Mixed,
        3000,
    );
    shrinks(
        &["-b", "4096", "-O", "bigalloc", "-C", "16384"],
        Names::Mixed,
        6000,
    );
}

/// Offsets are positions of a listing there, so no block moves.
#[test]
fn linear_directories_keep_their_blocks() {
    let image = Image::new(32, &["-b", "1024", "-O", "^dir_index"]);
    let mut world = World::new(image.mount(), 5, Names::Mixed, RANGE);
    fill(&mut world, 500);
    let full = world.blocks();
    empty(&mut world, 0);
    assert_eq!(world.blocks(), full);
    fill(&mut world, 50);
    world.finish(&image);
}

/// The last block is often a node, which moves as leaves do. Nodes and levels stay.
#[test]
fn an_index_of_three_levels_keeps_one_leaf_below_each_node() {
    let image = Image::new(160, &["-b", "1024", "-O", "large_dir"]);
    let mut world = World::new(image.mount(), 3, Names::Long, RANGE);
    fill(&mut world, 50_000);
    assert_eq!(depth(&world), 3, "three levels of nodes");
    let full = world.blocks();
    empty(&mut world, 500);
    world.compare();
    empty(&mut world, 0);
    world.compare();
    let (nodes, left) = (nodes(&world), world.blocks());
    assert!(
        left <= 2 * nodes + 8,
        "{left} blocks, {nodes} nodes, {full} before"
    );
    fill(&mut world, 2000);
    world.finish(&image);
}

#[test]
fn the_kernel_goes_on_with_a_directory_that_shrank() {
    if !KernelMount::available_or_skip("the_kernel_goes_on_with_a_directory_that_shrank") {
        return;
    }
    let image = Image::new(64, &["-b", "1024"]);
    let mut world = World::new(image.mount(), 9, Names::Mixed, RANGE);
    fill(&mut world, 3000);
    empty(&mut world, 200);
    let model = world.unmount(&image);
    let kernel = KernelMount::new(&image.path, "").unwrap();
    let path = kernel.path().join("dir");
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), model.len());
    for i in 0..500 {
        std::fs::write(path.join(format!("by-the-kernel-{i}")), b"").unwrap();
    }
    for name in model.keys() {
        use std::os::unix::ffi::OsStrExt;
        std::fs::remove_file(path.join(std::ffi::OsStr::from_bytes(name))).unwrap();
    }
    kernel.unmount().unwrap();
    assert_clean(&image.path);
}

/// Each remaining name is listed once, whatever is removed meanwhile.
#[test]
fn listings_are_stable_while_the_directory_shrinks() {
    let image = Image::new(64, &["-b", "1024"]);
    let fs = image.mount();
    let root = fs.root().unwrap();
    let dir = fs.mkdir(&root, b"dir", 0o755, &ROOT).unwrap();
    let file = fs.create(&root, b"file", 0o644, &ROOT).unwrap();
    let link = |name: &str| fs.link(&file, &dir, name.as_bytes(), &ROOT).unwrap();
    (0..20).for_each(|i| link(&format!("stays-{i}")));
    (0..6000).for_each(|i| link(&format!("{}-{i}-goes", i % 3)));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (fs, dir, done) = (&fs, &dir, &done);
        let remove = |thread: u32| {
            scope.spawn(move || {
                for i in (0..6000).filter(|i| i % 3 == thread) {
                    let name = format!("{thread}-{i}-goes");
                    fs.unlink(dir, name.as_bytes(), &ROOT).unwrap();
                }
            })
        };
        let writers: Vec<_> = (0..3).map(remove).collect();
        let read = |piece: usize| {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    check_listing(fs, dir, piece);
                }
            })
        };
        let readers: Vec<_> = [3, 40].map(read).into();
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
    });
    let blocks = dir.read().disk.size / 1024;
    assert!(blocks < 40, "{blocks} blocks for 20 names");
    drop((root, dir, file));
    fs.unmount().unwrap();
    assert_clean(&image.path);
}
