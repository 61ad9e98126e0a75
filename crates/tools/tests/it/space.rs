//! Reports and trim of free space; e2freefrag and e2fsck check the results.

use crate::rig::Rig;
use std::os::unix::fs::MetadataExt;

/// Puts a file of 1 MiB under `names` names and removes every second one.
fn fragment(rig: &Rig, names: usize) {
    std::fs::write(rig.path("file"), vec![7; 1 << 20]).unwrap();
    for nr in 0..names {
        rig.ok(&["put", "disk.img", "file", &format!("/file{nr}")]);
    }
    for nr in (0..names).step_by(2) {
        rig.ok(&["rm", "disk.img", &format!("/file{nr}")]);
    }
}

#[test]
fn free_extents_are_what_e2freefrag_counts() {
    let rig = Rig::new(&[]);
    fragment(&rig, 8);
    let found = rig.json(&["freefrag", "--json", "disk.img"]);
    let judge = std::process::Command::new("e2freefrag")
        .arg(rig.image())
        .output()
        .unwrap();
    let judge = String::from_utf8(judge.stdout).unwrap();
    let number = |label: &str| -> u64 {
        let line = judge
            .lines()
            .find(|line| line.starts_with(label))
            .expect("a line");
        let words = line[label.len()..].split_whitespace();
        words.into_iter().next().unwrap().parse().expect("a number")
    };
    let block = number("Blocksize:");
    assert_eq!(found["free_bytes"], number("Free blocks:") * block);
    assert_eq!(found["max_bytes"], number("Max. free extent:") << 10);
    assert_eq!(found["min_bytes"], number("Min. free extent:") << 10);
    let average = found["free_bytes"].as_u64().unwrap() / found["extents"].as_u64().unwrap();
    assert_eq!(average >> 10, number("Avg. free extent:"));
    let picture = |locale: &[(&str, &str)]| {
        let output = rig.run_with(locale, &["freefrag", "disk.img"]);
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("text")
    };
    let text = picture(&[("LC_ALL", "C.UTF-8")]);
    assert!(
        text.contains("extents") && text.contains('█') && text.contains('·'),
        "{text}"
    );
    let text = picture(&[("LC_ALL", ""), ("LC_CTYPE", ""), ("LANG", "C")]);
    assert!(
        text.is_ascii() && text.contains("##") && text.contains(".."),
        "{text}"
    );
}

#[test]
fn trim_makes_the_image_sparse_again() {
    let rig = Rig::new(&[]);
    let allocated = || std::fs::metadata(rig.image()).unwrap().blocks() * 512;
    fragment(&rig, 6);
    let before = allocated();
    let said = rig.ok(&["trim", "disk.img"]);
    assert!(said.contains("trimmed"), "{said}");
    // Blocks are smaller than pages: the three files have six ends in shared pages.
    assert!(
        allocated() + (3 << 20) <= before + 6 * 4096,
        "{before} before, {} after",
        allocated()
    );
    assert!(rig.ok(&["cat", "disk.img", "/file1"]).len() == 1 << 20);
    rig.fails(1, "trim", &["trim", "disk.img", "--from", "1G"]);
    rig.assert_clean();
}
