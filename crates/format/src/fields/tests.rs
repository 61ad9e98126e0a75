//! Tables of fields against the parsers.

use super::*;
use crate::{Feature, Features, Superblock};

#[test]
fn fields_of_a_table_do_not_overlap_and_are_found() {
    for table in [
        SUPERBLOCK,
        INODE,
        JOURNAL,
        group_fields(32),
        group_fields(64),
    ] {
        for (at, field) in table.iter().enumerate() {
            assert_eq!(find(table, field.name), Some(field));
            assert!(table[at + 1..].iter().all(|other| other.name != field.name));
            // Bytes with space for the extra fields of an inode.
            let mut clear = vec![0; 1024];
            if table == INODE {
                clear[0x80] = 32;
            }
            let mut bytes = clear.clone();
            let value = match field.form {
                Form::Text(len) => Value::Text(vec![b'x'; len]),
                Form::Uuid => Value::Uuid([7; 16]),
                Form::Words(count) => Value::Words(vec![u32::MAX; count]),
                _ => Value::Number(u64::MAX >> (64 - field.bits().unwrap())),
            };
            field.set(&mut bytes, &value).unwrap();
            assert_eq!(field.get(&bytes), Some(value));
            for other in table.iter().filter(|other| *other != field) {
                assert_eq!(
                    other.get(&bytes),
                    other.get(&clear),
                    "{} and {}",
                    field.name,
                    other.name
                );
            }
            assert_eq!(field.get(&bytes[..field.end() - 1]), None);
        }
    }
    assert_eq!(find(SUPERBLOCK, "s_magic").unwrap().at, 0x38);
    assert_eq!(find(INODE, "i_mode").unwrap().at, 0);
    assert_eq!(find(INODE, "nothing"), None);
}

#[test]
fn attributes_behind_the_extra_fields_are_no_field() {
    let (projid, size) = (
        find(INODE, "projid").unwrap(),
        find(INODE, "extra_isize").unwrap(),
    );
    let mut bytes = [0; 256];
    assert_eq!(size.set(&mut bytes, &Value::Number(28)), Ok(()));
    assert_eq!(projid.get(&bytes), None);
    assert_eq!(
        projid.set(&mut bytes, &Value::Number(7)),
        Err(FieldError::Outside)
    );
    assert_eq!(
        find(INODE, "crtime").unwrap().get(&bytes),
        Some(Value::Number(0))
    );
    assert_eq!(size.set(&mut bytes, &Value::Number(32)), Ok(()));
    assert_eq!(projid.set(&mut bytes, &Value::Number(7)), Ok(()));
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let mut bytes = [0; 1024];
    let mut set = |name, value| find(SUPERBLOCK, name).unwrap().set(&mut bytes, &value);
    assert_eq!(
        set("mnt_count", Value::Number(65_536)),
        Err(FieldError::TooLarge)
    );
    assert_eq!(
        set("mtime", Value::Number(1 << 40)),
        Err(FieldError::TooLarge)
    );
    assert_eq!(set("uuid", Value::Number(1)), Err(FieldError::OtherKind));
    assert_eq!(
        set("volume_name", Value::Text(vec![b'a'; 17])),
        Err(FieldError::TooLarge)
    );
    assert_eq!(set("mnt_count", Value::Number(65_535)), Ok(()));
}

#[test]
fn the_superblock_is_as_it_is_parsed() {
    let mut bytes = Superblock::blank().to_bytes();
    let mut set = |name, value| {
        find(SUPERBLOCK, name)
            .unwrap()
            .set(&mut bytes, &value)
            .unwrap()
    };
    set("feature_incompat", Value::Number(0x80));
    set("blocks_count", Value::Number(0x1_2345_6789));
    set("wtime", Value::Number(0x2_0000_0001));
    set("mnt_count", Value::Number(9));
    let disk = Superblock::parse_unverified(&bytes).unwrap();
    assert_eq!(
        (disk.blocks_count, disk.wtime),
        (0x1_2345_6789, 0x2_0000_0001)
    );
    assert_eq!(disk.mnt_count, 9);
}

#[test]
fn a_sealed_journal_superblock_is_sound() {
    let mut disk = crate::jbd2::Superblock::new(1024, 4096, 1, [3; 16]);
    disk.incompat = crate::jbd2::INCOMPAT_CSUM_V3;
    let mut bytes = disk.encode();
    let field = find(JOURNAL, "sequence").unwrap();
    field.set(&mut bytes, &Value::Number(99)).unwrap();
    assert!(crate::jbd2::Superblock::parse(&bytes).is_err());
    seal_journal(&mut bytes);
    let parsed = crate::jbd2::Superblock::parse(&bytes).unwrap();
    assert_eq!(parsed.sequence, crate::Tid(99));
}

#[test]
fn a_sealed_superblock_is_as_it_is_written() {
    let mut disk = Superblock::blank();
    disk.set_features(Features::of(&[Feature::METADATA_CSUM]));
    let wanted = disk.to_bytes();
    let mut bytes = wanted;
    bytes[0x3FC..].fill(7);
    seal_superblock(&mut bytes);
    assert_eq!(bytes, wanted);
}
