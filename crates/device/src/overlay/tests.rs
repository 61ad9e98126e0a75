//! The overlay against a vector, and two writers that meet in one page.

use super::*;
use crate::MemDevice;
use proptest::prelude::*;

const SIZE: usize = 3 * PAGE_BYTES as usize + 100;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn reads_see_the_changes_and_the_base_stays(
        writes in prop::collection::vec((0..SIZE, 0..6000usize, any::<u8>()), 1..20)
    ) {
        let base: Vec<u8> = (0..SIZE).map(|i| i as u8).collect();
        let inner = Arc::new(MemDevice::from_bytes(&base));
        let overlay = Overlay::new(inner.clone());
        let mut model = base.clone();
        for (offset, len, byte) in writes {
            let fits = offset + len <= SIZE;
            if fits {
                model[offset..offset + len].fill(byte);
            }
            prop_assert_eq!(overlay.write_at(offset as u64, &vec![byte; len]).is_ok(), fits);
        }
        let mut seen = vec![0; SIZE];
        overlay.read_at(0, &mut seen).unwrap();
        prop_assert!(seen == model && inner.to_bytes() == base);
    }
}

/// A base during whose first read another thread writes to the same page.
struct Slow {
    base: MemDevice,
    overlay: std::sync::OnceLock<std::sync::Weak<Overlay>>,
    reads: uext4_sync::atomic::AtomicU32,
}

impl BlockDevice for Slow {
    fn size_bytes(&self) -> u64 {
        self.base.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let reads = self
            .reads
            .fetch_add(1, uext4_sync::atomic::Ordering::SeqCst);
        if let (0, Some(overlay)) = (reads, self.overlay.get().and_then(|o| o.upgrade())) {
            overlay.write_at(1, b"b")?;
        }
        self.base.read_at(offset, buf)
    }
    fn write_at(&self, _: u64, _: &[u8]) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }
    fn is_read_only(&self) -> bool {
        true
    }
    fn describe(&self) -> String {
        "slow".to_owned()
    }
}

#[test]
fn two_first_writes_to_one_page_both_stay() {
    let slow = Arc::new(Slow {
        base: MemDevice::new(PAGE_BYTES),
        overlay: Default::default(),
        reads: Default::default(),
    });
    let overlay = Arc::new(Overlay::new(slow.clone()));
    slow.overlay
        .set(Arc::downgrade(&overlay))
        .expect("set once");
    overlay.write_at(0, b"a").unwrap();
    let mut seen = [0; 3];
    overlay.read_at(0, &mut seen).unwrap();
    assert_eq!(&seen, b"ab\0");
}

#[test]
fn memory_goes_to_changes_only() {
    let overlay = Overlay::new(Arc::new(MemDevice::new(60 << 40)));
    assert_eq!(overlay.changed_bytes(), 0);
    overlay.write_at(1 << 45, b"x").unwrap();
    overlay.write_at((1 << 45) + 1, b"y").unwrap();
    overlay.write_zeroes(0, 5).unwrap();
    assert_eq!(overlay.changed_bytes(), 2 * (PAGE_BYTES + ENTRY_BYTES));
    assert!(!overlay.is_read_only());
}

#[test]
fn a_limit_holds_for_bytes_and_for_entries() {
    let inner = Arc::new(MemDevice::from_bytes(&vec![7; 1 << 20]));
    let entries = 256 * ENTRY_BYTES;
    let overlay = Overlay::rehearsal(inner, 2 * PAGE_BYTES + entries);
    overlay.write_zeroes(0, 1 << 20).unwrap();
    assert_eq!(overlay.changed_bytes(), entries);
    overlay.write_at(5000, b"a").unwrap();
    overlay.write_at(9000, b"b").unwrap();
    assert!(!overlay.is_full());
    assert!(overlay.write_at(20_000, b"c").is_err() && overlay.is_full());
    let mut seen = [9; 3];
    overlay.read_at(4999, &mut seen).unwrap();
    assert_eq!(&seen, b"\0a\0");
}

/// A replay of a log on another device takes memory of the same limit.
#[test]
fn overlays_beside_each_other_have_one_limit() {
    let base = |byte| Arc::new(MemDevice::from_bytes(&vec![byte; 1 << 20]));
    let page = PAGE_BYTES + ENTRY_BYTES;
    let overlay = Overlay::rehearsal(base(1), 3 * page);
    let journal = overlay.beside(base(2));
    assert!(journal.is_private());
    overlay.write_at(0, b"a").unwrap();
    journal.write_at(0, b"b").unwrap();
    journal.write_at(9000, b"b").unwrap();
    assert_eq!(overlay.changed_bytes(), 3 * page);
    assert_eq!(journal.changed_bytes(), 3 * page);
    assert!(overlay.write_at(9000, b"c").is_err());
    assert!(overlay.is_full() && journal.is_full());
    let mut seen = [[0; 2]; 2];
    overlay.read_at(0, &mut seen[0]).unwrap();
    journal.read_at(0, &mut seen[1]).unwrap();
    assert_eq!(&seen, &[*b"a\x01", *b"b\x02"]);
    let ranges = (overlay.changed_ranges(), journal.changed_ranges());
    assert_eq!((ranges.0.len(), ranges.1.len()), (1, 2));
}

#[test]
fn pages_of_zeroes_have_a_limit() {
    let overlay = Overlay::rehearsal(Arc::new(MemDevice::new(1 << 40)), 1 << 20);
    assert!(overlay.write_zeroes(0, 64 << 20).is_ok() && !overlay.is_full());
    assert!(overlay.write_zeroes(0, 128 << 20).is_err() && overlay.is_full());
}

#[test]
fn a_page_of_zeroes_gives_its_memory_back() {
    let limit = PAGE_BYTES + 4 * ENTRY_BYTES;
    let overlay = Overlay::rehearsal(Arc::new(MemDevice::new(1 << 20)), limit);
    for page in 0..4 {
        overlay.write_at(page * PAGE_BYTES, &[1; 4096]).unwrap();
        overlay.write_zeroes(page * PAGE_BYTES, PAGE_BYTES).unwrap();
    }
    let entries = 4 * ENTRY_BYTES;
    assert_eq!(
        (overlay.changed_bytes(), overlay.is_full()),
        (entries, false)
    );
}

#[test]
fn changed_ranges_cover_what_was_written() {
    let base = Arc::new(MemDevice::new(10_000));
    let overlay = Overlay::new(base);
    assert!(overlay.changed_ranges().is_empty());
    overlay.write_at(9_000, &[1; 10]).unwrap();
    overlay.write_at(4_090, &[1; 10]).unwrap();
    assert_eq!(
        overlay.changed_ranges(),
        [0..4096, 4096..8192, 8192..10_000]
    );
}
