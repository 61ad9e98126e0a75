//! `uext4 tune` with several words: all of them or none. A refused one writes no byte.

use crate::rig::{Rig, bytes};

/// Words that are refused, each by another of the changes, and a word of the message.
const REFUSED: [(&[&str], &str); 6] = [
    (&["-J", "size=20"], "at most half"),
    (&["-I", "128"], "smaller"),
    (&["-O", "bigalloc"], "cannot be turned on"),
    (&["-r", "60000"], "half"),
    (&["-E", "mmp_update_interval=301"], "300"),
    (&["-Q", "prjquota"], "project"),
];

/// Words that each make a change on their own.
const VALID: [&[&str]; 9] = [
    &["-L", "label"],
    &["-J", "size=8"],
    &["-O", "^has_journal"],
    &["-I", "512"],
    &["-O", "^metadata_csum"],
    &["-U", "01234567-89ab-cdef-0123-456789abcdef"],
    &["-O", "^orphan_file"],
    &["-O", "mmp"],
    &["-Q", "usrquota"],
];

fn rig() -> Rig {
    let rig = Rig::empty();
    let features = "^ea_inode,^metadata_csum_seed";
    rig.ok(&["mkfs", "disk.img", "--size", "32M", "-q", "-O", features]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    rig
}

#[test]
fn a_refused_word_keeps_all_others_from_the_image() {
    let rig = rig();
    let before = bytes(&rig.image());
    let none: &[&str] = &[];
    let cases = VALID.iter().enumerate().flat_map(|(at, valid)| {
        let pair = [
            REFUSED[at % REFUSED.len()],
            REFUSED[(at + 1) % REFUSED.len()],
        ];
        pair.map(|refused| (*valid, refused))
    });
    let alone = REFUSED.iter().map(|refused| (none, *refused));
    for (valid, (refused, word)) in cases.chain(alone) {
        // Two sizes of a journal, and of inodes, are no case; clap refuses them.
        if valid.first() == refused.first() && valid[0] != "-O" {
            continue;
        }
        let journals = valid.contains(&"^has_journal") && refused[0] == "-J";
        let word = if journals { "contradict" } else { word };
        let status = if journals { 2 } else { 1 };
        let args = [&["tune", "disk.img"], valid, refused].concat();
        rig.fails(status, word, &args);
        assert!(bytes(&rig.image()) == before, "{args:?} has written");
    }
}

#[test]
fn several_words_are_all_done() {
    let rig = rig();
    rig.ok(&[
        "tune",
        "disk.img",
        "-J",
        "size=8",
        "-I",
        "512",
        "-L",
        "label",
        "-U",
        "random",
        "-O",
        "fast_commit,^metadata_csum",
        "-Q",
        "usrquota",
    ]);
    rig.assert_clean();
    let info = rig.json(&["info", "disk.img", "--json"]);
    let text = info.to_string();
    assert!(
        text.contains("fast_commit") && text.contains("label"),
        "{text}"
    );
    assert!(!text.contains("metadata_csum"), "{text}");
    assert!(rig.ok(&["ls", "disk.img", "/"]).contains("dir"));
}
