//! Compatibility: debugfs writes journals that this crate replays, and e2fsck replays ours.

use super::device::Recorder;
use super::objects::{BLOCK, Block};
use crate::recovery::{RecoveryMode, RecoveryReport, needs_recovery, recover};
use crate::{Checksums, Config, Journal, Log, Width};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use tempfile::TempDir;
use uext4_format::BlockNr;
use uext4_sync::Rng;

const LOG_BLOCKS: u32 = 1024;

fn tool(name: &str, args: &[&str]) -> Output {
    let path = format!("/usr/sbin/{name}");
    Command::new(path)
        .args(args)
        .output()
        .expect("e2fsprogs is installed")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// A file system image and the location of its log.
struct Linux {
    dir: TempDir,
    image: PathBuf,
    log_at: u64,
}

impl Linux {
    fn new(features: &str) -> Linux {
        let dir = TempDir::new().expect("temporary directory");
        let image = dir.path().join("image");
        let args = [
            "-q", "-F", "-t", "ext4", "-b", "1024", "-J", "size=1", "-O", features,
        ];
        let made = tool("mke2fs", &[&args[..], &[text(&image), "32M"]].concat());
        assert!(made.status.success(), "{made:?}");
        let map = |block: &str| -> u64 {
            let command = format!("bmap <8> {block}");
            let out = tool("debugfs", &["-R", &command, text(&image)]);
            String::from_utf8_lossy(&out.stdout)
                .trim()
                .parse()
                .expect("a block number")
        };
        let log_at = map("0");
        assert_eq!(map("1023"), log_at + 1023, "the journal is contiguous");
        Linux { dir, image, log_at }
    }

    /// Runs debugfs commands.
    fn debugfs(&self, script: &str) {
        let file = self.dir.path().join("script");
        std::fs::write(&file, script).expect("temporary file");
        let out = tool("debugfs", &["-w", "-f", text(&file), text(&self.image)]);
        assert!(out.status.success(), "{out:?}");
    }

    /// The image after e2fsck replayed its journal.
    fn replayed_by_e2fsck(&self) -> Vec<u8> {
        let copy = self.dir.path().join("copy");
        std::fs::copy(&self.image, &copy).expect("temporary file");
        let out = tool("e2fsck", &["-y", "-E", "journal_only", text(&copy)]);
        assert!(out.status.code().is_some_and(|code| code <= 1), "{out:?}");
        std::fs::read(&copy).expect("temporary file")
    }

    fn device(&self) -> Arc<Recorder> {
        Recorder::new(std::fs::read(&self.image).expect("temporary file"))
    }

    fn log(&self, device: &Arc<Recorder>) -> Log {
        Log::contiguous(Arc::clone(device) as _, self.log_at, LOG_BLOCKS)
    }

    fn replayed_by_us(&self) -> (Vec<u8>, RecoveryReport) {
        let device = self.device();
        let (log, home) = (self.log(&device), Arc::clone(&device) as _);
        let report = recover(&log, &home, BLOCK as u32, RecoveryMode::Replay).expect("replays");
        assert!(!needs_recovery(&log, BLOCK as u32).expect("reads"));
        (device.bytes(), report)
    }

    /// Compares all blocks but the superblock's and the log's.
    fn assert_same_replay(&self, what: &str) -> RecoveryReport {
        let theirs = self.replayed_by_e2fsck();
        let (ours, report) = self.replayed_by_us();
        assert_eq!(theirs.len(), ours.len());
        let log = self.log_at..self.log_at + u64::from(LOG_BLOCKS);
        let blocks = theirs.chunks(BLOCK).zip(ours.chunks(BLOCK)).enumerate();
        for (nr, (theirs, ours)) in blocks {
            let is_ours_alone = nr == 1 || log.contains(&(nr as u64));
            assert!(
                is_ours_alone || theirs == ours,
                "{what}: block {nr} differs: {report:?}"
            );
        }
        report
    }
}

/// A script of transactions: writes, revokes, rewrites, images that need escaping.
fn random_script(linux: &Linux, open: &str, revokes_max: u64, rng: &mut Rng) -> String {
    let mut script = format!("{open}\n");
    for n in 0..12 {
        let data = linux.dir.path().join(format!("data{n}"));
        let count = 1 + rng.below(40) as usize;
        let mut bytes = vec![0; count * BLOCK];
        rng.fill(&mut bytes);
        bytes[..4].copy_from_slice(&[0xC0, 0x3B, 0x39, 0x98]);
        std::fs::write(&data, bytes).expect("temporary file");
        let pick = |rng: &mut Rng| (20000 + rng.below(60)).to_string();
        let mut blocks: Vec<String> = (0..count).map(|_| pick(rng)).collect();
        blocks.sort();
        blocks.dedup();
        let revokes: Vec<String> = (0..rng.below(revokes_max)).map(|_| pick(rng)).collect();
        writeln!(script, "jw -b {} {}", blocks.join(","), text(&data)).expect("string");
        if !revokes.is_empty() {
            writeln!(script, "jw -r {}", revokes.join(",")).expect("string");
        }
    }
    script + "jc\n"
}

#[test]
fn journals_of_debugfs_replay_as_e2fsck_does() {
    let mut rng = Rng::new(11);
    for features in [
        "^metadata_csum,^64bit",
        "^metadata_csum,64bit",
        "metadata_csum,64bit",
    ] {
        for open in ["jo", "jo -c -v 2", "jo -c -v 3"] {
            let linux = Linux::new(features);
            // Without metadata_csum debugfs makes v1 checksums, and wrong ones for revokes alone.
            let has_v1 = features.starts_with('^') && open != "jo";
            let revokes_max = if has_v1 { 1 } else { 6 };
            linux.debugfs(&random_script(&linux, open, revokes_max, &mut rng));
            let report = linux.assert_same_replay(&format!("{features}, {open}"));
            assert!(report.end.0 >= report.first.0 + 12, "{report:?}");
            assert!(
                report.images > 50 && report.written_blocks > 20,
                "{report:?}"
            );
            assert_eq!(report.revoked == 0, has_v1, "{report:?}");
        }
    }
}

#[test]
fn a_v1_checksum_that_does_not_match_ends_the_log() {
    let linux = Linux::new("^metadata_csum,^64bit");
    linux.debugfs(&random_script(&linux, "jo -c", 1, &mut Rng::new(4)));
    let mut bytes = std::fs::read(&linux.image).expect("temporary file");
    bytes[(linux.log_at as usize + 2) * BLOCK + 100] ^= 1; // in the first image
    std::fs::write(&linux.image, bytes).expect("temporary file");
    let report = linux.assert_same_replay("damaged v1");
    assert_eq!((report.end, report.written_blocks), (report.first, 0));
}

#[test]
fn an_unfinished_transaction_of_debugfs_is_not_replayed() {
    let linux = Linux::new("metadata_csum,64bit");
    let data = linux.dir.path().join("data");
    std::fs::write(&data, [0x5A; BLOCK]).expect("temporary file");
    let path = text(&data);
    linux.debugfs(&format!(
        "jo -c\njw -b 20000 {path}\njw -c -b 20001 {path}\njc\n"
    ));
    let report = linux.assert_same_replay("no commit block");
    assert_eq!((report.images, report.written_blocks), (1, 1));
    assert_ne!(&linux.replayed_by_us().0[20001 * BLOCK..][..4], &[0x5A; 4]);
}

/// Fills the log of `linux` with our own transactions and leaves it unreplayed.
fn write_log(linux: &Linux, checksums: Checksums, width: Width, rng: &mut Rng) {
    let device = run_in_log(linux, checksums, width, rng);
    std::fs::write(&linux.image, device.bytes()).expect("temporary file");
}

/// Runs transactions until the log has wrapped; the last one is not home yet.
fn run_in_log(linux: &Linux, checksums: Checksums, width: Width, rng: &mut Rng) -> Arc<Recorder> {
    let device = linux.device();
    let mut config = Config::new(Arc::clone(&device) as _, BLOCK as u32);
    config.log = Some(linux.log(&device));
    (config.checksums, config.width) = (checksums, width);
    let journal = Journal::open(config).expect("opens");
    let blocks: Vec<_> = (0..90)
        .map(|i| (20000 + i, Block::new(20000 + i, vec![0; BLOCK])))
        .collect();
    for round in 0..60 {
        for _ in 0..30 {
            let (nr, block) = &blocks[rng.below(90) as usize];
            let handle = journal.start(2).expect("starts");
            if rng.chance(1, 10) {
                handle.forget(block, BlockNr(*nr));
                continue;
            }
            let mut state = handle.write(block);
            rng.fill(&mut state.bytes);
            if rng.chance(1, 5) {
                state.bytes[..4].copy_from_slice(&[0xC0, 0x3B, 0x39, 0x98]);
            }
        }
        if round % 3 != 0 {
            journal.commit_running().expect("commits");
        }
    }
    journal.commit_running().expect("commits");
    assert!(
        journal.stats().log_blocks > u64::from(LOG_BLOCKS),
        "the log wrapped"
    );
    device
}

/// A commit block is one write, but a kill or a power failure may leave a part of it over older log
/// contents. e2fsck and older kernels treat that as corruption.
#[test]
fn a_torn_commit_block_is_no_damage_to_e2fsck() {
    for seed in 0..4 {
        let linux = Linux::new("metadata_csum,64bit");
        let device = run_in_log(&linux, Checksums::V3, Width::Wide, &mut Rng::new(seed));
        std::fs::write(&linux.image, device.with_torn_commit_block()).expect("temporary file");
        linux.debugfs("feature needs_recovery\n");
        let out = tool("e2fsck", &["-p", "-E", "journal_only", text(&linux.image)]);
        let said = String::from_utf8_lossy(&out.stdout);
        let is_fine = out.status.success() && !said.contains("corrupt");
        assert!(is_fine, "seed {seed}: {out:?}");
    }
}

#[test]
fn our_journals_replay_in_e2fsck_to_the_same_bytes() {
    let mut rng = Rng::new(12);
    let narrow = ("^metadata_csum,^64bit", Checksums::None, Width::Narrow);
    let wide = ("^metadata_csum,64bit", Checksums::None, Width::Wide);
    let checked = ("metadata_csum,64bit", Checksums::V3, Width::Wide);
    let checked_narrow = ("metadata_csum,^64bit", Checksums::V3, Width::Narrow);
    for (features, checksums, width) in [narrow, wide, checked, checked_narrow] {
        let linux = Linux::new(features);
        write_log(&linux, checksums, width, &mut rng);
        linux.debugfs("feature needs_recovery\n");
        let report = linux.assert_same_replay(features);
        assert!(report.images > 100, "{report:?}");
    }
}
