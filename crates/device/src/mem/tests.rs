//! Sparse memory against a plain vector, and its promises about memory.

use super::*;
use proptest::prelude::*;

const SIZE: u64 = 5 * CHUNK_BYTES as u64 + 777;

#[derive(Debug, Clone)]
enum Op {
    Write(u64, Vec<u8>),
    Vectored(u64, Vec<Vec<u8>>),
    Zero(u64, u64),
    Discard(u64, u64),
}

fn op() -> impl Strategy<Value = Op> {
    let offset = 0..SIZE;
    let len = prop_oneof![0..600u64, 0..3 * CHUNK_BYTES as u64];
    prop_oneof![
        (offset.clone(), len.clone(), any::<u8>()).prop_map(|(o, l, b)| Op::Write(
            o,
            (0..l).map(|i| b.wrapping_add(i as u8) | 1).collect()
        )),
        (
            offset.clone(),
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..5)
        )
            .prop_map(|(o, b)| Op::Vectored(o, b)),
        (offset.clone(), len.clone()).prop_map(|(o, l)| Op::Zero(o, l)),
        (offset, len).prop_map(|(o, l)| Op::Discard(o, l)),
    ]
}

/// Does `op` to the model; false when it does not fit.
fn apply(model: &mut [u8], op: &Op) -> bool {
    let (offset, bytes) = match op {
        Op::Write(offset, bytes) => (*offset, bytes.clone()),
        Op::Vectored(offset, bufs) => (*offset, bufs.concat()),
        Op::Zero(offset, len) | Op::Discard(offset, len) => (*offset, vec![0; *len as usize]),
    };
    let range = offset as usize..offset as usize + bytes.len();
    model
        .get_mut(range)
        .map(|slice| slice.copy_from_slice(&bytes))
        .is_some()
}

fn run(device: &MemDevice, op: &Op) -> Result<(), Error> {
    match op {
        Op::Write(offset, bytes) => device.write_at(*offset, bytes),
        Op::Vectored(offset, bufs) => {
            let bufs: Vec<&[u8]> = bufs.iter().map(Vec::as_slice).collect();
            device.write_vectored_at(*offset, &bufs)
        }
        Op::Zero(offset, len) => device.write_zeroes(*offset, *len),
        Op::Discard(offset, len) => device.discard(*offset, *len),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn behaves_as_a_vector(ops in prop::collection::vec(op(), 1..30), cut in 0..30usize) {
        let device = MemDevice::new(SIZE);
        let mut model = vec![0; SIZE as usize];
        let mut snapshot = None;
        for (i, op) in ops.iter().enumerate() {
            if i == cut {
                snapshot = Some((device.snapshot(), model.clone()));
            }
            prop_assert_eq!(apply(&mut model, op), run(&device, op).is_ok());
        }
        prop_assert!(device.to_bytes() == model);
        if let Some((device, model)) = snapshot {
            prop_assert!(device.to_bytes() == model, "a snapshot changed with its origin");
        }
    }
}

#[test]
fn sixty_tib_cost_what_was_written() {
    let device = MemDevice::new(60 << 40);
    device.write_at((60 << 40) - 5, b"tail!").unwrap();
    device.write_at(1 << 45, b"middle").unwrap();
    assert_eq!(device.resident_bytes(), 2 * CHUNK_BYTES as u64);
    device.discard(1, (60 << 40) - 7).unwrap();
    assert_eq!(device.resident_bytes(), CHUNK_BYTES as u64);
    let mut tail = [0; 5];
    device.read_at((60 << 40) - 5, &mut tail).unwrap();
    assert_eq!(&tail, b"tail!");
}

#[test]
fn out_of_range_is_refused_without_effect() {
    let device = MemDevice::new(100);
    assert!(matches!(
        device.write_at(99, &[1, 2]),
        Err(Error::OutOfRange { .. })
    ));
    assert!(matches!(
        device.read_at(u64::MAX, &mut [0]),
        Err(Error::OutOfRange { .. })
    ));
    assert!(device.write_vectored_at(98, &[&[1, 1], &[1]]).is_err());
    assert_eq!(device.to_bytes(), vec![0; 100]);
}

#[test]
fn threads_write_side_by_side() {
    let device = MemDevice::new(1 << 20);
    std::thread::scope(|scope| {
        for t in 0..8u64 {
            let device = &device;
            scope.spawn(move || {
                for i in (t..1 << 8).step_by(8) {
                    device.write_at(i << 12, &[t as u8 + 1; 4096]).unwrap();
                }
            });
        }
    });
    let bytes = device.to_bytes();
    assert!(
        bytes
            .iter()
            .enumerate()
            .all(|(i, b)| u64::from(*b) == (i as u64 >> 12) % 8 + 1)
    );
}

#[test]
fn zeroing_is_exact_at_the_edges_of_chunks() {
    const CHUNK: u64 = CHUNK_BYTES as u64;
    // One length below and one above the number of chunks from which the maps are scanned.
    for chunks in [2, SHARDS as u64 + 2] {
        let full = vec![7; ((chunks + 2) * CHUNK) as usize];
        for start in [CHUNK - 1, CHUNK, CHUNK + 1] {
            for end in [
                CHUNK * (chunks + 1) - 1,
                CHUNK * (chunks + 1),
                CHUNK * (chunks + 1) + 1,
            ] {
                let device = MemDevice::from_bytes(&full);
                device.write_zeroes(start, end - start).unwrap();
                let bytes = device.to_bytes();
                let is_zero = |at: u64| bytes[at as usize] == 0;
                assert!(!is_zero(start - 1) && is_zero(start), "{start}..{end}");
                assert!(is_zero(end - 1) && !is_zero(end), "{start}..{end}");
                let zeroes = bytes.iter().filter(|b| **b == 0).count();
                assert_eq!(zeroes as u64, end - start);
            }
        }
    }
}
