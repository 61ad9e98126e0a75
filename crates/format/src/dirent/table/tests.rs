//! A leaf with its table, against a map of the same names and a walk over the bytes.

use super::*;
use crate::BlockNr;
use crate::bytes::put_u32;
use crate::dirent::init_first_block;
use proptest::prelude::*;
use std::collections::BTreeMap;

const PLACE: DamageLocation = DamageLocation::Block(BlockNr(3));

fn new(inode: u32, name: &[u8]) -> NewEntry<'_> {
    NewEntry {
        inode: InodeNr(inode),
        name,
        kind: DirEntryType::Regular,
    }
}

/// A bad hash: many names have one fingerprint.
fn print_of(name: &[u8]) -> u16 {
    let mixed = |sum: u16, byte: &u8| sum.wrapping_mul(31).wrapping_add(u16::from(*byte));
    name.iter().fold(0, mixed) % 0x0401
}

/// Names of all lengths, and groups of names with equal fingerprints.
fn names() -> Vec<Vec<u8>> {
    let mut twins: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
    for number in 0..6000 {
        let name = format!("twin{number:04}").into_bytes();
        twins.entry(print_of(&name)).or_default().push(name);
    }
    let twins = twins.into_values().filter(|names| names.len() > 1);
    let plain = (1..=255).map(|len| vec![b'a' + (len % 26) as u8; len]);
    let names: Vec<_> = plain.chain(twins.flatten().take(300)).collect();
    assert!(names.len() > 500, "fingerprints meet");
    names
}

/// A leaf, its table, and its entries.
struct World {
    bytes: Vec<u8>,
    table: LeafTable,
    tail: LeafTail,
    model: BTreeMap<Vec<u8>, u32>,
}

impl World {
    fn new(size: usize, tail: LeafTail) -> Self {
        let mut bytes = vec![0; size];
        let kind = DirEntryType::Directory;
        init_first_block(&mut bytes, tail, InodeNr(5), InodeNr(2), kind);
        let table = LeafTable::build(&DirLeaf::new(&bytes[..], tail, PLACE), print_of).unwrap();
        let model = BTreeMap::from([(b".".to_vec(), 5), (b"..".to_vec(), 2)]);
        Self {
            bytes,
            table,
            tail,
            model,
        }
    }

    fn walk(&self) -> DirLeaf<&[u8]> {
        DirLeaf::new(&self.bytes, self.tail, PLACE)
    }

    fn known(&self) -> KnownLeaf<'_> {
        KnownLeaf::new(&self.bytes, &self.table)
    }

    fn change(&mut self) -> KnownLeafMut<'_> {
        KnownLeafMut::new(&mut self.bytes, &mut self.table)
    }

    fn insert(&mut self, name: &[u8], inode: u32) {
        let room = match self.walk().fits(name).unwrap() {
            Fit::Gap(_) => true,
            Fit::Full => false,
            Fit::Exists => return self.insert_what_exists(name, inode),
        };
        let Fit::Gap(gap) = self.known().fits(name, print_of(name)) else {
            assert!(!room, "a gap is not found");
            assert_eq!(
                self.change().insert(&new(inode, name), print_of(name)),
                Insertion::Full
            );
            return;
        };
        assert!(room, "a gap that is none");
        if inode.is_multiple_of(2) {
            self.change()
                .insert_at(gap, &new(inode, name), print_of(name));
        } else {
            let done = self.change().insert(&new(inode, name), print_of(name));
            assert!(matches!(done, Insertion::Done(_)));
        }
        self.model.insert(name.to_vec(), inode);
    }

    fn insert_what_exists(&mut self, name: &[u8], inode: u32) {
        assert_eq!(self.known().fits(name, print_of(name)), Fit::Exists);
        let there = InodeNr(self.model[name]);
        match self.change().insert(&new(inode, name), print_of(name)) {
            Insertion::Exists(found, _) => assert_eq!(found, there),
            other => panic!("{other:?}"),
        }
    }

    fn remove(&mut self, name: &[u8]) {
        let found = self.known().locate(name, print_of(name));
        assert_eq!(found, self.walk().locate(name).unwrap());
        let removed = self.model.remove(name);
        assert_eq!(found.map(|at| at.inode.0), removed);
        if let Some(at) = found {
            self.change().remove_at(at);
        }
    }

    fn retarget(&mut self, name: &[u8], inode: u32) {
        if let Some(at) = self.known().locate(name, print_of(name)) {
            self.change()
                .retarget_at(at, InodeNr(inode), DirEntryType::Fifo);
            self.model.insert(name.to_vec(), inode);
        }
    }

    /// Moves half of the names away, as in a split: the bytes are new.
    fn split(&mut self) {
        let old = self.bytes.clone();
        let kept = DirLeaf::new(&old[..], self.tail, PLACE);
        let kept: Vec<_> = kept.entries().map(Result::unwrap).step_by(2).collect();
        let entries = kept.iter().map(|entry| new(entry.inode.0, entry.name));
        let mut leaf = DirLeaf::init(&mut self.bytes[..], self.tail, PLACE);
        leaf.pack(entries).unwrap();
        self.model
            .retain(|name, _| kept.iter().any(|entry| entry.name == name));
        self.table = LeafTable::build(&self.walk(), print_of).unwrap();
    }

    fn check(&self) {
        assert!(self.table.is_of(&self.bytes), "the table is another one");
        let space = self.walk().space().unwrap();
        assert_eq!(self.table.used_bytes(), space.used_bytes);
        let listed: BTreeMap<_, _> = self
            .walk()
            .entries()
            .map(Result::unwrap)
            .map(|entry| (entry.name.to_vec(), entry.inode.0))
            .collect();
        assert_eq!(listed, self.model);
        let is_found = |name: &Vec<u8>| self.known().locate(name, print_of(name)).is_some();
        assert!(self.model.keys().all(is_found));
    }
}

fn leaves() -> impl Strategy<Value = (usize, LeafTail)> {
    let sizes = vec![1024_usize, 2048, 4096, 32_768, 65_536];
    let tails = vec![LeafTail::None, LeafTail::Checksum];
    (prop::sample::select(sizes), prop::sample::select(tails))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_table_stays_that_of_its_leaf(
        (size, tail) in leaves(),
        steps in prop::collection::vec((0..100_u32, 0..500_usize), 0..600),
    ) {
        let names = names();
        let mut world = World::new(size, tail);
        for (nr, (action, name)) in steps.into_iter().enumerate() {
            let (name, inode) = (&names[name], nr as u32 + 10);
            match action {
                ..60 => world.insert(name, inode),
                60..90 => world.remove(name),
                90..99 => world.retarget(name, inode),
                _ => world.split(),
            }
            if nr % 16 == 0 {
                world.check();
            }
        }
        world.check();
    }

    /// Free records anywhere, as other implementations leave them.
    #[test]
    fn free_records_take_names(
        free in prop::collection::vec(any::<bool>(), 40), adds in 0..60_usize
    ) {
        let mut world = World::new(2048, LeafTail::Checksum);
        let names = names();
        (0..40).for_each(|at| world.insert(&names[300 + at], at as u32 + 20));
        let offsets: Vec<_> = world.walk().entries().map(|entry| entry.unwrap().offset).collect();
        for (at, _) in free.iter().enumerate().filter(|(_, free)| **free) {
            put_u32(&mut world.bytes, offsets[at], 0);
        }
        world.model.clear();
        let left: Vec<_> = world.walk().entries().map(Result::unwrap)
            .map(|entry| (entry.name.to_vec(), entry.inode.0)).collect();
        world.model.extend(left);
        world.table = LeafTable::build(&world.walk(), print_of).unwrap();
        (0..adds).for_each(|at| world.insert(&names[400 + at], at as u32 + 90));
        (0..adds / 2).for_each(|at| world.remove(&names[400 + at]));
        world.check();
    }

    #[test]
    fn damaged_leaves_have_no_table(at in 24..1012_usize, value: u8) {
        let mut world = World::new(1024, LeafTail::Checksum);
        let names = names();
        (0..50).for_each(|at| world.insert(&names[300 + at], at as u32 + 20));
        world.bytes[at] = value;
        let built = LeafTable::build(&world.walk(), print_of);
        prop_assert_eq!(built.is_ok(), world.walk().validate().is_ok());
        // A table of other bytes gives some answer.
        let _ = (world.known().locate(b"twin0001", 7), world.known().fits(b"name", 7));
    }
}
