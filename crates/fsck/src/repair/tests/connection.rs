//! Inodes without names, circles of directories, link counts, and lost+found itself.

use super::tree::{ROOT, Seal, Tree, add_inode, options};
use crate::repair::entries::Entry;
use crate::repair::patch::Patch;
use std::collections::BTreeMap;
use uext4_format::{Feature, FileType, InodeFlags, InodeNr};

const PATHS: [&str; 7] = ["a/", "a/b/", "a/b/c/", "a/b/c/file", "file", "x/", "x/y/"];

fn image() -> (Tree, BTreeMap<String, u32>) {
    let image = Tree::new(&options(&[], &[]), &PATHS);
    let paths = image.paths();
    (image, paths)
}

/// Removes a name without any other change.
fn forget(image: &Tree, dir: InodeNr, name: &str) {
    image.change(|patch| {
        let removed = patch.remove_entries(dir, &|entry| entry.name == name.as_bytes());
        removed.expect("a removal");
    });
}

/// Lets a file have something.
fn fill(image: &Tree, nr: InodeNr) {
    image.change_inode(nr, |inode| inode.size = 1);
}

fn add_files(patch: &mut Patch<'_, '_>, n: usize) -> Vec<InodeNr> {
    let mut numbers = Vec::new();
    for _ in 0..n {
        let nr = add_inode(patch, FileType::Regular, ROOT);
        let mut inode = patch.inode(nr).expect("a read").expect("an inode");
        inode.size = 1;
        patch.write_inode(nr, &inode).expect("a write");
        numbers.push(nr);
    }
    numbers
}

/// The paths with one renamed, and all below it.
fn moved(paths: &BTreeMap<String, u32>, from: &str, to: &str) -> BTreeMap<String, u32> {
    let below = format!("{from}/");
    let rename = |path: &String| match path.strip_prefix(&below) {
        Some(rest) => format!("{to}/{rest}"),
        None if path == from => to.to_string(),
        None => path.clone(),
    };
    paths.iter().map(|(path, nr)| (rename(path), *nr)).collect()
}

#[test]
fn link_counts_are_those_of_the_names() {
    let (image, paths) = image();
    for (path, links) in [("file", 7), ("a", 2), ("a/b/c", 9), ("", 1000)] {
        let nr = if path.is_empty() {
            ROOT
        } else {
            image.nr_of(path)
        };
        image.change_inode(nr, |inode| inode.links = links);
    }
    image.expect_repair(&["inode.links-wrong"], &paths);
    assert_eq!(image.inode(image.nr_of("file")).links, 1);
}

#[test]
fn files_without_a_name_get_their_number() {
    let (image, paths) = image();
    let file = image.nr_of("file");
    fill(&image, file);
    forget(&image, ROOT, "file");
    let expected = moved(&paths, "file", &format!("lost+found/#{}", file.0));
    image.expect_repair(&["inode.unnamed"], &expected);
}

#[test]
fn empty_files_without_a_name_are_freed() {
    let (image, mut paths) = image();
    let file = image.nr_of("file");
    forget(&image, ROOT, "file");
    paths.remove("file");
    image.expect_repair(&["inode.unnamed-empty"], &paths);
    assert_eq!(image.inode(file).links, 0);
}

/// Directories below it make no names for it, and its link count may agree by chance.
#[test]
fn a_directory_without_a_name_is_found_whatever_its_links() {
    for links in [2, 3, 4] {
        let (image, paths) = image();
        let dir = image.nr_of("a");
        forget(&image, ROOT, "a");
        image.change_inode(dir, |inode| inode.links = links);
        let expected = moved(&paths, "a", &format!("lost+found/#{}", dir.0));
        image.expect_repair(&["inode.unnamed"], &expected);
    }
}

#[test]
fn circles_are_opened() {
    let (image, paths) = image();
    let dirs = ["a", "a/b", "a/b/c"].map(|path| paths[path]);
    forget(&image, ROOT, "a");
    image.change(|patch| {
        let entry = Entry {
            inode: InodeNr(dirs[0]),
            code: 2,
            name: b"back".to_vec(),
        };
        let added = patch.add_entries(InodeNr(dirs[2]), vec![entry]);
        assert_eq!(added.expect("an addition").len(), 1);
    });
    assert!(
        image
            .codes()
            .contains(&"directory.inside-itself".to_string())
    );
    let report = image.repaired();
    assert!(report.is_sound(), "{report:#?}");
    image.assert_sound();
    let after = image.paths();
    let all = |paths: &BTreeMap<String, u32>| {
        let mut numbers: Vec<u32> = paths.values().copied().collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(all(&after), all(&paths), "{after:?}");
}

#[test]
fn a_missing_lost_and_found_is_made() {
    for fewer in [
        &[][..],
        &[
            Feature::METADATA_CSUM,
            Feature::SIXTY_FOUR_BIT,
            Feature::EXTENTS,
            Feature::DIR_INDEX,
        ],
    ] {
        let image = Tree::new(&options(&[], fewer), &PATHS);
        let paths = image.paths();
        let (old, file) = (image.nr_of("lost+found"), image.nr_of("file"));
        fill(&image, file);
        // Its number goes to a file.
        forget(&image, ROOT, "lost+found");
        forget(&image, ROOT, "file");
        image.change_inode(old, |inode| {
            inode.mode = FileType::Fifo.mode_bits() | 0o600;
            inode.size = 0;
            inode.flags = InodeFlags::NONE;
            inode.i_block.fill(0);
        });
        let report = image.repaired();
        assert!(report.is_sound(), "{report:#?}");
        image.assert_sound();
        let after = image.paths();
        assert_eq!(after[&format!("lost+found/#{}", file.0)], file.0);
        assert_eq!(after[&format!("lost+found/#{}", old.0)], old.0);
        assert_eq!(after.len(), paths.len() + 1);
        let made = image.inode(InodeNr(after["lost+found"]));
        assert_eq!((made.mode, made.links), (0o040_700, 2));
    }
}

#[test]
fn the_usual_lost_and_found_gets_its_name_back() {
    let (image, paths) = image();
    let file = image.nr_of("file");
    fill(&image, file);
    forget(&image, ROOT, "lost+found");
    forget(&image, ROOT, "file");
    let expected = moved(&paths, "file", &format!("lost+found/#{}", file.0));
    image.expect_repair(&["inode.unnamed"], &expected);
}

#[test]
fn a_file_in_the_way_of_lost_and_found_gets_another_name() {
    let (image, paths) = image();
    let (old, file) = (image.nr_of("lost+found"), image.nr_of("file"));
    fill(&image, file);
    image.change_block(ROOT, 0, Seal::Anew, |bytes| {
        for name in ["lost+found", "file"] {
            let at = super::directories::at(bytes, name);
            let nr = if name == "file" { 0 } else { file.0 };
            bytes[at..at + 4].copy_from_slice(&nr.to_le_bytes());
            bytes[at + 7] = 1;
        }
    });
    let mut expected = moved(&paths, "file", &format!("#{}", file.0));
    expected.insert("lost+found".into(), old.0);
    image.expect_repair(&["inode.unnamed"], &expected);
}

/// lost+found grows once, by an index, and keeps the names that it had.
#[test]
fn many_files_are_connected_in_one_round() {
    const N: usize = 2500;
    for fewer in [&[][..], &[Feature::DIR_INDEX]] {
        let image = Tree::new(&options(&[], fewer), &PATHS);
        let mut paths = image.paths();
        let numbers = image.change(|patch| add_files(patch, N));
        // One name is taken.
        let first = numbers[0].0;
        image.change(|patch| {
            let entry = Entry {
                inode: numbers[1],
                code: 1,
                name: format!("#{first}").into_bytes(),
            };
            let lost_found = InodeNr(paths["lost+found"]);
            let added = patch.add_entries(lost_found, vec![entry]);
            assert_eq!(added.expect("an addition").len(), 1);
        });
        for (at, nr) in numbers.iter().enumerate() {
            let name = match at {
                0 => format!("#{first}~0"),
                1 => format!("#{first}"),
                _ => format!("#{}", nr.0),
            };
            paths.insert(format!("lost+found/{name}"), nr.0);
        }
        image.expect_repair(&["inode.unnamed"], &paths);
        let inode = image.inode(InodeNr(paths["lost+found"]));
        assert_eq!(inode.flags.contains(InodeFlags::INDEX), fewer.is_empty());
    }
}
