//! Damaged images: no reader panics, hangs or takes more memory than its limit.
//!
//! More seeds: `UEXT4_FORENSICS_SEEDS=20000 cargo test -p uext4-forensics wounds`;
//! `UEXT4_FORENSICS_FIRST` repeats the seed of a failure.

use crate::base::{MODERN, OLD, WIDE, made, open};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uext4::device::{Access, FileDevice};
use uext4::format::InodeNr;
use uext4_forensics::debug::{Command, Debugger};
use uext4_forensics::{
    Entry, Error, Image, Kind, Memory, Owners, Rescue, Result, deleted, fast_commits,
};
use uext4_testkit::damage::{Checksums, Target, Wound};

const SEEDS: u64 = 150;
const MEMORY_BYTES: u64 = 64 << 20;
/// Longest time of a reader on an image of 16 MiB.
const TIME: Duration = Duration::from_secs(20);

fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().expect("a number"))
}

/// Calls `read` on wounded copies of each image.
fn each_wound(read: impl Fn(&Path) -> Result<()>) {
    let targets: Vec<Target> = Target::ALL
        .into_iter()
        .chain(Target::RARE)
        .chain(Target::INNER)
        .chain([Target::JournalBlock; 12])
        .collect();
    let (first, seeds) = (
        number("UEXT4_FORENSICS_FIRST", 0),
        number("UEXT4_FORENSICS_SEEDS", SEEDS),
    );
    for options in [MODERN, WIDE, OLD] {
        let made = made(options);
        for seed in first..first + seeds {
            let image = if seed % 2 == 0 {
                &made.live
            } else {
                &made.clean
            };
            let target = targets[(seed / 2) as usize % targets.len()];
            let checksums = match seed % 3 {
                0 => Checksums::Left,
                _ => Checksums::Fixed,
            };
            let Ok(Some(wound)) = Wound::inflict(image, target, seed, checksums) else {
                continue;
            };
            let began = Instant::now();
            let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read(image)));
            assert!(read.is_ok(), "{options:?}, seed {seed}: {wound}");
            let time = began.elapsed();
            assert!(time < TIME, "{options:?}, seed {seed}: {wound}: {time:?}");
            wound.heal(image).expect("it is there");
        }
    }
}

#[test]
fn the_log_is_read() {
    each_wound(|path| {
        let memory = Memory::new(MEMORY_BYTES);
        let (image, ring) = open(path, &memory)?;
        let Some(mut ring) = ring else {
            return Ok(());
        };
        let mut blocks = Vec::new();
        for one in ring.transactions().to_vec() {
            ring.visit::<Error>(&one, &mut |ring, entry| {
                match entry {
                    Entry::Image(logged) => {
                        blocks.push(logged.block);
                        ring.image(logged)?;
                    }
                    Entry::Revoked { block } => blocks.push(block),
                    _ => {}
                }
                Ok(())
            })?;
        }
        fast_commits(&mut ring, image.geometry().inode_size, &memory)?;
        Owners::find(&image, blocks, &memory)?;
        Ok(())
    });
}

#[test]
fn deleted_files_are_found() {
    each_wound(|path| {
        let memory = Memory::new(MEMORY_BYTES);
        let (image, mut ring) = open(path, &memory)?;
        for mut one in deleted(&image, ring.as_mut(), &memory)? {
            let size = one.content.size;
            one.content.read::<Error>(&image, &mut |at, part| {
                assert!(at + part.len() as u64 <= size);
                Ok(())
            })?;
        }
        Ok(())
    });
}

#[test]
fn damaged_trees_are_walked() {
    each_wound(|path| {
        let memory = Memory::new(MEMORY_BYTES);
        let device = Arc::new(FileDevice::open(path, Access::ReadOnly)?);
        let (mut image, _) = Image::open_with_backups(device, &memory)?;
        let mut ring = image.read_log(None, &memory).unwrap_or(None);
        let mut rescue = Rescue::new(&image, ring.as_mut(), &memory)?;
        rescue.find(b"/dir/file1")?;
        let mut bytes = 0;
        rescue.walk::<Error>(InodeNr::ROOT, &mut |image, met| {
            if let Kind::File(mut content) = met.kind {
                content.read::<Error>(image, &mut |_, part| {
                    bytes += part.len();
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        assert!(bytes <= 16 << 20);
        Ok(())
    });
}

#[test]
fn fields_are_shown_and_set() {
    let paths = ["/", "/dir", "/dir/file1", "/dir/file19", "7", "8", "12"];
    each_wound(|path| {
        let copy = path.with_extension("copy");
        std::fs::copy(path, &copy).expect("there is space");
        let device = Arc::new(FileDevice::open(&copy, Access::ReadWrite)?);
        let debugger = Debugger::new(device, None, Memory::new(MEMORY_BYTES));
        let mut lines: Vec<String> = ["superblock", "journal", "mmp", "group 0", "group 1"]
            .map(|what| format!("show {what}"))
            .into();
        for file in paths {
            for what in ["inode", "extents", "directory", "xattrs"] {
                lines.push(format!("show {what} {file}"));
            }
            lines.push(format!("set inode {file} flags 0"));
            lines.push(format!("set extent {file} root 0 len 5"));
            lines.push(format!("set node {file} 40 magic 5"));
            lines.push(format!("set entry {file} 40 0 inode 5"));
            lines.push(format!("set attributes {file} refcount 5"));
        }
        lines.extend((0..40).map(|block| format!("show block {}", block * 97)));
        lines.extend(["mark block 900 used", "mark inode 90 used"].map(String::from));
        lines.push("set group 0 free_inodes_count 1".into());
        lines.push("set journal start 1".into());
        lines.push("set superblock mnt_count 1".into());
        for line in lines {
            let _ = debugger.run(&Command::parse(&line).expect("words"));
        }
        Ok(())
    });
}
