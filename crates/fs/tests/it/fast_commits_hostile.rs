//! Fast commits with invalid content and valid checksums: the mount reports damage or accepts them,
//! without a panic.

use crate::fast_commits::crashed_with;
use std::sync::Arc;
use uext4::Filesystem;
use uext4::device::{BlockDevice, MemDevice, Overlay};
use uext4_format::crc32c;
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::rng::Rng;

const TAG_BYTES: usize = 4;
const TAG_TAIL: u16 = 8;
const TAG_HEAD: u16 = 9;
const ROUNDS: u64 = 250;

/// Tag, byte offset and length of a record.
struct DamageLocation {
    tag: u16,
    at: usize,
    len: usize,
}

fn number(image: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([image[at], image[at + 1]])
}

/// The records of the first fast-commit area in the image, up to the last complete fast commit.
fn records(image: &[u8], block_bytes: usize) -> Vec<DamageLocation> {
    let head = |block: &&usize| image[**block..].starts_with(&[TAG_HEAD as u8, 0, 8, 0]);
    let blocks: Vec<usize> = (0..image.len()).step_by(block_bytes).collect();
    let start = *blocks.iter().find(head).expect("an area of fast commits");
    let (mut at, mut places, mut complete) = (start, Vec::new(), 0);
    loop {
        let rest = block_bytes - at % block_bytes;
        if rest < TAG_BYTES {
            at += rest;
            continue;
        }
        let (tag, len) = (number(image, at), usize::from(number(image, at + 2)));
        if !(1..=TAG_HEAD).contains(&tag) || len + TAG_BYTES > rest {
            places.truncate(complete);
            return places;
        }
        places.push(DamageLocation { tag, at, len });
        at += TAG_BYTES + len;
        if tag == TAG_TAIL {
            complete = places.len();
        }
    }
}

/// Recomputes the checksum of every fast commit.
fn reseal(image: &mut [u8], places: &[DamageLocation]) {
    let mut crc = 0;
    for place in places {
        let end = place.at + TAG_BYTES + place.len;
        if place.tag == TAG_TAIL {
            let tid_end = place.at + TAG_BYTES + 4;
            crc = crc32c(crc, &image[place.at..tid_end]);
            image[tid_end..tid_end + 4].copy_from_slice(&crc.to_le_bytes());
            crc = 0;
        } else {
            crc = crc32c(crc, &image[place.at..end]);
        }
    }
}

/// Corrupts some records: a bit, a byte, or a number with a special value.
fn lie(image: &mut [u8], places: &[DamageLocation], rng: &mut Rng) {
    let may_change =
        |place: &&DamageLocation| !matches!(place.tag, TAG_TAIL | TAG_HEAD) && place.len >= 4;
    let places: Vec<&DamageLocation> = places.iter().filter(may_change).collect();
    for _ in 0..1 + rng.below(4) {
        let place = *rng.pick(&places);
        let value = place.at + TAG_BYTES;
        // The leading fields of a record matter most.
        let reach = if rng.chance(50) {
            place.len.min(16)
        } else {
            place.len
        };
        let at = value + rng.below(reach as u64) as usize;
        match rng.below(3) {
            0 => image[at] ^= 1 << rng.below(8),
            1 => image[at] = rng.below(256) as u8,
            _ => {
                let special = [0, 1, 2, 7, 8, 11, 0x7FFF, 0x8000, u32::MAX, 1 << 31];
                let word = value + (at - value).min(place.len - 4) / 4 * 4;
                image[word..word + 4].copy_from_slice(&u32::to_le_bytes(*rng.pick(&special)));
            }
        }
    }
}

#[test]
fn records_that_lie_give_damage_or_a_mount() {
    if !KernelMount::available_or_skip("records_that_lie_give_damage_or_a_mount") {
        return;
    }
    let (mut mounts, mut refusals) = (0, 0);
    for (seed, features) in [
        (8, "fast_commit"),
        (23, "fast_commit"),
        (101, "fast_commit,inline_data"),
        (103, "fast_commit,bigalloc"),
    ] {
        let block_bytes = [1024, 4096][seed as usize % 2];
        let crashed = crashed_with(features, seed, &mut 0);
        let truth = std::fs::read(crashed.image()).unwrap();
        let places = records(&truth, block_bytes);
        let last = places.last().expect("records");
        let area = places[0].at..last.at + TAG_BYTES + last.len;
        let mut same = truth.clone();
        reseal(&mut same, &places);
        assert!(same == truth, "{features}: the checksums are understood");
        let disk = Arc::new(MemDevice::from_bytes(&truth));
        for round in 0..ROUNDS {
            let mut rng = Rng::new(seed << 32 | round);
            let bytes = &mut same;
            bytes[area.clone()].copy_from_slice(&truth[area.clone()]);
            lie(bytes, &places, &mut rng);
            reseal(bytes, &places);
            let device = Arc::new(Overlay::new(disk.clone()));
            device
                .write_at(area.start as u64, &bytes[area.clone()])
                .unwrap();
            let what = format!("{features}, seed {seed}, round {round}");
            match mounted(device, &what) {
                true => mounts += 1,
                false => refusals += 1,
            }
        }
    }
    eprintln!("{mounts} mounts, {refusals} refusals");
    assert!(
        mounts > 0 && refusals > 0,
        "{mounts} mounts, {refusals} refusals"
    );
}

/// Mounts, which replays, and unmounts; false if the mount is refused.
fn mounted(device: Arc<Overlay>, what: &str) -> bool {
    let _told = Told(what);
    match Filesystem::mount(device, crate::crashed::options()) {
        Ok(fs) => {
            let _damaged = fs.unmount();
            true
        }
        Err(_) => false,
    }
}

/// Prints the round if a panic ends it.
struct Told<'a>(&'a str);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}
