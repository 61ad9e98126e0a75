//! The laws of a crash, on random runs against a model of sectors.

use super::*;
use crate::{Error, Recorder};
use proptest::prelude::*;
use std::collections::HashSet;

const SECTORS: u64 = 12;
const SIZE: u64 = SECTORS * SECTOR_BYTES;

#[derive(Clone, Debug)]
enum Op {
    /// First sector, sectors, fill byte.
    Write(u64, u64, u8),
    /// As a write.
    Durable(u64, u64, u8),
    Zero(u64, u64),
    Discard(u64, u64),
    Flush,
}

fn op() -> impl Strategy<Value = Op> {
    let run = (0..SECTORS).prop_flat_map(|s| (Just(s), 1..=SECTORS - s));
    prop_oneof![
        4 => (run.clone(), 1..=255u8).prop_map(|((s, n), b)| Op::Write(s, n, b)),
        1 => (run.clone(), 1..=255u8).prop_map(|((s, n), b)| Op::Durable(s, n, b)),
        1 => run.clone().prop_map(|(s, n)| Op::Zero(s, n)),
        1 => run.prop_map(|(s, n)| Op::Discard(s, n)),
        2 => Just(Op::Flush),
    ]
}

fn record(ops: &[Op]) -> (Arc<MemDevice>, Recorder) {
    let device = Arc::new(MemDevice::from_bytes(&[0xee; SIZE as usize]));
    let recorder = Recorder::new(device.clone());
    for op in ops {
        match op {
            Op::Write(s, n, byte) => {
                let bytes = vec![*byte; (n * SECTOR_BYTES) as usize];
                recorder.write_at(s * SECTOR_BYTES, &bytes)
            }
            Op::Durable(s, n, byte) => {
                let bytes = vec![*byte; (n * SECTOR_BYTES) as usize];
                recorder.write_durable_at(s * SECTOR_BYTES, &bytes)
            }
            Op::Zero(s, n) => recorder.write_zeroes(s * SECTOR_BYTES, n * SECTOR_BYTES),
            Op::Discard(s, n) => recorder.discard(s * SECTOR_BYTES, n * SECTOR_BYTES),
            Op::Flush => recorder.flush(),
        }
        .unwrap();
    }
    (device, recorder)
}

/// For each sector the bytes it may hold after a crash after `ops`: the durable ones first, then
/// those of each later change.
fn possible(ops: &[Op]) -> Vec<Vec<u8>> {
    let mut sectors = vec![vec![0xee]; SECTORS as usize];
    for op in ops {
        let (start, len, byte) = match op {
            Op::Write(s, n, byte) | Op::Durable(s, n, byte) => (*s, *n, *byte),
            Op::Zero(s, n) | Op::Discard(s, n) => (*s, *n, 0),
            Op::Flush => (0, 0, 0),
        };
        let changed = start..start + len;
        changed.clone().for_each(|s| sectors[s as usize].push(byte));
        let durable = match op {
            Op::Durable(..) => changed,
            Op::Flush => 0..SECTORS,
            _ => 0..0,
        };
        for values in durable.map(|s| s as usize) {
            let older = sectors[values].len() - 1;
            sectors[values].drain(..older);
        }
    }
    sectors
}

/// The cut in the log after the first `done` operations.
fn cut_after(ops: &[Op], done: usize) -> usize {
    let has_two = |op: &Op| matches!(op, Op::Flush | Op::Durable(..));
    let events = |op| if has_two(op) { 2 } else { 1 };
    ops[..done].iter().map(events).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_whole_log_with_all_survivors_is_the_device(ops in prop::collection::vec(op(), 0..20)) {
        let (device, recorder) = record(&ops);
        let mut log = recorder.log();
        prop_assert!(log.image(log.len(), Survivors::All).to_bytes() == device.to_bytes());
        prop_assert!(log.image(0, Survivors::All).to_bytes().iter().all(|b| *b == 0xee));
        recorder.restart();
        prop_assert!(recorder.log().is_empty());
        prop_assert!(recorder.log().image(0, Survivors::None).to_bytes() == device.to_bytes());
    }

    #[test]
    fn every_crash_holds_only_what_the_model_allows(
        ops in prop::collection::vec(op(), 1..20), seed in any::<u64>(), back in any::<bool>()
    ) {
        let mut log = record(&ops).1.log();
        let mut cuts: Vec<usize> = (0..=ops.len()).collect();
        if back {
            cuts.reverse();
        }
        for done in cuts {
            let allowed = possible(&ops[..done]);
            let cut = cut_after(&ops, done);
            for tearing in [Tearing::Whole, Tearing::Sectors] {
                let bytes = log.image(cut, Survivors::Seeded { seed, tearing }).to_bytes();
                for (sector, bytes) in bytes.chunks(SECTOR_BYTES as usize).enumerate() {
                    prop_assert!(bytes.iter().all(|b| *b == bytes[0]), "a sector is torn");
                    prop_assert!(allowed[sector].contains(&bytes[0]), "sector {sector} at {done}");
                }
            }
            let sector = |values: &Vec<u8>| [values[0]; SECTOR_BYTES as usize];
            let durable = allowed.iter().flat_map(sector).collect::<Vec<_>>();
            prop_assert!(log.image(cut, Survivors::None).to_bytes() == durable);
            prop_assert!(log.image(cut, Survivors::All).to_bytes()
                == record(&ops[..done]).0.to_bytes());
        }
    }

    #[test]
    fn equal_seeds_give_equal_images(
            ops in prop::collection::vec(op(), 1..20),
            seed in any::<u64>(),
        ) {
        let mut log = record(&ops).1.log();
        let survivors = Survivors::Seeded { seed, tearing: Tearing::Sectors };
        let cut = log.len();
        let first = log.image(cut, survivors).to_bytes();
        prop_assert!(log.clone().image(cut, survivors).to_bytes() == first);
        prop_assert!(record(&ops).1.log().image(cut, survivors).to_bytes() == first);
    }
}

#[test]
fn masks_enumerate_every_subset_and_seeds_reach_them() {
    let ops: Vec<Op> = (0..3).map(|s| Op::Write(s, 1, s as u8 + 1)).collect();
    let mut log = record(&ops).1.log();
    let cut = log.len();
    assert_eq!(log.pending(cut), [0, 1, 2]);
    let masks: HashSet<_> = (0..8)
        .map(|mask| log.image(cut, Survivors::Mask(mask)).to_bytes())
        .collect();
    assert_eq!(masks.len(), 8);
    let whole = |seed| Survivors::Seeded {
        seed,
        tearing: Tearing::Whole,
    };
    let seeds: HashSet<_> = (0..200)
        .map(|seed| log.image(cut, whole(seed)).to_bytes())
        .collect();
    assert_eq!(seeds, masks);
}

#[test]
fn tearing_splits_a_write_at_sectors_only() {
    let mut log = record(&[Op::Write(0, 4, 9)]).1.log();
    let cut = log.len();
    let torn = |seed| Survivors::Seeded {
        seed,
        tearing: Tearing::Sectors,
    };
    let images: HashSet<Vec<u8>> = (0..2000)
        .map(|seed| {
            log.image(cut, torn(seed)).to_bytes()[..4 * 512]
                .chunks(512)
                .map(|s| s[0])
                .collect()
        })
        .collect();
    assert_eq!(images.len(), 16, "each subset of four sectors appears");
}

#[test]
fn a_write_in_flight_during_a_flush_is_not_made_durable_by_it() {
    let write = |byte: u8, returned_at| Event::Change {
        change: Change::Write {
            offset: 0,
            bytes: [byte].into(),
        },
        durability: Durability::Cached,
        returned_at,
    };
    // The write begins, a flush begins, the write returns, the flush returns.
    let events = vec![
        write(1, 2),
        Event::FlushStarted,
        Event::FlushDone { started: 1 },
    ];
    let mut log = CrashLog::new(MemDevice::new(1), events);
    assert_eq!(log.pending(3), [0]);
    assert_eq!(log.image(3, Survivors::None).to_bytes(), [0]);
    assert_eq!(log.image(3, Survivors::All).to_bytes(), [1]);
    // It returns before the flush begins; the crash comes before the flush returns, then after.
    let events = vec![
        write(1, 1),
        Event::FlushStarted,
        Event::FlushDone { started: 1 },
    ];
    let mut log = CrashLog::new(MemDevice::new(1), events);
    assert_eq!((log.pending(2), log.pending(3)), (vec![0], vec![]));
    assert_eq!(log.image(3, Survivors::None).to_bytes(), [1]);
    assert_eq!(log.image(2, Survivors::None).to_bytes(), [0]);
}

/// Until it returns, a durable write is pending like any other, and may be torn.
#[test]
fn a_durable_write_is_durable_when_it_returns_and_not_before() {
    let recorder = Recorder::new(Arc::new(MemDevice::new(SIZE)));
    recorder.write_at(0, &[1; 1024]).unwrap();
    recorder.write_durable_at(512, &[2; 1024]).unwrap();
    let mut log = recorder.log();
    assert_eq!(log.events()[2], Event::DurableDone { started: 1 });
    assert_eq!((log.pending(2), log.pending(3)), (vec![0, 1], vec![0]));
    let first_bytes = |log: &mut CrashLog, cut, survivors| -> Vec<u8> {
        let image = log.image(cut, survivors).to_bytes();
        image[..1536].iter().step_by(512).copied().collect()
    };
    assert_eq!(first_bytes(&mut log, 2, Survivors::None), [0, 0, 0]);
    assert_eq!(first_bytes(&mut log, 2, Survivors::Mask(0b10)), [0, 2, 2]);
    let torn = (0..100).map(|seed| Survivors::Seeded {
        seed,
        tearing: Tearing::Sectors,
    });
    let torn: HashSet<_> = torn.map(|it| first_bytes(&mut log, 2, it)).collect();
    assert!(torn.contains([0, 2, 0].as_slice()));
    // The older write of the second sector does not come back over it.
    assert_eq!(first_bytes(&mut log, 3, Survivors::None), [0, 2, 2]);
    assert_eq!(first_bytes(&mut log, 3, Survivors::All), [1, 2, 2]);
}

#[test]
fn marks_and_refused_changes_change_nothing() {
    let recorder = Recorder::new(Arc::new(MemDevice::new(SIZE)));
    recorder.mark(7);
    recorder.write_at(0, &[1]).unwrap();
    recorder.mark(8);
    assert!(recorder.write_at(SIZE, &[1]).is_err());
    let mut log = recorder.log();
    assert_eq!(
        (0..=4).map(|cut| log.last_mark(cut)).collect::<Vec<_>>(),
        [None, Some(7), Some(7), Some(8), Some(8)]
    );
    assert_eq!(log.events()[3], Event::Failed);
    assert_eq!(log.image(4, Survivors::All).to_bytes()[0], 1);
}

#[test]
fn threads_are_recorded_without_loss() {
    let device = Arc::new(MemDevice::new(1 << 20));
    let recorder = Recorder::new(device.clone());
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let recorder = &recorder;
            scope.spawn(move || {
                for i in 0..50 {
                    recorder
                        .write_at((i * 4 + t) * 512, &[t as u8 + 1; 512])
                        .unwrap();
                    if i % 10 == t {
                        recorder.flush().unwrap();
                    }
                }
            });
        }
    });
    let mut log = recorder.log();
    for cut in 0..log.len() {
        let durable = log.image(cut, Survivors::None);
        assert!(durable.resident_bytes() <= device.resident_bytes());
    }
    assert!(log.image(log.len(), Survivors::All).to_bytes() == device.to_bytes());
}

/// A device during whose writes the recorder above is flushed.
struct Interrupted {
    memory: MemDevice,
    recorder: std::sync::OnceLock<std::sync::Weak<Recorder>>,
}

impl BlockDevice for Interrupted {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.memory.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let recorder = self.recorder.get().and_then(std::sync::Weak::upgrade);
        recorder.map_or(Ok(()), |recorder| recorder.flush())?;
        self.memory.write_at(offset, buf)
    }
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn describe(&self) -> String {
        "interrupted".to_owned()
    }
}

#[test]
fn the_recorder_notes_when_a_write_returned_and_not_when_it_began() {
    let device = Arc::new(Interrupted {
        memory: MemDevice::new(SIZE),
        recorder: Default::default(),
    });
    let recorder = Arc::new(Recorder::with_base(device.clone(), MemDevice::new(SIZE)));
    device
        .recorder
        .set(Arc::downgrade(&recorder))
        .expect("set once");
    recorder.write_at(0, &[1]).unwrap();
    let log = recorder.log();
    assert_eq!(
        log.events()[1..],
        [Event::FlushStarted, Event::FlushDone { started: 1 }]
    );
    assert_eq!(log.pending(3), [0]);
    recorder.flush().unwrap();
    let log = recorder.log();
    assert!(log.pending(log.len()).is_empty());
}

#[test]
fn a_part_of_a_sector_brings_the_earlier_rest_along() {
    let device = Arc::new(MemDevice::from_bytes(&[1; 1024]));
    let recorder = Recorder::new(device);
    recorder.write_at(0, &[2; 1024]).unwrap();
    recorder.write_zeroes(600, 100).unwrap();
    let mut log = recorder.log();
    let image = log.image(log.len(), Survivors::Mask(0b10)).to_bytes();
    assert!(image[..512].iter().all(|byte| *byte == 1), "was lost");
    assert!(image[512..600].iter().all(|byte| *byte == 2));
    assert!(image[600..700].iter().all(|byte| *byte == 0));
    assert!(image[700..].iter().all(|byte| *byte == 2));
}
