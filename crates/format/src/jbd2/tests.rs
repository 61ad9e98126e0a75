//! Round trips of every layout, and hostile bytes.

use super::*;
use crate::BlockNr;

const UUID: [u8; 16] = *b"0123456789abcdef";

fn layouts() -> Vec<Layout> {
    let kinds = [
        ChecksumKind::None,
        ChecksumKind::V1,
        ChecksumKind::V2,
        ChecksumKind::V3,
    ];
    kinds
        .into_iter()
        .flat_map(|kind| [false, true].map(|wide| Layout::new(1024, kind, wide, &UUID)))
        .collect()
}

#[test]
fn descriptors_round_trip_until_full() {
    for layout in layouts() {
        let mut writer = DescriptorWriter::new(&layout, Tid(7));
        let image = |i: u64| vec![i as u8; 1024];
        let mut pushed = 0;
        while writer.push(BlockNr(pushed * 3), &image(pushed), pushed % 5 == 0, &UUID) {
            pushed += 1;
        }
        assert_eq!(pushed as usize, layout.tags_per_descriptor());
        let block = writer.finish();
        assert!(layout.verify_seal(&block));
        let tags: Vec<Tag> = Tags::new(&layout, &block).collect();
        assert_eq!(tags.len() as u64, pushed);
        for (i, tag) in tags.iter().enumerate() {
            assert_eq!(tag.block, BlockNr(i as u64 * 3));
            assert_eq!(tag.escaped, i % 5 == 0);
            assert!(tag.verify(&layout, Tid(7), &image(i as u64)));
            let summed = layout.has_block_checksums();
            assert_eq!(tag.verify(&layout, Tid(8), &image(i as u64)), !summed);
        }
    }
}

#[test]
fn wide_numbers_survive() {
    for layout in layouts().into_iter().filter(|layout| layout.wide) {
        let nr = BlockNr(0x0000_1234_5678_9ABC);
        let mut writer = DescriptorWriter::new(&layout, Tid(1));
        assert!(writer.push(nr, &[0; 1024], false, &UUID));
        let block = writer.finish();
        assert_eq!(
            Tags::new(&layout, &block).next().map(|tag| tag.block),
            Some(nr)
        );
    }
}

#[test]
fn revokes_round_trip_until_full() {
    for layout in layouts() {
        let mut writer = RevokeWriter::new(&layout, Tid(9));
        let mut pushed = 0;
        while writer.push(BlockNr(pushed + 100)) {
            pushed += 1;
        }
        assert_eq!(pushed as usize, RevokeWriter::capacity(&layout));
        let mut block = writer.finish();
        assert!(layout.verify_seal(&block));
        let read = Revoked::parse(&layout, &block, 5).expect("own block");
        assert!(read.iter().eq((0..pushed).map(|i| BlockNr(i + 100))));
        block[20] ^= 1;
        assert_eq!(layout.verify_seal(&block), !layout.has_block_checksums());
        crate::bytes::put_u32_be(&mut block, HEADER_BYTES, u32::MAX);
        assert!(Revoked::parse(&layout, &block, 5).is_err());
    }
}

#[test]
fn commit_blocks_verify() {
    for layout in layouts() {
        let mut block = CommitBlock::encode(&layout, Tid(3), 1_700_000_000, 5);
        let parsed = CommitBlock::parse(&block);
        assert_eq!((parsed.seconds, parsed.nanoseconds), (1_700_000_000, 5));
        assert!(CommitBlock::verify(&layout, &block));
        block[512..].fill(0xA5); // not yet written over
        assert!(CommitBlock::verify(&layout, &block));
        block[50] ^= 4;
        assert_eq!(
            CommitBlock::verify(&layout, &block),
            !layout.has_block_checksums()
        );
        assert!(!CommitBlock::verify(&layouts()[7], &block[..10]));
    }
}

#[test]
fn superblock_round_trips_and_detects_damage() {
    let mut sb = Superblock::new(4096, 32768, 1, UUID);
    sb.incompat = INCOMPAT_CSUM_V3 | INCOMPAT_64BIT | INCOMPAT_REVOKE;
    sb.start = 77;
    sb.sequence = Tid(u32::MAX);
    let raw = sb.encode();
    let again = Superblock::parse(&raw).expect("own superblock");
    assert_eq!(
        (again.start, again.sequence, again.incompat),
        (77, Tid(u32::MAX), sb.incompat)
    );
    // Byte 43 holds the flag of the checksum feature.
    for at in (0..SUPERBLOCK_BYTES).filter(|at| *at != 43) {
        let mut bad = raw;
        bad[at] ^= 0x10;
        assert!(Superblock::parse(&bad).is_err(), "byte {at}");
    }
}

#[test]
fn fast_commit_area_is_outside_the_log() {
    let mut sb = Superblock::new(4096, 8192, 1, UUID);
    assert_eq!((sb.end(), sb.fast_commit_area()), (8192, (8192, 8192)));
    sb.incompat = INCOMPAT_FAST_COMMIT;
    assert_eq!((sb.end(), sb.fast_commit_area()), (7936, (7937, 8192)));
    sb.fast_commit_blocks = u32::MAX;
    assert_eq!(sb.end(), 8192);
}

#[test]
fn hostile_bytes_do_not_panic() {
    let mut state = 0x1234_5678_u64;
    for layout in layouts() {
        for len in [0, 3, 11, 12, 17, 100, 1024] {
            let bytes: Vec<u8> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            assert!(Tags::new(&layout, &bytes).count() <= 128);
            let _ = Revoked::parse(&layout, &bytes, 0).map(|revoked| revoked.iter().count());
            let _ = CommitBlock::verify(&layout, &bytes);
            let _ = layout.verify_seal(&bytes);
            let _ = Superblock::parse(&bytes);
        }
    }
}

/// All sequences of up to four tags with every combination of the flags, in every layout.
#[test]
fn tags_of_every_combination_of_flags_are_read() {
    const SAME_UUID: u16 = 2;
    const LAST: u16 = 8;
    for layout in layouts() {
        for flags in 0..1_u32 << 12 {
            let flags: [u16; 4] = std::array::from_fn(|i| {
                let three = (flags >> (3 * i)) as u16 & 7;
                three & 3 | (three & 4) << 1
            });
            let mut block = vec![0; HEADER_BYTES];
            let mut expected = Vec::new();
            for (number, flags) in (1..).zip(flags) {
                let mut tag = vec![0; layout.tag_bytes()];
                put_u32_be(&mut tag, 0, number);
                crate::bytes::put_u16_be(&mut tag, 6, flags);
                block.extend(tag);
                if flags & SAME_UUID == 0 {
                    block.extend(UUID);
                }
                if expected.last().is_none_or(|(_, before)| before & LAST == 0) {
                    expected.push((u64::from(number), flags));
                }
            }
            block.resize(1024, 0xFF);
            let mut tags = Tags::new(&layout, &block);
            for (number, flags) in &expected {
                let tag = tags.next().expect("it is before the last");
                assert_eq!(tag.block.0, *number, "{layout:?} {flags:?}");
                assert_eq!(tag.escaped, flags & 1 == 1);
            }
            if expected.last().is_some_and(|(_, flags)| flags & LAST != 0) {
                assert_eq!(tags.next(), None);
            }
        }
    }
}
