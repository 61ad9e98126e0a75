//! A draft is installed only if its leaf and the structure are unchanged.

use super::shrink::{RANGE, empty, fill};
use super::*;
use crate::parts::dir::divide::{Draft, SplitReason, carry_out, draft, leaf_to_split};
use crate::parts::dir::{Child, DirError, InsertPlan, insert};
use crate::state::name_log::NameChange;
use crate::types::credits;
use uext4_format::{FileType, LogicalBlock};

/// An absent name whose leaf has too little space left.
fn crowded(world: &mut World) -> Vec<u8> {
    loop {
        let is_crowded =
            |name: &Vec<u8>| drafted(world, name).is_some_and(|draft| draft.blocks() == 1);
        let mut names = (0..99).map(|nr| format!("{nr:x>200}").into_bytes());
        if let Some(name) = names.find(is_crowded) {
            return name;
        }
        world.insert().unwrap();
    }
}

fn drafted(world: &World, name: &[u8]) -> Option<Draft> {
    let (fs, dir) = (&world.fs.fs, world.dir.arc());
    draft(fs, dir, &fs.hashed(name), SplitReason::Full).ok()
}

/// A name in the drafted leaf.
fn neighbour(world: &World, draft: &Draft) -> Vec<u8> {
    let is_there = |name: &&Vec<u8>| leaf(world, name) == Some(draft.leaf());
    world.model.keys().find(is_there).unwrap().clone()
}

fn leaf(world: &World, name: &[u8]) -> Option<LogicalBlock> {
    let fs = &world.fs.fs;
    leaf_to_split(fs, world.dir.arc(), &fs.hashed(name)).unwrap()
}

/// Inserts an absent name of this leaf with the structure closed, as threads do after many tries.
fn insert_closed(world: &mut World, place: LogicalBlock) {
    let is_of =
        |name: &Vec<u8>| !world.model.contains_key(name) && leaf(world, name) == Some(place);
    let mut names = (0..).map(|nr| format!("{nr:x>150}").into_bytes());
    let name = names.find(is_of).unwrap();
    let (fs, dir, file) = (&world.fs.fs, world.dir.arc(), &world.files[0]);
    let _closed = dir.index.write();
    let handle = fs.start(credits::DIR_GROW).unwrap();
    handle.write(file.arc()).disk.links += 1;
    let plan = InsertPlan::Search { blocks: 1 };
    let (hashed, kind) = (fs.hashed(&name), FileType::Regular);
    let child = Child {
        nr: file.nr(),
        kind,
        change: NameChange::Link,
    };
    insert(fs, &handle, dir, &hashed, &child, &plan).unwrap();
    world.model.insert(name, file.nr());
}

/// Threads that close the structure need no right to split a leaf.
#[test]
fn a_leaf_that_was_split_closed_is_not_split_again() {
    let image = Image::new(96, &["-b", "1024"]);
    let mut world = World::new(image.mount(), 6, Names::Mixed, RANGE);
    fill(&mut world, 600);
    for _ in 0..20 {
        let (name, draft) = soon_full(&mut world);
        let before = world.blocks();
        while world.blocks() == before {
            insert_closed(&mut world, draft.leaf());
        }
        let blocks = world.blocks();
        carry(&world, &name, draft);
        assert_eq!(world.blocks(), blocks, "its names are parted");
        world.compare();
    }
    world.finish(&image);
}

/// Merges and moves of blocks, too, end what was drafted before.
#[test]
fn a_draft_from_before_a_merge_is_not_installed() {
    let image = Image::new(96, &["-b", "1024"]);
    let mut world = World::new(image.mount(), 8, Names::Mixed, RANGE);
    for _ in 0..8 {
        fill(&mut world, 600);
        let (name, draft) = soon_full(&mut world);
        empty(&mut world, 150);
        carry(&world, &name, draft);
        world.compare();
    }
    world.finish(&image);
}

/// A name, and the draft of a split ahead of its leaf.
fn soon_full(world: &mut World) -> (Vec<u8>, Draft) {
    loop {
        let (fs, dir) = (&world.fs.fs, world.dir.arc());
        let ahead = |name: &Vec<u8>| {
            let draft = draft(fs, dir, &fs.hashed(name), SplitReason::Soon).ok()?;
            (draft.blocks() == 1).then(|| (name.clone(), draft))
        };
        if let Some(found) = world.model.keys().find_map(ahead) {
            return found;
        }
        world.insert().unwrap();
    }
}

/// A leaf that is split ahead gets names meanwhile: they are parted at the hash of the draft.
#[test]
fn a_leaf_that_got_names_is_split_ahead() {
    let image = Image::new(96, &["-b", "1024"]);
    let mut world = World::new(image.mount(), 5, Names::Mixed, RANGE);
    fill(&mut world, 600);
    let (name, draft) = soon_full(&mut world);
    let other = neighbour(&world, &draft);
    let nr = world.model[&other];
    let file = world.files.iter().find(|file| file.nr() == nr).unwrap();
    world.fs.unlink(&world.dir, &other, &ROOT).unwrap();
    world.fs.link(file, &world.dir, &other, &ROOT).unwrap();
    let blocks = world.blocks();
    carry(&world, &name, draft);
    assert_eq!(world.blocks(), blocks + 1, "a change does not stop it");
    world.compare();
    world.finish(&image);
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
    let other = neighbour(&world, &old);
    world.fs.unlink(&world.dir, &other, &ROOT).unwrap();
    world.model.remove(&other);
    carry(&world, &name, old);
    assert_eq!(world.blocks(), blocks, "a name is gone");
    world.finish(&image);
}
