//! Repairs that only some findings get, and what stands in their way.

use super::tree::{ROOT, Seal, Tree, options};
use crate::problems::Problem;
use crate::report::Finding;
use crate::{Decision, Decisions, RepairSafe, code};
use uext4_format::{Feature, FileType};

const PATHS: [&str; 5] = ["d/", "d/alpha", "d/beta", "d/gamma", "file"];

/// Repairs problems but those with this code.
struct AllBut(&'static str);

impl Decisions for AllBut {
    fn decide(&mut self, finding: &Finding, _: Option<&Problem>) -> Decision {
        if code(&finding.corrupt) == self.0 {
            Decision::Leave
        } else {
            Decision::Repair
        }
    }
}

#[test]
fn what_a_person_leaves_stays_as_it_is() {
    let image = Tree::new(&options(&[], &[]), &PATHS);
    let paths = image.paths();
    image.change_block(image.nr_of("d"), 0, Seal::Anew, |bytes| {
        let (alpha, beta) = (at(bytes, "alpha"), at(bytes, "beta"));
        bytes[alpha + 7] = 3;
        bytes[beta + 8] = b'/';
    });
    let report = image.repaired_by(&mut AllBut("directory-entry.name-bytes"));
    assert_eq!(report.left.len(), 1, "{report:#?}");
    let codes = image.codes();
    assert!(
        codes.contains(&"directory-entry.name-bytes".to_string()),
        "{codes:?}"
    );
    assert!(
        !codes.contains(&"directory-entry.entry-type".to_string()),
        "{codes:?}"
    );
    assert_eq!(image.paths()["d//eta"], paths["d/beta"]);
}

/// Preen repairs counts, checksums and empty files, but gives no names.
#[test]
fn preen_stops_before_it_names_a_file() {
    let image = Tree::new(&options(&[], &[]), &PATHS);
    let file = image.nr_of("file");
    image.change_inode(image.nr_of("d"), |inode| inode.links = 9);
    image.change_block(image.nr_of("d"), 0, Seal::Broken, |bytes| {
        let tail = bytes.len() - 1;
        bytes[tail] ^= 1;
    });
    forget(&image, "file");
    let report = image.repaired_by(&mut RepairSafe);
    assert!(report.is_sound(), "{report:#?}");
    image.assert_sound();
    assert_eq!(image.inode(file).links, 0);

    let image = Tree::new(&options(&[], &[]), &PATHS);
    image.change_inode(image.nr_of("file"), |inode| inode.size = 1);
    forget(&image, "file");
    let report = image.repaired_by(&mut RepairSafe);
    assert!(report.was_stopped && !report.is_sound());
    assert!(image.codes().contains(&"inode.unnamed".to_string()));
}

/// Without space for a larger lost+found, its gaps are filled, and the rest is left.
#[test]
fn a_full_file_system_names_what_fits() {
    let image = Tree::new(&options(&[], &[]), &PATHS);
    image.fill();
    let before = image.paths().len();
    let n = 2000;
    image.change(|patch| {
        for _ in 0..n {
            let nr = super::tree::add_inode(patch, FileType::Regular, ROOT);
            let mut inode = patch.inode(nr).expect("a read").expect("an inode");
            inode.size = 1;
            patch.write_inode(nr, &inode).expect("a write");
        }
    });
    let report = image.repaired();
    let named = image.paths().len() - before;
    assert!(named > 300 && named < n, "{named}");
    assert_eq!(report.left.len(), n - named);
}

#[test]
fn a_directory_with_too_many_links_says_one() {
    let image = Tree::new(&options(&[], &[Feature::DIR_NLINK]), &PATHS);
    image.change(|patch| {
        for _ in 0..65_001 {
            patch.check.links.count(ROOT);
        }
        patch.repair_links(ROOT, &[]).expect("a write");
        let inode = patch.inode(ROOT).expect("a read").expect("an inode");
        assert_eq!(inode.links, 1);
        assert!(patch.superblock.features().has(Feature::DIR_NLINK));
    });
}

fn forget(image: &Tree, name: &str) {
    image.change(|patch| {
        let removed = patch.remove_entries(ROOT, &|entry| entry.name == name.as_bytes());
        removed.expect("a removal");
    });
}

fn at(bytes: &[u8], name: &str) -> usize {
    super::directories::at(bytes, name)
}

#[test]
fn numbers_of_names_end() {
    use crate::repair::twins::with_suffix;
    assert_eq!(with_suffix(b"name", 0), b"name~0");
    let long = with_suffix(&[b'n'; 255], 17);
    assert_eq!((long.len(), long.ends_with(b"n~17")), (255, true));
}
