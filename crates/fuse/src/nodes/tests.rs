//! Threads that look up, remove and forget one name, as the kernel's requests do.

use super::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use uext4::device::{Access, FileDevice};
use uext4::{Caller, Filesystem, MountOptions, RenameFlags};
use uext4_sync::{Arc, StripeMap};
use uext4_testkit::oracle;

const ROUNDS: usize = 400;

#[test]
fn only_the_root_has_two_numbers() {
    assert_eq!(node_of(InodeNr::ROOT), ROOT_ID);
    assert_eq!(inode_of(ROOT_ID), Ok(InodeNr::ROOT));
    assert_eq!(inode_of(2), Err(Errno::ESTALE));
    assert_eq!(inode_of(0), Err(Errno::ESTALE));
    assert_eq!(inode_of(1 << 32), Err(Errno::ESTALE));
    assert_eq!(inode_of(12), Ok(InodeNr(12)));
}

/// A file system and its nodes, with the steps of the server.
struct Rig {
    fs: Filesystem,
    nodes: Nodes,
    root: InodeRef,
    user: Caller,
}

impl Rig {
    fn mount(image: &std::path::Path) -> Self {
        let device = Arc::new(FileDevice::open(image, Access::ReadWrite).unwrap());
        // The least memory, so that inodes leave the cache.
        let options = MountOptions::default().parse("metadata_cache=4096");
        let fs = Filesystem::mount(device, options.unwrap()).unwrap();
        Self {
            root: fs.root().unwrap(),
            nodes: Nodes::new(),
            user: Caller::root(),
            fs,
        }
    }

    fn make(&self, name: &[u8]) {
        let made = self.fs.create(&self.root, name, 0o600, &self.user);
        drop(made.unwrap());
    }

    /// The node and generation of the name, with a lookup counted.
    fn look_up(&self, name: &[u8]) -> Option<(u64, u32)> {
        let inode = self.fs.lookup(&self.root, name, &self.user).ok()?;
        let node = self.nodes.insert(&inode);
        Some((node, self.fs.attr(&inode).generation))
    }

    /// Whether the known node is still the inode of that generation.
    fn is_still(&self, (node, generation): (u64, u32)) -> bool {
        let inode = self.fs.known_inode(inode_of(node).unwrap());
        inode.is_ok_and(|inode| self.fs.attr(&inode).generation == generation)
    }

    fn let_go(&self, inode: Option<InodeRef>) {
        drop(inode);
        self.fs.root().unwrap();
    }

    fn unlink(&self, name: &[u8]) {
        let mut victim = None;
        let seen = &mut |inode: &InodeRef| victim = Some(inode.clone());
        let done = self.fs.unlink_watched(&self.root, name, &self.user, seen);
        done.unwrap();
        let nameless = victim.filter(|inode| inode.is_nameless());
        self.let_go(nameless.and_then(|inode| self.nodes.keep(inode)));
    }

    fn replace(&self, from: &[u8], to: &[u8]) {
        let mut victim = None;
        let seen = &mut |inode: &InodeRef| victim = Some(inode.clone());
        let (from, to) = ((&self.root, from), (&self.root, to));
        let (flags, user) = (RenameFlags::Replace, &self.user);
        self.fs.rename_watched(from, to, flags, user, seen).unwrap();
        let nameless = victim.filter(|inode| inode.is_nameless());
        self.let_go(nameless.and_then(|inode| self.nodes.keep(inode)));
    }

    fn forget(&self, node: u64, lookups: u64) {
        self.let_go(self.nodes.forget(node, lookups));
    }

    fn free_inodes(&self) -> u64 {
        self.fs.sync().unwrap();
        self.fs.statfs().inodes_free
    }
}

/// Runs `work` on a fresh file system. No inode is lost, and e2fsck finds nothing.
fn on_fresh_image(work: impl FnOnce(&Rig)) {
    let dir = oracle::scratch_dir().unwrap();
    let image = dir.path().join("image");
    oracle::mke2fs(&image, 16 << 20, &["-b", "1024"]).unwrap();
    let rig = Rig::mount(&image);
    let free_before = rig.free_inodes();
    work(&rig);
    assert_eq!(
        rig.nodes.counts(),
        NodeCounts {
            bytes: rig.nodes.counts().bytes,
            ..NodeCounts::default()
        }
    );
    assert_eq!(rig.free_inodes(), free_before, "inodes are lost");
    let Rig {
        fs, root, nodes, ..
    } = rig;
    drop((root, nodes));
    fs.unmount().unwrap();
    oracle::assert_clean(&image);
}

/// One thread looks up, a second one removes the name, and a third one takes free inodes. While the
/// lookup is not forgotten, the node stays what it was.
#[test]
fn a_name_that_goes_while_it_is_looked_up() {
    on_fresh_image(|rig| {
        let (begin, ended) = (Barrier::new(2), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let mut changed = 0;
                for round in 0..ROUNDS {
                    rig.make(b"name");
                    let known = (round % 3 == 0).then(|| rig.look_up(b"name").unwrap());
                    begin.wait();
                    if round % 2 == 0 {
                        std::thread::yield_now();
                    }
                    let seen = [known, rig.look_up(b"name")];
                    begin.wait();
                    let seen = || seen.into_iter().flatten();
                    changed += seen().filter(|&seen| !rig.is_still(seen)).count();
                    seen().for_each(|(node, _)| rig.forget(node, 1));
                }
                ended.store(true, Ordering::SeqCst);
                changed
            });
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    begin.wait();
                    match round % 4 {
                        0 => {
                            rig.make(b"other");
                            rig.replace(b"other", b"name");
                            rig.unlink(b"name");
                        }
                        _ => rig.unlink(b"name"),
                    }
                    begin.wait();
                }
            });
            scope.spawn(|| {
                while !ended.load(Ordering::SeqCst) {
                    rig.make(b"taker");
                    rig.unlink(b"taker");
                }
            });
            // No thread panics before the others have ended: they would wait for it.
            assert_eq!(looks.join().unwrap(), 0, "known nodes became other inodes");
        });
    });
}

/// The lookup found the inode before the unlink, and counts it after.
#[test]
fn a_lookup_that_an_unlink_overtakes_holds_the_inode() {
    on_fresh_image(|rig| {
        rig.make(b"name");
        let found = rig.fs.lookup(&rig.root, b"name", &rig.user).unwrap();
        rig.unlink(b"name");
        let (node, generation) = (rig.nodes.insert(&found), rig.fs.attr(&found).generation);
        rig.let_go(Some(found));
        rig.make(b"taker");
        assert!(rig.is_still((node, generation)));
        rig.unlink(b"taker");
        rig.forget(node, 1);
    });
}

/// A forget beside the unlink that takes the last name: the second of them frees the inode.
#[test]
fn a_name_that_goes_while_it_is_forgotten() {
    on_fresh_image(|rig| {
        for round in 0..ROUNDS {
            rig.make(b"name");
            let (node, _) = rig.look_up(b"name").unwrap();
            let begin = Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    begin.wait();
                    (0..round % 64).for_each(|_| std::hint::spin_loop());
                    rig.forget(node, 1);
                });
                begin.wait();
                rig.unlink(b"name");
            });
        }
    });
}

#[test]
fn an_open_file_is_held_until_it_is_closed() {
    on_fresh_image(|rig| {
        rig.make(b"name");
        let (node, generation) = rig.look_up(b"name").unwrap();
        let open = || rig.fs.known_inode(inode_of(node).unwrap()).unwrap();
        rig.nodes.open(node, &open(), None, Rights::Any);
        rig.nodes
            .open(node, &open(), Some(uext4::Writers::Users), Rights::Any);
        assert_eq!(rig.nodes.writers(node), Writers::Some);
        assert_eq!(rig.nodes.counts().held, 1);
        let closed = rig
            .nodes
            .close(node, Some(uext4::Writers::Users), Rights::Any);
        assert!(closed.inode.is_some() && closed.writers == Writers::None);
        drop(closed);
        assert_eq!(rig.nodes.counts().held, 1, "the reader");
        drop(rig.nodes.close(node, None, Rights::Any));
        assert_eq!(rig.nodes.counts().held, 0);
        // Without a name it is held as long as it is known.
        rig.nodes.open(node, &open(), None, Rights::Any);
        rig.unlink(b"name");
        drop(rig.nodes.close(node, None, Rights::Any));
        rig.make(b"taker");
        assert!(rig.is_still((node, generation)));
        rig.unlink(b"taker");
        rig.forget(node, 1);
    });
}

/// The library still returns the inode of a file system that is unmounted.
#[test]
fn no_node_is_answered_while_the_image_is_closed() {
    on_fresh_image(|rig| {
        rig.make(b"name");
        let (node, _) = rig.look_up(b"name").unwrap();
        assert_eq!(rig.nodes.check_kept(), Ok(()));
        rig.nodes.clear();
        assert_eq!(rig.nodes.check_kept(), Err(Errno::ESTALE));
        assert!(rig.fs.known_inode(inode_of(node).unwrap()).is_ok());
        rig.unlink(b"name");
    });
}

#[test]
fn a_table_that_empties_gives_memory_back() {
    on_fresh_image(|rig| {
        rig.make(b"name");
        let (node, _) = rig.look_up(b"name").unwrap();
        assert!(!rig.nodes.mark_cached(node) && rig.nodes.mark_cached(node));
        rig.forget(node, 2);
        rig.unlink(b"name");
    });
    let mut table: StripeMap<u64, Known, STRIPE_BITS> = StripeMap::default();
    assert_eq!(table_bytes(&table), 0);
    table.insert(0, Known::default());
    assert!(table_bytes(&table) > 0);
    (0..100_000).for_each(|node| _ = table.insert(node, Known::default()));
    let full = table_bytes(&table);
    (1000..100_000).for_each(|node| {
        table.remove(&node);
        shrink(&mut table);
    });
    assert!(table.len() == 1000 && table_bytes(&table) < full / 16);
}
