//! Values of a table: numbers, types, names, attributes.

use uuid::{Uuid, uuid};

use super::problem::Problem;
use super::{Label, PartitionType, SECTOR, SECTORS_MAX};
use crate::PartitionKind;

/// "Linux filesystem data", as the words of sfdisk name it.
pub(super) const LINUX: Uuid = uuid!("0FC63DAF-8483-4772-8E79-3D69D8477DE4");
const ROOT_X86_64: Uuid = uuid!("4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709");
const ROOT_ARM64: Uuid = uuid!("B921B045-1DF0-41C3-AF44-4C6F280D3FAE");
/// The types by the words of sfdisk, by its names of them, and by those of `--partition-type`.
const GPT_KINDS: [(&[&str], Uuid); 12] = [
    (&["l", "linux", "linux filesystem"], LINUX),
    (
        &["u", "uefi", "efi system"],
        uuid!("C12A7328-F81F-11D2-BA4B-00A0C93EC93B"),
    ),
    (
        &["s", "swap", "linux swap"],
        uuid!("0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"),
    ),
    (
        &["h", "home", "linux home"],
        uuid!("933AC7E1-2EB4-4F13-B844-0E14E2AEF915"),
    ),
    (
        &["r", "raid", "linux raid"],
        uuid!("A19D880F-05FC-4D3B-A006-743F0F84911E"),
    ),
    (
        &["v", "lvm", "linux lvm"],
        uuid!("E6D6D379-F507-44C2-A23C-238F2A3DF928"),
    ),
    (&["root-x86-64", "linux root (x86-64)"], ROOT_X86_64),
    (&["root-arm64", "linux root (arm-64)"], ROOT_ARM64),
    (
        &["linux extended boot"],
        uuid!("BC13C2FF-59E6-4262-A352-B275FD6F7172"),
    ),
    (
        &["linux variable data"],
        uuid!("4D21B016-B534-45C2-A9FB-5C16E091FD2D"),
    ),
    (
        &["bios boot"],
        uuid!("21686148-6449-6E6F-744E-656564454649"),
    ),
    (
        &["microsoft basic data"],
        uuid!("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"),
    ),
];
/// Type of a Linux partition in an MBR.
pub(super) const DOS_LINUX: u8 = 0x83;
const DOS_KINDS: [(&[&str], u8); 5] = [
    (&["l", "linux"], DOS_LINUX),
    (&["u", "uefi"], 0xef),
    (&["s", "swap"], 0x82),
    (&["r", "raid"], 0xfd),
    (&["v", "lvm"], 0x8e),
];
/// Types of an MBR that are no partition here: none, extended ones, and that of a GPT.
const DOS_OTHERS: [u8; 5] = [0x00, 0x05, 0x0f, 0x85, 0xee];
/// Units of the name in an entry, in UTF-16.
const NAME_UNITS: usize = 36;
/// Bits of attributes that depend on the type.
const OWN_BITS: std::ops::RangeInclusive<u32> = 48..=63;
/// Most bytes of the grain.
const GRAIN_MAX: u64 = 1 << 30;

pub(super) fn root(kind: PartitionKind) -> Uuid {
    match kind {
        PartitionKind::Linux => LINUX,
        PartitionKind::RootX86_64 => ROOT_X86_64,
        PartitionKind::RootArm64 => ROOT_ARM64,
    }
}

/// A number of sectors without a letter.
pub(super) fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.filter(|number| *number <= SECTORS_MAX)
}

/// A number, and the bytes of its unit: `K`, `M`, `G`, `T` or those with `iB`; `None`: no letter.
fn with_unit(text: &str) -> Option<(u64, Option<u64>)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(digits);
    let bits = match unit.to_ascii_lowercase().as_str() {
        "" => return Some((number(digits)?, None)),
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return None,
    };
    Some((number(digits)?, Some(1 << bits)))
}

/// A number of sectors, or of bytes with a letter behind it.
pub(super) fn sectors(text: &str) -> Option<u64> {
    let (number, unit) = with_unit(text)?;
    let sectors = number.checked_mul(unit.map_or(1, |bytes| bytes / SECTOR));
    sectors.filter(|sectors| *sectors <= SECTORS_MAX)
}

/// A number of bytes, as sectors.
pub(super) fn grain(text: &str) -> Option<u64> {
    let (number, unit) = with_unit(text)?;
    let bytes = number.checked_mul(unit.unwrap_or(1))?;
    let is_whole = bytes.is_multiple_of(SECTOR) && (SECTOR..=GRAIN_MAX).contains(&bytes);
    is_whole.then_some(bytes / SECTOR)
}

pub(super) fn guid(text: &str) -> Option<Uuid> {
    // The crate takes other forms too.
    let is_usual = text.len() == uuid::fmt::Hyphenated::LENGTH;
    Uuid::try_parse(text).ok().filter(|_| is_usual)
}

/// The identity of a disk with an MBR.
pub(super) fn disk_id(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x")?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

const NOT_EXTENDED: &str = "a type that is made here; extended partitions are not";

pub(super) fn kind(label: Label, text: &str) -> Result<PartitionType, Problem> {
    let word = text.to_ascii_lowercase();
    let has = |words: &&[&str]| words.contains(&word.as_str());
    let wrong = |wanted| Problem::Value {
        value: text.to_owned(),
        wanted,
    };
    match label {
        Label::Gpt(_) => {
            let named = GPT_KINDS.iter().find(|(words, _)| has(words));
            let kind = named.map(|(_, kind)| *kind).or_else(|| guid(text));
            let kind = kind.filter(|kind| !kind.is_nil());
            kind.map(PartitionType::Gpt).ok_or_else(|| {
                wrong(
                    "a type: a GUID, linux, uefi, swap, home, raid, lvm, root-x86-64, root-arm64, \
                     or one of a few names that sfdisk --list-types has",
                )
            })
        }
        // For sfdisk, E and X are extended partitions, while e is a number.
        Label::Dos(_) if ["E", "X"].contains(&text) => Err(wrong(NOT_EXTENDED)),
        Label::Dos(_) => {
            let named = DOS_KINDS.iter().find(|(words, _)| has(words));
            let digits = word.strip_prefix("0x").unwrap_or(&word);
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u8::from_str_radix(digits, 16).ok().filter(|_| is_hex);
            let kind = named.map(|(_, kind)| *kind).or(number);
            let kind = kind.ok_or_else(|| {
                wrong("a type: two digits in hex, linux, uefi, swap, raid or lvm")
            })?;
            if DOS_OTHERS.contains(&kind) {
                Err(wrong(NOT_EXTENDED))
            } else {
                Ok(PartitionType::Dos(kind))
            }
        }
    }
}

pub(super) fn name(bytes: &[u8]) -> Result<String, Problem> {
    let wrong = |wanted| Problem::Value {
        value: String::from_utf8_lossy(bytes).into_owned(),
        wanted,
    };
    let name = std::str::from_utf8(bytes).map_err(|_| wrong("a name in UTF-8"))?;
    if name.contains('\0') || name.encode_utf16().count() > NAME_UNITS {
        return Err(wrong("a name of at most 36 characters"));
    }
    Ok(name.to_owned())
}

/// Names of attributes and bits from 48 on, separated by commas and spaces. `GUID:` stands before
/// bits.
pub(super) fn attributes(text: &str) -> Result<u64, Problem> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace());
    let mut bits = 0;
    for word in words.filter(|word| !word.is_empty()) {
        let bit = match word {
            "RequiredPartition" => Some(0),
            "NoBlockIOProtocol" => Some(1),
            "LegacyBIOSBootable" => Some(2),
            _ => {
                let digits = word.strip_prefix("GUID:").unwrap_or(word);
                let bit = number(digits).and_then(|bit| u32::try_from(bit).ok());
                bit.filter(|bit| OWN_BITS.contains(bit))
            }
        };
        let bit = bit.ok_or(Problem::Value {
            value: word.to_owned(),
            wanted: "an attribute: RequiredPartition, NoBlockIOProtocol, LegacyBIOSBootable, or \
                     GUID: and bits from 48 to 63",
        })?;
        bits |= 1 << bit;
    }
    Ok(bits)
}
