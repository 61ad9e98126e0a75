//! Tables made by hand after the specifications, whole and damaged.

use super::*;
use crate::{MemDevice, Recorder, Survivors, Tearing};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn mbr_entry(kind: u8, start: u32, sectors: u32) -> [u8; 16] {
    let mut entry = [0; 16];
    entry[4] = kind;
    entry[8..12].copy_from_slice(&start.to_le_bytes());
    entry[12..].copy_from_slice(&sectors.to_le_bytes());
    entry
}

fn write_mbr(device: &MemDevice, sector: u64, entries: &[[u8; 16]]) {
    let mut bytes = [0; 512];
    for (i, entry) in entries.iter().enumerate() {
        bytes[446 + 16 * i..][..16].copy_from_slice(entry);
    }
    bytes[510..].copy_from_slice(&[0x55, 0xaa]);
    device.write_at(sector * 512, &bytes).unwrap();
}

fn write_gpt(
    device: &MemDevice,
    header_at: u64,
    entries_at: u64,
    sector: u64,
    runs: &[(u64, u64)],
) {
    let mut entries = vec![0; 128 * 128];
    for (entry, (first, last)) in entries.chunks_mut(128).zip(runs) {
        entry[..16].fill(u8::from(*last != 0));
        entry[32..40].copy_from_slice(&first.to_le_bytes());
        entry[40..48].copy_from_slice(&last.to_le_bytes());
    }
    let mut header = [0; 92];
    header[..8].copy_from_slice(b"EFI PART");
    header[12..16].copy_from_slice(&92u32.to_le_bytes());
    header[8..12].copy_from_slice(&0x1_0000u32.to_le_bytes());
    header[24..32].copy_from_slice(&header_at.to_le_bytes());
    // The usable sectors, which `partx` requires.
    let sectors = device.size_bytes() / sector;
    let other = if header_at == 1 { sectors - 1 } else { 1 };
    header[32..40].copy_from_slice(&other.to_le_bytes());
    header[40..48].copy_from_slice(&34u64.to_le_bytes());
    header[48..56].copy_from_slice(&(sectors - 34).to_le_bytes());
    header[72..80].copy_from_slice(&entries_at.to_le_bytes());
    header[80..84].copy_from_slice(&128u32.to_le_bytes());
    header[84..88].copy_from_slice(&128u32.to_le_bytes());
    header[88..].copy_from_slice(&gpt::crc32(&entries).to_le_bytes());
    let crc = gpt::crc32(&header);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    device.write_at(header_at * sector, &header).unwrap();
    device.write_at(entries_at * sector, &entries).unwrap();
    write_mbr(device, 0, &[mbr_entry(0xee, 1, u32::MAX)]);
}

fn partition(number: u32, start_bytes: u64, len_bytes: u64) -> Partition {
    Partition {
        number,
        start_bytes,
        len_bytes,
    }
}

fn is_bad(device: &MemDevice) -> bool {
    let bad = |error: &Error| {
        matches!(
            error,
            Error::PartitionTable { .. } | Error::NoPartitionTable
        )
    };
    read_table(device).is_err_and(|error| bad(&error))
}

#[test]
fn the_checksum_is_the_known_one() {
    assert_eq!(gpt::crc32(b"123456789"), 0xcbf4_3926);
}

#[test]
fn primary_and_logical_partitions_are_found() {
    let device = MemDevice::new(MIB);
    let (a, ext) = (mbr_entry(0x83, 100, 50), mbr_entry(0x0f, 200, 1000));
    write_mbr(&device, 0, &[a, [0; 16], ext]);
    write_mbr(
        &device,
        200,
        &[mbr_entry(0x83, 1, 10), mbr_entry(0x05, 300, 100)],
    );
    write_mbr(&device, 500, &[mbr_entry(0x82, 2, 20)]);
    let expected = [
        partition(1, 100 * 512, 50 * 512),
        partition(5, 201 * 512, 10 * 512),
        partition(6, 502 * 512, 20 * 512),
    ];
    assert_eq!(read_table(&device).unwrap(), expected);
}

#[test]
fn a_partition_opens_as_a_window() {
    let device = Arc::new(MemDevice::new(MIB));
    write_mbr(&device, 0, &[mbr_entry(0x83, 100, 50)]);
    let window = open(device.clone(), 1).unwrap();
    window.write_at(0, b"here").unwrap();
    assert_eq!(&device.to_bytes()[51_200..51_204], b"here");
    assert!(matches!(
        open(device, 2),
        Err(Error::NoPartition { number: 2 })
    ));
}

#[test]
fn bad_legacy_tables_are_refused() {
    assert!(is_bad(&MemDevice::new(MIB)));
    assert!(is_bad(&MemDevice::new(100)));
    let device = MemDevice::new(MIB);
    write_mbr(&device, 0, &[mbr_entry(0x05, 100, 100)]);
    assert!(is_bad(&device), "no signature in the chain");
    write_mbr(
        &device,
        100,
        &[mbr_entry(0x83, 1, 1), mbr_entry(0x05, 0, 100)],
    );
    assert!(is_bad(&device), "a chain that bites its tail");
}

#[test]
fn a_gpt_is_read_for_both_sector_sizes() {
    for sector in [512, 4096] {
        let device = MemDevice::new(MIB);
        write_gpt(&device, 1, 2, sector, &[(40, 49), (0, 0), (60, 60)]);
        let expected = [
            partition(1, 40 * sector, 10 * sector),
            partition(3, 60 * sector, sector),
        ];
        assert_eq!(read_table(&device).unwrap(), expected);
    }
}

#[test]
fn the_backup_stands_in_for_a_damaged_table() {
    for damage in [512, 1024 + 5] {
        let device = MemDevice::new(MIB);
        write_gpt(&device, 1, 2, 512, &[(40, 49)]);
        device.write_at(damage, &[0xff]).unwrap();
        assert!(is_bad(&device));
        write_gpt(&device, 2047, 2015, 512, &[(40, 49)]);
        assert_eq!(
            read_table(&device).unwrap(),
            [partition(1, 40 * 512, 10 * 512)]
        );
    }
}

#[test]
fn a_header_in_the_wrong_place_is_refused() {
    let device = MemDevice::new(MIB);
    write_gpt(&device, 1, 2, 512, &[(40, 49)]);
    let mut header = [0; 512];
    device.read_at(512, &mut header).unwrap();
    device.write_zeroes(512, 512).unwrap();
    device.write_at(2047 * 512, &header).unwrap();
    assert!(is_bad(&device));
}

#[test]
fn bad_gpt_entries_are_refused() {
    for run in [(50, 49), (1, u64::MAX), (0, u64::MAX)] {
        let device = MemDevice::new(MIB);
        write_gpt(&device, 1, 2, 512, &[run]);
        assert!(is_bad(&device), "{run:?}");
    }
}

/// Sets bytes of the header in sector 1 and, where that is possible, the checksums anew.
fn change_gpt(device: &MemDevice, changes: &[(u64, Vec<u8>)]) {
    for (at, bytes) in changes {
        device.write_at(512 + at, bytes).unwrap();
    }
    let mut header = [0; 512];
    device.read_at(512, &mut header).unwrap();
    let number = |header: &[u8], at: usize| u32_at(header, at) as usize;
    let len = number(&header, 80).saturating_mul(number(&header, 84));
    let mut entries = vec![0; len.min(MIB as usize)];
    let at = u64_at(&header, 72).saturating_mul(512);
    if device.read_at(at, &mut entries).is_ok() {
        header[88..92].copy_from_slice(&gpt::crc32(&entries).to_le_bytes());
    }
    header[16..20].fill(0);
    let crc = gpt::crc32(&header[..number(&header, 12).min(512)]);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
    device.write_at(512, &header).unwrap();
}

#[test]
fn impossible_gpt_headers_with_right_checksums_are_refused() {
    let word = |number: u32| number.to_le_bytes().to_vec();
    let cases = [
        (12, word(91), "size of the GPT header"),
        (12, word(513), "size of the GPT header"),
        (80, word(1 << 30), "size of the GPT entries"),
        (84, word(0), "size of the GPT entries"),
        (84, word(u32::MAX), "size of the GPT entries"),
        (72, vec![0xff; 8], "the GPT entries lie past the end"),
        (72, vec![0, 0, 1], "which is at byte 1048576"),
    ];
    for (at, bytes, told) in cases {
        let device = MemDevice::new(MIB);
        write_gpt(&device, 1, 2, 512, &[(40, 49)]);
        change_gpt(&device, &[]);
        read_table(&device).unwrap();
        change_gpt(&device, &[(at, bytes)]);
        let error = read_table(&device).unwrap_err().to_string();
        assert!(error.contains(told), "{told}: {error}");
    }
}

/// A disk of 2 MiB of which only this many bytes were copied.
fn cut_short(disk: &MemDevice, len: usize) -> Arc<MemDevice> {
    let device = MemDevice::new(len as u64);
    device.write_at(0, &disk.to_bytes()[..len]).unwrap();
    Arc::new(device)
}

#[test]
fn what_is_left_of_a_disk_that_was_cut_short_can_be_opened() {
    let legacy = MemDevice::new(2 * MIB);
    let entries = [mbr_entry(0x83, 100, 50), mbr_entry(0x83, 2000, 49)];
    write_mbr(&legacy, 0, &entries);
    let guid = MemDevice::new(2 * MIB);
    write_gpt(&guid, 4095, 4063, 512, &[(100, 149), (2000, 2048)]);
    write_gpt(&guid, 1, 2, 512, &[(100, 149), (2000, 2048)]);
    for disk in [legacy, guid] {
        let device = cut_short(&disk, MIB as usize);
        assert_eq!(open(device.clone(), 1).unwrap().size_bytes(), 50 * 512);
        let cut = open(device.clone(), 2).err().unwrap().to_string();
        assert!(cut.contains("partition 2 ends at byte 1049088,"), "{cut}");
        assert!(matches!(open(device, 3), Err(Error::NoPartition { .. })));
    }
}

#[test]
fn logical_partitions_that_were_cut_off_are_not_said_to_be_absent() {
    let disk = MemDevice::new(2 * MIB);
    write_mbr(&disk, 0, &[mbr_entry(0x05, 200, 3000)]);
    let next = mbr_entry(0x05, 2900, 50);
    write_mbr(&disk, 200, &[mbr_entry(0x83, 1, 10), next]);
    write_mbr(&disk, 3100, &[mbr_entry(0x83, 1, 10)]);
    let device = cut_short(&disk, MIB as usize);
    assert_eq!(open(device.clone(), 5).unwrap().size_bytes(), 10 * 512);
    let cut = open(device, 6).err().unwrap().to_string();
    assert!(cut.contains("goes on past the end"), "{cut}");
    assert_eq!(open(Arc::new(disk), 6).unwrap().size_bytes(), 10 * 512);
}

/// The same disk with more space at its end.
fn longer(disk: &MemDevice, len: u64) -> MemDevice {
    let device = MemDevice::new(len);
    device.write_at(0, &disk.to_bytes()).unwrap();
    device
}

#[test]
fn a_partition_of_a_gpt_grows_to_the_end_of_a_longer_disk() {
    for sector in [512, 4096] {
        let disk = MemDevice::new(2 * MIB);
        let last = 2 * MIB / sector - 1;
        let runs = [(100, 149), (200, 299)];
        write_gpt(&disk, last, last - 40, sector, &runs);
        write_gpt(&disk, 1, 2, sector, &runs);
        let growth = Growth::plan(&disk, 2, 4 * MIB + 1).unwrap();
        let needed = growth.disk_bytes();
        assert!(needed > 4 * MIB && needed.is_multiple_of(MIB), "{needed}");
        let (before, after) = growth.len_bytes();
        assert_eq!((before, after), (100 * sector, 4 * MIB + sector));
        let disk = longer(&disk, needed);
        growth.write(&disk).unwrap();
        let expected = [
            partition(1, 100 * sector, 50 * sector),
            partition(2, 200 * sector, after),
        ];
        assert_eq!(read_table(&disk).unwrap(), expected);
        if let (512, Some(seen)) = (sector, partx_view(&disk)) {
            assert_eq!(seen, expected);
        }
        // The backup alone, at the new end.
        disk.write_zeroes(sector, sector).unwrap();
        assert_eq!(read_table(&disk).unwrap(), expected);
    }
}

/// A crash leaves the old table or the new one.
#[test]
fn a_growth_that_ends_early_leaves_a_table() {
    let disk = Arc::new(MemDevice::new(2 * MIB));
    write_gpt(&disk, 4095, 4063, 512, &[(100, 149)]);
    write_gpt(&disk, 1, 2, 512, &[(100, 149)]);
    let growth = Growth::plan(&*disk, 1, MIB).unwrap();
    assert_eq!(growth.disk_bytes(), 2 * MIB);
    let recorder = Recorder::new(disk);
    growth.write(&recorder).unwrap();
    let mut log = recorder.log();
    let mut seen = std::collections::BTreeSet::new();
    for cut in 0..=log.len() {
        for seed in 0..64 {
            let left = log.image(
                cut,
                Survivors::Seeded {
                    seed,
                    tearing: Tearing::Sectors,
                },
            );
            let [found] = read_table(&left).unwrap()[..] else {
                panic!("cut {cut}, seed {seed}: not one partition");
            };
            seen.insert(found.len_bytes);
        }
    }
    assert_eq!(Vec::from_iter(seen), [50 * 512, MIB]);
}

#[test]
fn a_growth_without_room_is_refused_and_names_what_is_there() {
    let guid = MemDevice::new(2 * MIB);
    write_gpt(&guid, 1, 2, 512, &[(100, 149), (200, 299)]);
    let refused = |device: &MemDevice, number, len_bytes| {
        let error = Growth::plan(device, number, len_bytes).err().unwrap();
        error.to_string()
    };
    let said = refused(&guid, 1, 100 * 512 + 1);
    assert_eq!(
        said,
        "partition 1 can have 51200 bytes: behind it is partition 2"
    );
    assert!(refused(&guid, 3, 1).contains("no partition 3"));
    assert!(refused(&guid, 2, u64::MAX).contains("past the last byte"));
    let legacy = MemDevice::new(MIB);
    write_mbr(&legacy, 0, &[mbr_entry(0x83, 100, 50)]);
    assert!(refused(&legacy, 1, MIB).contains("of an MBR"));
    // The disk would become as long as another partition says.
    let far = MemDevice::new(2 * MIB);
    write_gpt(&far, 1, 2, 512, &[(100, 149), (1 << 40, 1 << 41)]);
    assert!(refused(&far, 1, 51 * 512).contains("past the end of the disk"));
    let early = MemDevice::new(MIB);
    write_gpt(&early, 1, 2, 512, &[(40, 49)]);
    change_gpt(&early, &[(512 + 32, vec![20])]);
    assert!(refused(&early, 1, MIB).contains("no space for it"));
}

/// Something else may be where a longer table, or its backup, would go.
#[test]
fn a_growth_leaves_what_is_no_partition() {
    let refused = |device: &MemDevice| Growth::plan(device, 1, MIB).err().unwrap().to_string();
    let disk = || {
        let disk = MemDevice::new(2 * MIB);
        write_gpt(&disk, 4095, 4063, 512, &[(200, 249)]);
        write_gpt(&disk, 1, 2, 512, &[(200, 249)]);
        disk
    };
    Growth::plan(&disk(), 1, MIB).unwrap();
    let hybrid = disk();
    let entries = [mbr_entry(0xee, 1, 99), mbr_entry(0x83, 300, 50)];
    write_mbr(&hybrid, 0, &entries);
    assert!(refused(&hybrid).contains("hybrid"));
    let moved = disk();
    write_gpt(&moved, 1, 100, 512, &[(200, 249)]);
    assert!(refused(&moved).contains("may not follow"));
    let footer = longer(&disk(), 3 * MIB);
    Growth::plan(&footer, 1, MIB).unwrap();
    footer.write_at(3 * MIB - 512, b"conectix").unwrap();
    assert!(refused(&footer).contains("behind the backup"));
    let damaged = disk();
    damaged.write_zeroes(512, 512).unwrap();
    Growth::plan(&damaged, 1, MIB).unwrap();
    write_gpt(&damaged, 4095, 4000, 512, &[(200, 249)]);
    damaged.write_at(4095 * 512 + 40, &[99]).unwrap();
    assert!(Growth::plan(&damaged, 1, MIB).is_err());
}

/// The partitions that `partx` of util-linux finds on `device`; `None` if it is not installed.
fn partx_view(device: &MemDevice) -> Option<Vec<Partition>> {
    let image = tempfile::NamedTempFile::new().expect("a file for the test's image");
    std::fs::write(image.path(), device.to_bytes()).expect("room for the test's image");
    let mut partx = std::process::Command::new("partx");
    partx.args(["--raw", "--noheadings", "--output", "NR,START,SECTORS,TYPE"]);
    let Ok(output) = partx.arg(image.path()).output() else {
        eprintln!("skipped: partx is not installed");
        return None;
    };
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| fields[i].parse::<u64>().expect("partx prints numbers");
        // It also lists the extended partition.
        let is_extended = ["0x5", "0xf"].contains(&fields[3]);
        let found = partition(number(0) as u32, number(1) * 512, number(2) * 512);
        (!is_extended).then_some(found)
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("partx prints ASCII");
    Some(text.lines().filter_map(line).collect())
}

#[test]
fn partx_finds_the_same_partitions() {
    let legacy = MemDevice::new(MIB);
    let (a, ext) = (mbr_entry(0x83, 100, 50), mbr_entry(0x0f, 200, 1000));
    write_mbr(&legacy, 0, &[a, [0; 16], ext]);
    write_mbr(
        &legacy,
        200,
        &[mbr_entry(0x83, 1, 10), mbr_entry(0x05, 300, 100)],
    );
    write_mbr(&legacy, 500, &[mbr_entry(0x82, 2, 20)]);
    let guid = MemDevice::new(MIB);
    write_gpt(&guid, 2047, 2015, 512, &[(40, 49), (0, 0), (60, 69)]);
    write_gpt(&guid, 1, 2, 512, &[(40, 49), (0, 0), (60, 69)]);
    for device in [legacy, guid] {
        let Some(seen) = partx_view(&device) else {
            return;
        };
        assert_eq!(read_table(&device).unwrap(), seen);
    }
}

proptest! {
    #[test]
    fn hostile_tables_never_panic(
        noise in prop::collection::vec((0..6000u64, any::<u8>()), 0..30),
        gpt in any::<bool>(),
        sealed in any::<bool>()
    ) {
        let device = MemDevice::new(MIB);
        if gpt {
            write_gpt(&device, 1, 2, 512, &[(40, 49)]);
        } else {
            write_mbr(&device, 0, &[mbr_entry(0x83, 100, 50), mbr_entry(0x0f, 5, 1000)]);
            write_mbr(&device, 5, &[mbr_entry(0x83, 1, 10), mbr_entry(0x05, 3, 100)]);
        }
        noise.iter().for_each(|(at, byte)| device.write_at(*at, &[*byte]).unwrap());
        if sealed && gpt {
            change_gpt(&device, &[]);
        }
        if let Ok(growth) = Growth::plan(&device, 1, MIB / 2)
            && growth.disk_bytes() <= MIB
        {
            growth.write(&device).unwrap();
            prop_assert!(read_table(&device).is_ok());
        }
        for partition in read_table(&device).unwrap_or_default() {
            prop_assert!(partition.start_bytes.checked_add(partition.len_bytes).is_some());
        }
    }
}
