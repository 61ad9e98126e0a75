use super::*;
use crate::CorruptKind;
use std::collections::BTreeMap;

/// A file in memory, as `mkfs` creates one without owners.
struct File(Vec<u8>);

type Found = (QuotaTree, Vec<(QuotaEntry, u64)>);

impl File {
    fn new() -> Self {
        let info = QuotaInfo {
            space_grace_seconds: 604_800,
            inodes_grace_seconds: 604_800,
            flags: 0,
            blocks: 2,
            free_block: 0,
            free_leaf: 0,
        };
        let mut bytes = vec![0; 2 * QUOTA_BLOCK_BYTES];
        bytes[..32].copy_from_slice(&info.encode(QuotaKind::User));
        Self(bytes)
    }

    fn read(&self) -> Result<Found, CorruptKind> {
        let block = |nr: u32, _| {
            let at = nr as usize * QUOTA_BLOCK_BYTES;
            let bytes = self.0.get(at..at + QUOTA_BLOCK_BYTES);
            Ok(bytes.ok_or(CorruptKind::Hole)?.try_into().unwrap())
        };
        QuotaTree::read(QuotaKind::User, block, |problem| problem)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let end = at as usize + bytes.len();
        let len = end.next_multiple_of(QUOTA_BLOCK_BYTES).max(self.0.len());
        self.0.resize(len, 0);
        self.0[at as usize..end].copy_from_slice(bytes);
    }

    fn insert(&mut self, tree: &mut QuotaTree, entry: &QuotaEntry) {
        let (at, patches) = tree.insert(entry.id);
        for patch in patches {
            self.write(patch.at, &patch.bytes);
        }
        self.write(at, &entry.encode());
    }

    /// The bytes of the file that hold the entry of an identifier.
    fn find(&self, id: u32) -> u64 {
        let (_, entries) = self.read().unwrap();
        let found = entries.iter().find(|(entry, _)| entry.id == id);
        found.unwrap().1
    }

    fn remove(&mut self, tree: &mut QuotaTree, id: u32) {
        for patch in tree.remove(id, self.find(id)).unwrap() {
            self.write(patch.at, &patch.bytes);
        }
    }
}

fn entry(id: u32) -> QuotaEntry {
    QuotaEntry {
        id,
        inodes: u64::from(id % 7),
        space_bytes: u64::from(id) * 4096,
        ..QuotaEntry::default()
    }
}

#[test]
fn what_is_inserted_is_read_again() {
    let mut file = File::new();
    let (mut tree, none) = file.read().unwrap();
    assert_eq!(none, []);
    let mut model = BTreeMap::new();
    let ids = (0..40u32).map(|nr| nr.wrapping_mul(0x0100_8003));
    for id in ids.chain([0, 65534, u32::MAX]) {
        if model.insert(id, entry(id)).is_none() {
            let room = tree.bytes_for_insert();
            file.insert(&mut tree, &entry(id));
            assert!(file.0.len() as u64 <= room, "asks for enough");
        }
        let (again, mut found) = file.read().unwrap();
        found.sort_by_key(|(entry, _)| entry.id);
        let found: Vec<QuotaEntry> = found.into_iter().map(|(entry, _)| entry).collect();
        assert_eq!(found, model.values().copied().collect::<Vec<_>>());
        assert_eq!(again.info, tree.info);
        assert_eq!(again.used_bytes(), file.0.len() as u64);
    }
}

#[test]
fn an_owner_of_nothing_is_there() {
    let unlimited = QuotaEntry::default();
    let bytes = unlimited.encode();
    assert_ne!(bytes, [0; QUOTA_ENTRY_BYTES]);
    assert_eq!(QuotaEntry::decode(&bytes), Some(unlimited));
    assert_eq!(QuotaEntry::decode(&[0; QUOTA_ENTRY_BYTES]), None);
}

#[test]
fn damage_is_an_error_and_never_a_loop() {
    let mut file = File::new();
    let (mut tree, _) = file.read().unwrap();
    for id in [0, 1000, 1 << 20, u32::MAX] {
        file.insert(&mut tree, &entry(id));
    }
    let good = file.0.clone();
    let mut state = 7u64;
    let mut refused = 0;
    for _ in 0..4000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = (state >> 33) as usize % good.len();
        file.0.clone_from(&good);
        file.0[at] = (state >> 25) as u8;
        refused += u32::from(file.read().is_err());
        // A node that points to itself or its parent.
        let slot = at / 4 * 4;
        file.0[slot..slot + 4].copy_from_slice(&((state >> 40) as u32 % 12).to_le_bytes());
        if let Ok((mut tree, _)) = file.read() {
            let (at, _) = tree.insert(77);
            assert!(at < tree.used_bytes());
        }
    }
    assert!(refused > 0);
}

/// Identifiers that share no node below the root come and go, also with a new reader in between.
#[test]
fn what_is_removed_makes_room_for_others() {
    const LIVE: u32 = 20;
    let mut file = File::new();
    let mut tree = file.read().unwrap().0;
    let id = |nr: u32| nr.wrapping_mul(0x0101_8003);
    let mut len_with_all = 0;
    for nr in 0..400 {
        file.insert(&mut tree, &entry(id(nr)));
        if let Some(old) = nr.checked_sub(LIVE) {
            file.remove(&mut tree, id(old));
        }
        if nr == LIVE {
            len_with_all = file.0.len();
        }
        let (again, found) = file.read().unwrap();
        let mut found: Vec<QuotaEntry> = found.into_iter().map(|(entry, _)| entry).collect();
        found.sort_by_key(|entry| entry.id);
        let mut wanted: Vec<QuotaEntry> = (nr.saturating_sub(LIVE - 1)..=nr)
            .map(|nr| entry(id(nr)))
            .collect();
        wanted.sort_by_key(|entry| entry.id);
        assert_eq!(found, wanted, "{nr}");
        if nr % 7 == 0 {
            tree = again;
        }
    }
    assert!(file.0.len() <= len_with_all + 8 * QUOTA_BLOCK_BYTES);
    assert_eq!(tree.remove(id(1), 16), None, "it is gone");
}

/// Whole blocks of entries become free, and are used again.
#[test]
fn full_blocks_of_entries_become_free() {
    let mut file = File::new();
    let mut tree = file.read().unwrap().0;
    for round in 0..5 {
        (0..100).for_each(|id| file.insert(&mut tree, &entry(id)));
        let len = file.0.len();
        // In another order than they came in.
        (0..100).for_each(|nr| file.remove(&mut tree, nr * 37 % 100));
        assert_eq!(file.read().unwrap().1, []);
        assert!(len <= 20 * QUOTA_BLOCK_BYTES, "{round}: {len}");
        tree = file.read().unwrap().0;
    }
}
