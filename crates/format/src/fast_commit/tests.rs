use super::*;
use proptest::prelude::*;

const BLOCK: usize = 1024;
const TID: Tid = Tid(7);

/// Writes records as the kernel does: blocks end in a PAD, a TAIL covers the rest of the last one.
struct Writer {
    area: Vec<u8>,
    crc: u32,
}

impl Writer {
    fn commit(area: Vec<u8>, tid: Tid, records: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut writer = Writer { area, crc: 0 };
        if writer.area.is_empty() {
            let head = [0u32.to_le_bytes(), tid.0.to_le_bytes()].concat();
            writer.push(TAG_HEAD, &head);
        }
        records
            .iter()
            .for_each(|(tag, value)| writer.push(*tag, value));
        writer.tail(tid);
        writer.area
    }

    fn room(&self) -> usize {
        BLOCK - self.area.len() % BLOCK
    }

    fn put(&mut self, tag: u16, value: &[u8]) {
        let start = self.area.len();
        self.area.extend(tag.to_le_bytes());
        self.area.extend((value.len() as u16).to_le_bytes());
        self.area.extend(value);
        self.crc = crc32c(self.crc, &self.area[start..]);
    }

    fn push(&mut self, tag: u16, value: &[u8]) {
        self.make_room(TAG_BYTES + value.len());
        self.put(tag, value);
    }

    fn make_room(&mut self, len: usize) {
        if len + TAG_BYTES > self.room() {
            let pad = vec![0; self.room() - TAG_BYTES];
            self.put(TAG_PAD, &pad);
        }
    }

    fn tail(&mut self, tid: Tid) {
        self.make_room(TAG_BYTES + 8);
        let mut record = TAG_TAIL.to_le_bytes().to_vec();
        record.extend(((self.room() - TAG_BYTES) as u16).to_le_bytes());
        record.extend(tid.0.to_le_bytes());
        let crc = crc32c(self.crc, &record);
        record.extend(crc.to_le_bytes());
        record.resize(self.room(), 0);
        self.area.extend(record);
    }
}

fn scan(area: &[u8]) -> Scan {
    let mut scan = Scan::new(TID, 256);
    for block in area.chunks(BLOCK) {
        if scan.push(block) == Verdict::Ends {
            break;
        }
    }
    scan
}

fn name(parent: u32, inode: u32, name: &[u8]) -> Vec<u8> {
    [&parent.to_le_bytes()[..], &inode.to_le_bytes(), name].concat()
}

fn many(count: u32) -> Vec<(u16, Vec<u8>)> {
    let one = |i: u32| match i % 3 {
        0 => (
            TAG_CREATE,
            name(2, 20 + i, &vec![b'x'; 1 + i as usize % 255]),
        ),
        1 => (TAG_INODE, [&i.to_le_bytes()[..], &[3; 160]].concat()),
        _ => (TAG_DEL_RANGE, [i.to_le_bytes(), [1; 4], [0; 4]].concat()),
    };
    (0..count).map(one).collect()
}

#[test]
fn two_commits_over_many_blocks_are_read_back() {
    let area = Writer::commit(Vec::new(), TID, &many(100));
    let area = Writer::commit(area, TID, &[(TAG_UNLINK, name(2, 20, b"x"))]);
    let found = scan(&area);
    assert_eq!(found.commits(), 2);
    let records = found.into_records();
    assert_eq!(records.len(), 101);
    let dentry = Dentry {
        parent: InodeNr(2),
        inode: InodeNr(20),
        name: b"x"[..].into(),
    };
    assert_eq!(records[0], Record::Create(dentry.clone()));
    assert_eq!(records[100], Record::Unlink(dentry));
}

#[test]
fn only_what_a_matching_tail_closes_counts() {
    let first = Writer::commit(Vec::new(), TID, &many(10));
    let first_len = first.len();
    let both = Writer::commit(first, TID, &many(20));
    for at in (first_len..both.len() - BLOCK).step_by(17) {
        let mut torn = both.clone();
        torn[at] ^= 0x40;
        assert_eq!(scan(&torn).commits(), 1, "byte {at}");
    }
    let stale = Writer::commit(both[..first_len].to_vec(), Tid(6), &many(3));
    assert_eq!(scan(&stale).into_records().len(), 10);
    assert!(
        scan(&Writer::commit(Vec::new(), Tid(8), &many(3)))
            .into_records()
            .is_empty()
    );
}

fn any_record() -> impl Strategy<Value = Record> {
    let dentry = (
        any::<u32>(),
        any::<u32>(),
        prop::collection::vec(1u8.., 1..256),
    )
        .prop_map(|(parent, inode, name)| Dentry {
            parent: InodeNr(parent),
            inode: InodeNr(inode),
            name: name.into(),
        });
    let extent = (any::<u32>(), 0..1u64 << 48, 1..32_768u16, any::<bool>()).prop_map(
        |(logical, start, len, written)| Extent {
            logical: LogicalBlock(logical),
            start: crate::BlockNr(start),
            len,
            state: if written {
                crate::extent::ExtentState::Written
            } else {
                crate::extent::ExtentState::Unwritten
            },
        },
    );
    prop_oneof![
        dentry.clone().prop_map(Record::Create),
        dentry.clone().prop_map(Record::Link),
        dentry.prop_map(Record::Unlink),
        (any::<u32>(), extent).prop_map(|(inode, extent)| Record::AddRange {
            inode: InodeNr(inode),
            extent
        }),
        (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(inode, start, len_blocks)| {
            Record::DelRange {
                inode: InodeNr(inode),
                start: LogicalBlock(start),
                len_blocks,
            }
        }),
        (any::<u32>(), prop::collection::vec(any::<u8>(), 128..=256)).prop_map(|(inode, raw)| {
            Record::Inode {
                inode: InodeNr(inode),
                raw: raw.into(),
            }
        }),
    ]
}

proptest! {
    #[test]
    fn encoded_records_are_read_back(
        commits in prop::collection::vec(prop::collection::vec(any_record(), 0..40), 1..5)
    ) {
        let mut area = Vec::new();
        for records in &commits {
            let turn = if area.is_empty() { Turn::First } else { Turn::Later };
            let bytes = encode(BLOCK, TID, turn, records);
            let lens = records.iter().map(Record::encoded_bytes);
            let most = blocks_max(BLOCK, lens.clone().sum(), lens.max().unwrap_or(0));
            prop_assert!(bytes.len() <= most * BLOCK);
            area.extend(bytes);
        }
        let found = scan(&area);
        prop_assert!(found.commits() as usize >= commits.len());
        prop_assert_eq!(found.into_records(), commits.concat());
    }

    /// Linux refuses an area whose first fast commit is torn behind its HEAD.
    #[test]
    fn the_first_commit_is_whole_in_its_first_sector(
        records in prop::collection::vec(any_record(), 0..10),
        garbage in any::<u8>(),
    ) {
        let mut area = encode(BLOCK, TID, Turn::First, &records);
        area[512..].fill(garbage);
        prop_assert!(scan(&area).commits() > 0);
    }

    #[test]
    fn any_bytes_end_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let mut scan = scan(&bytes);
        scan.push(&bytes);
        prop_assert!(scan.into_records().is_empty());
    }

    #[test]
    fn any_value_of_a_record_is_parsed_or_refused(
        tag in 1u16..7,
        value in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let area = Writer::commit(Vec::new(), TID, &[(tag, value)]);
        let found = scan(&area);
        prop_assert_eq!(found.commits() as usize, found.into_records().len());
    }
}
