//! A draft is installed only if its leaf is unchanged.

use super::shrink::{RANGE, fill};
use super::*;
use crate::credits;
use crate::dir::DirError;
use crate::dir::divide::{Draft, carry_out, draft};

/// A name whose leaf has too little space left.
fn crowded(world: &mut World) -> Vec<u8> {
    loop {
        let is_crowded =
            |name: &&Vec<u8>| drafted(world, name).is_some_and(|draft| draft.blocks() == 1);
        if let Some(name) = world.model.keys().find(is_crowded) {
            return name.clone();
        }
        world.insert().unwrap();
    }
}

fn drafted(world: &World, name: &[u8]) -> Option<Draft> {
    draft(&world.fs.fs, world.dir.arc(), &world.fs.fs.hashed(name)).unwrap()
}

fn carry(world: &World, name: &[u8], draft: Draft) {
    let (fs, dir) = (&world.fs.fs, world.dir.arc());
    let _held = dir.index.divide();
    let handle = fs.start(credits::DIR_GROW).unwrap();
    let carried = carry_out(fs, &handle, dir, &fs.hashed(name), draft);
    // The node may have become full by an earlier split.
    let is_fine = matches!(carried, Ok(_) | Err(DirError::NeedExclusive));
    assert!(is_fine, "{carried:?}", carried = carried.err());
}

#[test]
fn a_leaf_that_changed_stays_as_it_is() {
    let image = Image::new(96, &["-b", "1024"]);
    let mut world = World::new(image.mount(), 3, Names::Mixed, RANGE);
    fill(&mut world, 600);
    let name = crowded(&mut world);
    let [old, again] = [(); 2].map(|()| drafted(&world, &name).unwrap());
    let blocks = world.blocks();
    carry(&world, &name, old);
    assert_eq!(world.blocks(), blocks + 1);
    world.compare();
    carry(&world, &name, again);
    assert_eq!(world.blocks(), blocks + 1, "it is another leaf by now");
    let name = crowded(&mut world);
    let (old, blocks) = (drafted(&world, &name).unwrap(), world.blocks());
    world.fs.unlink(&world.dir, &name, &ROOT).unwrap();
    world.model.remove(&name);
    carry(&world, &name, old);
    assert_eq!(world.blocks(), blocks, "a name is gone");
    world.finish(&image);
}
