//! What `uext4 log` shows, against `logdump` of debugfs.

use crate::base::{MODERN, Made, OLD, WIDE, made, open};
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::Path;
use uext4_forensics::{
    Entry, Error, ImageState, Memory, Owner, Owners, Transaction, TransactionState,
};
use uext4_testkit::oracle::{self, KernelMount};

/// Images as (block, position in the log), and revoked blocks.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    images: BTreeSet<(u64, u64)>,
    revoked: BTreeSet<u64>,
}

fn seen(path: &Path) -> Seen {
    let memory = Memory::new(64 << 20);
    let (_, ring) = open(path, &memory).expect("it is sound");
    let mut ring = ring.expect("there is a journal");
    let mut seen = Seen::default();
    for one in ring.transactions().to_vec() {
        ring.visit::<Error>(&one, &mut |_, entry| {
            match entry {
                Entry::Image(logged) => {
                    seen.images.insert((logged.block, logged.at.into()));
                }
                Entry::Revoked { block } => {
                    seen.revoked.insert(block);
                }
                _ => {}
            }
            Ok(())
        })
        .expect("it is read");
    }
    seen
}

/// The number behind a word of a line.
fn number(line: &str, word: &str) -> Option<u64> {
    let rest = line.split(word).nth(1)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn judged(path: &Path, options: &str) -> Seen {
    let said = oracle::debugfs_one(path, &format!("logdump {options}")).expect("debugfs");
    let mut seen = Seen::default();
    for line in said.lines() {
        if let Some(block) = number(line, "Revoke FS block ") {
            seen.revoked.insert(block);
        } else if let Some(at) = number(line, "logged at journal block ") {
            let block = number(line, "FS block ").expect("a number");
            seen.images.insert((block, at));
        }
    }
    seen
}

fn assert_same(made: &Made) {
    let live = judged(&made.live, "-a");
    assert!(!live.images.is_empty());
    assert_eq!(seen(&made.live), live);
    // debugfs reads a clean log from its first block on.
    let old = judged(&made.clean, "-aO");
    let ours = seen(&made.clean);
    assert!(!old.images.is_empty() && old.images.is_subset(&ours.images));
    assert!(old.revoked.is_subset(&ours.revoked));
}

#[test]
fn transactions_are_those_of_debugfs() {
    for options in [MODERN, WIDE, OLD] {
        assert_same(&made(options));
    }
}

#[test]
fn what_a_replay_writes_is_live() {
    let made = made(MODERN);
    for (path, state) in [
        (&made.live, TransactionState::Live),
        (&made.clean, TransactionState::Old),
    ] {
        let (_, ring) = open(path, &Memory::new(64 << 20)).expect("it is sound");
        let ring = ring.expect("there is a journal");
        let count = ring.transactions().iter().filter(|one| one.state == state);
        assert!(count.count() > 3, "{:?}", ring.transactions());
    }
}

#[test]
fn a_replay_ends_at_a_wrong_seal() {
    let made = made(MODERN);
    let read = || {
        let (_, ring) = open(&made.live, &Memory::new(64 << 20)).expect("it is sound");
        ring.expect("there is a journal")
    };
    let mut ring = read();
    let before = ring.transactions().to_vec();
    let live = |one: &Transaction| one.state == TransactionState::Live;
    let at = before.iter().position(live).expect("one") + 1;
    assert!(live(&before[at]) && live(&before[at + 1]));
    let mut block = None;
    ring.visit::<Error>(&before[at], &mut |ring, entry| {
        if let Entry::Descriptor { at, .. } = entry {
            block = block.or(ring.device_block(at));
        }
        Ok(())
    })
    .expect("it is read");
    let image = std::fs::OpenOptions::new().write(true).open(&made.live);
    let byte = block.expect("a descriptor") * 1024 + 1000;
    image
        .expect("it is there")
        .write_all_at(&[0x55], byte)
        .expect("it is written");
    let mut ring = read();
    let after = ring.transactions().to_vec();
    assert_eq!(after.len(), before.len());
    for (index, one) in after.iter().enumerate() {
        let is_torn = one.state == TransactionState::Torn;
        assert_eq!(is_torn, index >= at, "{index}: {one:?}");
    }
    let mut states = Vec::new();
    ring.visit::<Error>(&after[at], &mut |_, entry| {
        if let Entry::Image(logged) = entry {
            states.push(logged.state);
        }
        Ok(())
    })
    .expect("it is read");
    assert!(states.contains(&ImageState::Damaged), "{states:?}");
}

#[test]
fn the_log_of_the_kernel_goes_around_its_end() {
    if !KernelMount::available_or_skip("the_log_of_the_kernel_goes_around_its_end") {
        return;
    }
    let (_dir, path) = oracle::mke2fs_image(32 << 20, MODERN).expect("mke2fs");
    let mount = KernelMount::new(&path, "").expect("a mount");
    for round in 0..40 {
        for i in 0..60 {
            let file = mount.path().join(format!("file {i}"));
            std::fs::write(file, vec![round; 3000]).expect("there is space");
        }
        for i in 0..60 {
            let file = mount.path().join(format!("file {i}"));
            std::fs::remove_file(file).expect("it is there");
        }
        let sync = std::process::Command::new("sync")
            .arg("-f")
            .arg(mount.path())
            .status();
        assert!(sync.expect("sync").success());
    }
    mount.unmount().expect("it closes");
    let old = judged(&path, "-aO");
    let ours = seen(&path);
    assert!(ours.images.len() > 100);
    assert!(ours.images.iter().any(|(_, at)| *at > 900), "{ours:?}");
    assert!(old.images.is_subset(&ours.images), "{old:?}");
}

/// Kind and inode of the owner of a block, by debugfs.
#[test]
fn owners_are_those_of_debugfs() {
    for options in [MODERN, WIDE, OLD] {
        let made = made(options);
        let memory = Memory::new(64 << 20);
        let (image, _) = open(&made.clean, &memory).expect("it is sound");
        let all: Vec<u64> = (0..image.geometry().blocks_count).collect();
        let owners = Owners::find(&image, all.clone(), &memory).expect("memory");
        let mut blocks = 0;
        for chunk in all.chunks(1000) {
            let list: Vec<String> = chunk.iter().map(u64::to_string).collect();
            let said = oracle::debugfs_one(&made.clean, &format!("icheck {}", list.join(" ")));
            let said = said.expect("debugfs");
            let free =
                oracle::debugfs_one(&made.clean, &format!("testb {} {}", chunk[0], chunk.len()));
            let free = free.expect("debugfs");
            let free: BTreeSet<&str> = free
                .lines()
                .filter(|line| line.contains("not in use"))
                .filter_map(|line| line.split(' ').nth(1))
                .collect();
            for line in said.lines() {
                let Some((block, owner)) = line.split_once('\t') else {
                    continue;
                };
                let Ok(nr) = block.trim().parse::<u64>() else {
                    continue;
                };
                blocks += 1;
                let wanted = owner.trim().parse::<u32>().ok();
                let ours = match owners.of(nr) {
                    Owner::Directory(nr)
                    | Owner::Data(nr)
                    | Owner::Map(nr)
                    | Owner::Attributes(nr) => Some(nr.0),
                    Owner::Journal => Some(8),
                    Owner::ReservedDescriptors if wanted.is_some() => Some(7),
                    _ => None,
                };
                assert_eq!(ours, wanted, "block {nr}: {}", owners.of(nr));
                let is_free = free.contains(block.trim());
                assert_eq!(owners.of(nr) == Owner::Free, is_free, "block {nr}");
            }
        }
        assert!(blocks > 4000);
    }
}
