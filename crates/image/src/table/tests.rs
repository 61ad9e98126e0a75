//! Tables that are read, refused and damaged.

use std::path::Path;

use uext4_testkit::rng::Rng;

use super::*;

fn parse(text: &str) -> Result<Table, Fault> {
    Table::parse("t", Path::new("dir"), text.as_bytes())
}

/// Starts and sizes, with a file system of 100 sectors and files of 7.
fn places(text: &str) -> Result<Vec<(u64, u64)>, String> {
    let table = parse(text).map_err(|fault| fault.to_string())?;
    let contents = table.lines.iter().map(|line| match line.contents {
        Contents::Zeroes => 0,
        Contents::FileSystem => 100,
        Contents::File(_) => 7,
    });
    let placed = table.lay_out(&contents.collect::<Vec<u64>>());
    let placed = placed.map_err(|fault| fault.to_string())?;
    Ok(placed.iter().map(|one| (one.start, one.sectors)).collect())
}

#[test]
fn a_dump_is_read() {
    let table = parse(
        "label: gpt
label-id: F1DE5DA8-2D67-40A5-8E67-8F1D7E4F0001
device: /dev/sda
unit: sectors
first-lba: 34
last-lba: 10485726
sector-size: 512

/dev/sda2 : start=        4096, size=        5000, type=linux, name=\"r\\x22\", content=build
# the boot loader
/dev/sda1 : start=2048, size=200, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, \
         attrs=\"RequiredPartition GUID:50,63\", content=\"a, b.img\"\r
",
    )
    .unwrap();
    let disk = uuid::uuid!("F1DE5DA8-2D67-40A5-8E67-8F1D7E4F0001");
    assert_eq!(table.label, Label::Gpt(Some(disk)));
    assert_eq!(
        (table.first, table.last, table.own()),
        (34, Some(10_485_726), 0)
    );
    let [own, esp] = &table.lines[..] else {
        panic!("{table:?}");
    };
    assert_eq!((own.number, own.name.as_str(), own.line), (2, "r\"", 9));
    let file = Contents::File("dir/a, b.img".into());
    assert_eq!((esp.number, esp.line, &esp.contents), (1, 11, &file));
    assert_eq!(esp.attributes, 1 | 1 << 50 | 1 << 63);
    assert_eq!(
        parse("label: gpt\ntype=U content=build").unwrap().lines[0].kind,
        esp.kind
    );
}

#[test]
fn places_are_those_of_sfdisk() {
    let gpt = |lines: &str| places(&format!("label: gpt\n{lines}"));
    let three = gpt("size=100K\ncontent=x\ncontent=build\nsize=1M");
    let expected = vec![(2048, 200), (4096, 7), (6144, 100), (8192, 2048)];
    assert_eq!(three, Ok(expected));
    // Without an end of the disk the largest gap is behind all earlier lines.
    let gaps = "start=8192 size=10\nsize=7000\ncontent=build";
    assert_eq!(gpt(gaps), Ok(vec![(8192, 10), (10240, 7000), (18432, 100)]));
    let ended = gpt(&format!("last-lba: 20000\n{gaps}"));
    assert_eq!(ended, Ok(vec![(8192, 10), (10240, 7000), (2048, 100)]));
    // In an MBR it is the first gap with space.
    let dos = places(&format!("label: dos\n{gaps}"));
    assert_eq!(dos, Ok(vec![(8192, 10), (10240, 7000), (2048, 100)]));
    // As much as possible ends at a multiple of the grain.
    let rest = gpt("content=build");
    assert_eq!(rest, Ok(vec![(2048, 100)]));
    let end = "last-lba: 40926\nstart=4M, size=1M\nsize=+\ncontent=build size=+";
    let end = places(&format!("label: gpt\n{end}"));
    assert_eq!(end, Ok(vec![(8192, 2048), (10240, 28672), (2048, 6144)]));
    let zeroes = places("label: gpt\nlast-lba: 9999\nfirst-lba: 64\ncontent=build\nname=x");
    assert_eq!(zeroes, Ok(vec![(2048, 100), (4096, 4096)]));
    let dos = places("label: dos\nstart=1 size=62\ncontent=build\nstart=1M size=4K");
    assert_eq!(
        dos.unwrap_err(),
        "t:4: start: the partition overlaps with partition 2"
    );
    let grain = places("label: gpt\ngrain: 4096\ncontent=build\ncontent=x");
    assert_eq!(grain, Ok(vec![(2048, 100), (2152, 7)]));
}

#[test]
fn a_refusal_names_line_and_key() {
    for (text, said) in [
        ("", "t: 0 lines have content=build"),
        ("label: gpt\nsize=1M", "t: content: 0 lines"),
        (
            "label: dos\nsize=1M,type=E\ncontent=build",
            "t:2: type: \"E\" is not a type that is made here",
        ),
        (
            "label: gpt\ncontent=build\n\ncontent=build",
            "t:4: content: 2 lines",
        ),
        (
            "content=build",
            "t:1: a header before the partitions says label:",
        ),
        (
            "label: sun\ncontent=build",
            "t:1: label: \"sun\" is not a kind",
        ),
        (
            "label: gpt\nlabel: gpt\ncontent=build",
            "t:2: label: it is given twice",
        ),
        (
            "label: gpt\ncontent=build\nunit: sectors",
            "t:3: unit: headers stand before",
        ),
        (
            "label: gpt\nunit: cylinders\ncontent=build",
            "t:2: unit: \"cylinders\" is not",
        ),
        (
            "label: gpt\nsector-size: 4096\ncontent=build",
            "t:2: sector-size: \"4096\" is not",
        ),
        (
            "label: gpt\ntable-length: 4\ncontent=build",
            "t:2: table-length: \"4\" is not",
        ),
        (
            "label: gpt\nfoo: 4\ncontent=build",
            "t:2: foo: there is no header of this name",
        ),
        (
            "label: gpt\nfirst-lba: 33\ncontent=build",
            "t:2: first-lba: \"33\" is not a sector",
        ),
        (
            "label: gpt\nlast-lba: 1000\ncontent=build",
            "t:2: last-lba: it is before the first",
        ),
        (
            "label: gpt\ngrain: 700\ncontent=build",
            "t:2: grain: \"700\" is not a number",
        ),
        (
            "label: dos\nlast-lba: 9\ncontent=build",
            "t:2: last-lba: only a GPT has it",
        ),
        (
            "label: dos\nlabel-id: 12\ncontent=build",
            "t:2: label-id: \"12\" is not 0x",
        ),
        (
            "label: gpt\nlabel-id: 0x12\ncontent=build",
            "t:2: label-id: \"0x12\" is not a GUID",
        ),
        (
            "label: gpt\nsize=1MB",
            "t:2: size: \"1MB\" is not a number of sectors",
        ),
        ("label: gpt\nsize=0", "t:2: size: \"0\" is not"),
        ("label: gpt\nstart=-1", "t:2: start: \"-1\" is not"),
        (
            "label: gpt\nsize=99999999999999999999",
            "t:2: size: \"99999999999999999999\" is not",
        ),
        (
            "label: gpt\nsize=9000000T",
            "t:2: size: \"9000000T\" is not",
        ),
        ("label: gpt\nsize", "t:2: size: the key has no value"),
        (
            "label: gpt\nsize=1M, size=2M",
            "t:2: size: it is given twice",
        ),
        (
            "label: gpt\n2048 4096 L",
            "t:2: 2048: there is no key of this name",
        ),
        ("label: gpt\n,,L", "t:2: L: there is no key of this name"),
        ("label: gpt\nid=83", "t:2: id: there is no key of this name"),
        (
            "label: gpt\nbootable",
            "t:2: bootable: it is a mark of label: dos; a GPT has attrs",
        ),
        (
            "label: dos\nname=x",
            "t:2: name: only a partition of a GPT has it",
        ),
        (
            "label: gpt\ntype=83",
            "t:2: type: \"83\" is not a type: a GUID, linux",
        ),
        (
            "label: dos\ntype=5",
            "t:2: type: \"5\" is not a type that is made here; extended",
        ),
        (
            "label: dos\ntype=883",
            "t:2: type: \"883\" is not a type: two digits",
        ),
        (
            "label: gpt\nattrs=47",
            "t:2: attrs: \"47\" is not an attribute",
        ),
        ("label: gpt\nuuid=x", "t:2: uuid: \"x\" is not a GUID"),
        (
            "label: gpt\nname=1234567890123456789012345678901234567",
            "is not a name of at most 36",
        ),
        (
            "label: gpt\nname=\\xff",
            "t:2: name: \"\u{fffd}\" is not a name in UTF-8",
        ),
        (
            "label: gpt\nname=\"x",
            "t:2: \"\\\"x\" is not a value with a quote at both ends",
        ),
        (
            "label: gpt\n200 : size=1M",
            "t:2: a table of this kind has partitions 1 to 128",
        ),
        (
            "label: gpt\n0 : size=1M",
            "t:2: a table of this kind has partitions 1 to 128",
        ),
        (
            "label: gpt\n1: size=1\n1: size=1",
            "t:3: a table of this kind has partitions 1",
        ),
        (
            "label: dos\nsize=1\nsize=1\nsize=1\nsize=1\ncontent=build",
            "t:6: a table of this",
        ),
        (
            "label: gpt\ncontent=\"\"",
            "t:2: content: \"\" is not the path of a file, or build",
        ),
        (
            "label: gpt\ncontent=build\ntype=L",
            "t:3: size: without it the partition has all",
        ),
        ("label: gpt\ncontent=build\nsize=+", "t:3: size: without it"),
        (
            "label: gpt\ncontent=build start=9",
            "t:2: start: the first usable sector is 2048",
        ),
        (
            "label: gpt\nsize=2M\ncontent=build start=2M",
            "t:3: start: the partition overlaps",
        ),
        (
            "label: gpt\nlast-lba: 3000\ncontent=build\nsize=1M",
            "t:4: size: there are no 2048 free",
        ),
    ] {
        let fault = places(text).err().unwrap_or_else(|| panic!("{text}"));
        assert!(fault.contains(said), "{text:?}: {fault}");
    }
    let same = "uuid=F1DE5DA8-2D67-40A5-8E67-8F1D7E4F0001";
    let twice = places(&format!(
        "label: gpt\n{same} size=1M\n{same}\ncontent=build"
    ));
    assert_eq!(
        twice.unwrap_err(),
        "t:3: uuid: another partition has the same one"
    );
    let bytes = Table::parse("t", Path::new(""), b"label: gpt\nname=\xff").unwrap_err();
    assert_eq!(bytes.to_string(), "t:2: the table is no text in UTF-8");
}

const VALID: &str = "label: gpt
label-id: F1DE5DA8-2D67-40A5-8E67-8F1D7E4F0001
first-lba: 64
last-lba: 10485726
grain: 4096

3 : start=64, size=1M, type=U, name=\"e\\x22sp\", attrs=\"RequiredPartition,GUID:48\"
size=1G, type=\"Linux swap\", uuid=F1DE5DA8-2D67-40A5-8E67-8F1D7E4F0002
content=build, size=2G
content=\"esp.img\", start=4G
size=+
";

/// What is accepted has places that share no sector, and what is refused has a line.
#[test]
fn damaged_tables_are_placed_or_refused() {
    let words = [
        "=",
        ",",
        "\"",
        ":",
        "\n",
        "+",
        "0",
        "18446744073709551615",
        "T",
        "start=",
        "size=",
        "content=build",
        "label: dos\n",
        "4294967295",
        "\\x00",
        "é",
        "#",
        "-1",
        "uuid=",
    ];
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let mut text = VALID.as_bytes().to_vec();
        for _ in 0..=rng.below(2) {
            let at = rng.below(text.len() as u64) as usize;
            let most = if rng.chance(20) { 12 } else { 2 };
            let end = (at + rng.below(most) as usize).min(text.len());
            let new = match rng.below(4) {
                0 => Vec::new(),
                1 => text[at..end].repeat(2),
                2 => rng.bytes(2),
                _ => rng.pick(&words).as_bytes().to_vec(),
            };
            text.splice(at..end, new);
        }
        let lines = text.split(|byte| *byte == b'\n').count();
        let table = Table::parse("t", Path::new(""), &text);
        let placed = table.and_then(|table| {
            let contents = vec![9; table.lines.len()];
            let placed = table.lay_out(&contents)?;
            let room = table.room(&placed);
            assert!(room > 0, "seed {seed}");
            Ok((table.end(), placed))
        });
        match placed {
            Ok((end, mut placed)) => {
                accepted += 1;
                placed.sort_by_key(|extent| extent.start);
                assert!(placed.iter().all(|one| one.sectors > 0 && one.end() <= end));
                let apart = placed.windows(2).all(|pair| pair[0].end() <= pair[1].start);
                assert!(apart, "seed {seed}: {placed:?}");
            }
            Err(fault) => {
                refused += 1;
                let is_whole = matches!(fault.problem, Problem::FileSystems { count: 0 });
                let has_line = (1..=lines).contains(&fault.line) || is_whole;
                assert!(has_line, "seed {seed}: {fault}");
            }
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} {refused}");
}
