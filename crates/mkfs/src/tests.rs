//! Compares file systems with those of mke2fs for the same options, and checks them with e2fsck.

use std::path::Path;

use uext4_device::{FileDevice, MemDevice};
use uext4_format::GroupNr;
use uext4_testkit::oracle;
use uext4_testkit::rng::Rng;

use super::*;

const MIB: u64 = 1 << 20;

/// One file system: size, arguments for mke2fs, the same options for this library.
struct Case {
    size_bytes: u64,
    args: &'static [&'static str],
    features: &'static str,
    options: fn(&mut MkfsOptions),
}

/// Features of mke2fs's upstream default, which a distribution's configuration may lack.
const UPSTREAM: &str = "metadata_csum_seed,orphan_file";

fn case(
    mib: u64,
    args: &'static [&'static str],
    features: &'static str,
    options: fn(&mut MkfsOptions),
) -> Case {
    Case {
        size_bytes: mib * MIB,
        args,
        features,
        options,
    }
}

fn make(path: &Path, case: &Case, preset: Preset) -> MkfsReport {
    let device = FileDevice::create(path, case.size_bytes).expect("scratch file");
    let mut options = MkfsOptions::new(preset);
    options.contents = DeviceContents::Zeroed;
    options
        .features
        .apply_list(case.features)
        .expect("known features");
    (case.options)(&mut options);
    format(&device, &options).expect(case.features)
}

fn reference(path: &Path, case: &Case, preset: Preset) {
    let kind = match preset {
        Preset::Ext2 => "ext2",
        Preset::Ext3 => "ext3",
        Preset::Ext4 => "ext4",
    };
    let upstream = if preset == Preset::Ext4 { UPSTREAM } else { "" };
    let features = [upstream, case.features].join(",");
    let features = features.trim_matches(',');
    let mut args = vec!["-t", kind];
    if !features.is_empty() {
        args.extend(["-O", features]);
    }
    args.extend(case.args);
    let file = std::fs::File::create(path).expect("scratch file");
    file.set_len(case.size_bytes).expect("sparse file");
    let program = oracle::Program::new("mke2fs").expect("mke2fs");
    program
        .args(["-q", "-F"])
        .args(args)
        .arg(path)
        .run_ok()
        .expect("mke2fs");
}

/// Lines of dumpe2fs that must be equal.
const SAME: &[&str] = &[
    "Filesystem revision #",
    "Filesystem flags",
    "Default mount options",
    "Filesystem state",
    "Errors behavior",
    "Inode count",
    "Block count",
    "Reserved block count",
    "Overhead clusters",
    "Free blocks",
    "Free inodes",
    "First block",
    "Block size",
    "Fragment size",
    "Cluster size",
    "Group descriptor size",
    "Reserved GDT blocks",
    "Blocks per group",
    "Clusters per group",
    "Inodes per group",
    "Inode blocks per group",
    "Flex block group size",
    "RAID stride",
    "RAID stripe width",
    "Maximum mount count",
    "Check interval",
    "First inode",
    "Inode size",
    "Required extra isize",
    "Desired extra isize",
    "Journal inode",
    "Default directory hash",
    "Journal backup",
    "Orphan file inode",
    "User quota inode",
    "Group quota inode",
    "Project quota inode",
    "Journal features",
    "Total journal size",
    "Total journal blocks",
    "Fast commit length",
    "Journal sequence",
    "Journal start",
    "First meta block group",
    "Backup block groups",
    "MMP update interval",
    "Character encoding",
];

fn compare(case: &Case, preset: Preset) {
    let name = format!(
        "{preset:?} {} bytes {:?} {}",
        case.size_bytes, case.args, case.features
    );
    let dir = oracle::scratch_dir().expect("scratch");
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    make(&ours, case, preset);
    reference(&theirs, case, preset);
    let (our, their) = (oracle::dumpe2fs(&ours), oracle::dumpe2fs(&theirs));
    let (our, their) = (our.expect("ours"), their.expect("theirs"));
    let sorted = |text: &str| {
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        words.sort();
        words
    };
    let features = "Filesystem features";
    let our_features = sorted(our.text(features).expect("features"));
    assert_eq!(
        our_features,
        sorted(their.text(features).expect("features")),
        "{name}"
    );
    let mut differences = Vec::new();
    for label in SAME {
        let (our, their) = (our.0.get(*label), their.0.get(*label));
        // mke2fs starts bitmaps and tables in their own clusters; this library packs them.
        let packed = ["Overhead clusters", "Free blocks"].contains(label);
        if our != their && !(packed && case.features.contains("bigalloc")) {
            differences.push(format!("{label}: ours {our:?}, mke2fs {their:?}"));
        }
    }
    assert!(
        differences.is_empty(),
        "{name}:\n{}",
        differences.join("\n")
    );
    oracle::assert_clean(&ours);
}

#[test]
fn ext4_of_many_sizes() {
    for mib in [8, 40, 200, 511, 512, 1000, 5000, 40_000, 200_000] {
        compare(&case(mib, &[], "", |_| {}), Preset::Ext4);
    }
    compare(&case(2, &[], "", |_| {}), Preset::Ext4);
}

/// The usage types `big` and `huge` of mke2fs; large blocks keep the number of groups small.
#[test]
fn ext4_of_huge_sizes() {
    for tib in [3, 5, 17] {
        let blocks = |o: &mut MkfsOptions| o.block_size = Some(65536);
        compare(&case(tib << 20, &["-b", "65536"], "", blocks), Preset::Ext4);
    }
}

/// The same with the usual block size: 139,264 groups.
#[test]
#[ignore = "slow: cargo test -p uext4-mkfs huge_sizes_in_blocks -- --ignored, TMPDIR in memory"]
fn ext4_of_huge_sizes_in_blocks_of_4_kib() {
    let blocks = |o: &mut MkfsOptions| o.block_size = Some(4096);
    compare(&case(17 << 20, &["-b", "4096"], "", blocks), Preset::Ext4);
}

#[test]
fn ext2_and_ext3() {
    for preset in [Preset::Ext2, Preset::Ext3] {
        compare(&case(100, &[], "", |_| {}), preset);
        compare(&case(2000, &[], "", |_| {}), preset);
        compare(
            &case(300, &["-I", "128"], "", |o| o.inode_size = Some(128)),
            preset,
        );
    }
}

#[test]
fn block_sizes() {
    compare(
        &case(600, &["-b", "1024"], "", |o| o.block_size = Some(1024)),
        Preset::Ext4,
    );
    compare(
        &case(300, &["-b", "2048"], "", |o| o.block_size = Some(2048)),
        Preset::Ext4,
    );
    compare(
        &case(300, &["-b", "4096"], "", |o| o.block_size = Some(4096)),
        Preset::Ext4,
    );
    compare(
        &case(900, &["-b", "16384"], "", |o| o.block_size = Some(16384)),
        Preset::Ext4,
    );
    compare(
        &case(900, &["-b", "65536"], "", |o| o.block_size = Some(65536)),
        Preset::Ext4,
    );
}

#[test]
fn layouts() {
    let same = |_: &mut MkfsOptions| {};
    compare(&case(700, &[], "^resize_inode,meta_bg", same), Preset::Ext4);
    compare(
        &case(300, &[], "^resize_inode,meta_bg,^flex_bg", same),
        Preset::Ext4,
    );
    compare(&case(300, &[], "sparse_super2", same), Preset::Ext4);
    compare(
        &case(300, &[], "sparse_super2,^resize_inode", same),
        Preset::Ext4,
    );
    compare(&case(300, &[], "^flex_bg", same), Preset::Ext4);
    compare(
        &case(300, &[], "^sparse_super,^resize_inode", same),
        Preset::Ext4,
    );
    compare(
        &case(300, &["-G", "4"], "", |o| o.groups_per_flex = 4),
        Preset::Ext4,
    );
    compare(
        &case(900, &["-g", "8192"], "", |o| {
            o.blocks_per_group = Some(8192)
        }),
        Preset::Ext4,
    );
    compare(&case(300, &[], "^64bit", same), Preset::Ext4);
}

#[test]
fn checksums() {
    let same = |_: &mut MkfsOptions| {};
    compare(
        &case(300, &[], "^metadata_csum,^metadata_csum_seed", same),
        Preset::Ext4,
    );
    compare(
        &case(
            300,
            &[],
            "^metadata_csum,^metadata_csum_seed,uninit_bg",
            same,
        ),
        Preset::Ext4,
    );
    compare(&case(300, &[], "^metadata_csum_seed", same), Preset::Ext4);
    compare(
        &case(
            600,
            &[],
            "^metadata_csum,^metadata_csum_seed,uninit_bg,^64bit",
            same,
        ),
        Preset::Ext4,
    );
}

#[test]
fn clusters() {
    let same = |_: &mut MkfsOptions| {};
    compare(&case(300, &[], "bigalloc", same), Preset::Ext4);
    compare(&case(900, &[], "bigalloc", same), Preset::Ext4);
    compare(
        &case(900, &["-C", "8192"], "bigalloc", |o| {
            o.cluster_size = Some(8192)
        }),
        Preset::Ext4,
    );
}

#[test]
fn other_features() {
    let same = |_: &mut MkfsOptions| {};
    compare(
        &case(100, &[], "inline_data,ea_inode,large_dir,encrypt", same),
        Preset::Ext4,
    );
    compare(
        &case(100, &[], "casefold,verity,stable_inodes", same),
        Preset::Ext4,
    );
    compare(&case(100, &[], "mmp", same), Preset::Ext4);
    compare(&case(100, &[], "fast_commit", same), Preset::Ext4);
    compare(&case(100, &[], "quota", same), Preset::Ext4);
    compare(&case(600, &[], "project", same), Preset::Ext4);
    compare(
        &case(600, &[], "bigalloc,quota,project", same),
        Preset::Ext4,
    );
    let owner: fn(&mut MkfsOptions) = |o| o.root_owner = (70_000, 300);
    let args = &["-E", "root_owner=70000:300"];
    compare(&case(100, args, "quota,project", owner), Preset::Ext4);
    compare(
        &case(100, &[], "^has_journal,^orphan_file", same),
        Preset::Ext4,
    );
    compare(
        &case(
            100,
            &[],
            "^dir_index,^ext_attr,^huge_file,^dir_nlink,^extra_isize",
            same,
        ),
        Preset::Ext4,
    );
}

#[test]
fn numbers() {
    let journal: fn(&mut MkfsOptions) = |o| o.journal = JournalSize::Mib(8);
    compare(&case(300, &["-J", "size=8"], "", journal), Preset::Ext4);
    let words = &["-J", "size=8,fast_commit_size=1000,location=40000"];
    let placed: fn(&mut MkfsOptions) = |o| {
        o.journal = JournalSize::Mib(8);
        o.fast_commit_kib = Some(1000);
        o.journal_place = Some(JournalPlace::Block(40_000));
    };
    compare(&case(300, words, "fast_commit", placed), Preset::Ext4);
    let inodes: fn(&mut MkfsOptions) = |o| o.inodes = InodeCount::AtLeast(1234);
    compare(&case(300, &["-N", "1234"], "", inodes), Preset::Ext4);
    let ratio: fn(&mut MkfsOptions) = |o| o.inodes = InodeCount::BytesPerInode(2048);
    compare(&case(300, &["-i", "2048"], "", ratio), Preset::Ext4);
    // More inodes than blocks, as empty files need them: groups become smaller, also with a last
    // group that was too short before. mke2fs then reserves a share of the blocks before it.
    let many: fn(&mut MkfsOptions) =
        |o| (o.inodes, o.reserved_permyriad) = (InodeCount::BytesPerInode(2048), 0);
    for mib in [599, 600, 620, 700] {
        compare(
            &case(mib, &["-i", "2048", "-m", "0"], "", many),
            Preset::Ext4,
        );
    }
    let many: fn(&mut MkfsOptions) =
        |o| (o.inodes, o.reserved_permyriad) = (InodeCount::AtLeast(307_200), 0);
    compare(
        &case(600, &["-N", "307200", "-m", "0"], "", many),
        Preset::Ext4,
    );
    compare(
        &case(300, &["-m", "1"], "", |o| o.reserved_permyriad = 100),
        Preset::Ext4,
    );
    compare(
        &case(300, &["-I", "512"], "", |o| o.inode_size = Some(512)),
        Preset::Ext4,
    );
    let raid: fn(&mut MkfsOptions) = |o| (o.raid_stride, o.raid_stripe_width) = (4, 12);
    compare(
        &case(300, &["-E", "stride=4,stripe_width=12"], "", raid),
        Preset::Ext4,
    );
    let orphan: fn(&mut MkfsOptions) = |o| o.orphan_file_blocks = Some(64);
    compare(
        &case(300, &["-E", "orphan_file_size=64k"], "", orphan),
        Preset::Ext4,
    );
    // Small groups: the descriptors would fill a group, and are spread instead.
    let groups: fn(&mut MkfsOptions) = |o| o.blocks_per_group = Some(256);
    compare(&case(64, &["-g", "256"], "", groups), Preset::Ext4);
}

fn fixed(preset: Preset, features: &str) -> MkfsOptions {
    let mut options = MkfsOptions::new(preset);
    options
        .features
        .apply_list(features)
        .expect("known features");
    options.uuid = Some([0x42; 16]);
    options.hash_seed = Some([0x24; 16]);
    options.time = Some(1_700_000_000);
    options
}

#[test]
fn same_wishes_make_the_same_bytes() {
    let make = || {
        let device = MemDevice::new(64 * MIB);
        format(&device, &fixed(Preset::Ext4, "")).expect("fits");
        device.to_bytes()
    };
    assert!(make() == make(), "two runs differ");
}

/// On a device with old content, no reader gets stale bytes.
#[test]
fn used_devices() {
    let sets = [
        "",
        "^metadata_csum",
        "uninit_bg,^metadata_csum",
        "^flex_bg",
        "bigalloc",
        "mmp",
    ];
    for features in sets {
        for tables in [InodeTables::Lazy, InodeTables::Zero] {
            let dir = oracle::scratch_dir().expect("scratch");
            let path = dir.path().join("image");
            std::fs::write(&path, vec![0xA5; 40 * MIB as usize]).expect("scratch file");
            let device = FileDevice::open(&path, uext4_device::Access::ReadWrite).expect("open");
            let mut options = fixed(Preset::Ext4, features);
            options.inode_tables = tables;
            format(&device, &options).expect(features);
            drop(device);
            oracle::assert_clean(&path);
        }
    }
}

#[test]
fn odd_sizes() {
    for blocks in [
        60,
        200,
        2048,
        8193,
        8193 + 300,
        16_384 + 700,
        3 * 8192 + 1,
        50_001,
        65_537 + 4000,
    ] {
        for features in ["", "^flex_bg", "^resize_inode,meta_bg"] {
            let dir = oracle::scratch_dir().expect("scratch");
            let path = dir.path().join("image");
            let device = FileDevice::create(&path, blocks * 1024).expect("scratch file");
            let mut options = fixed(Preset::Ext4, features);
            options.contents = DeviceContents::Zeroed;
            options.blocks_count = Some(blocks);
            format(&device, &options).expect(features);
            drop(device);
            oracle::assert_clean(&path);
        }
    }
}

#[test]
fn sixty_tib() {
    let device = MemDevice::new(60 << 40);
    let mut options = fixed(Preset::Ext4, "^resize_inode,meta_bg");
    options.contents = DeviceContents::Zeroed;
    let report = format(&device, &options).expect("fits");
    assert_eq!(report.geometry.group_count, 491_520);
    assert!(
        device.resident_bytes() < 2 << 30,
        "{} bytes",
        device.resident_bytes()
    );
    // The group of a copy has 16 bits; mke2fs writes the largest value for groups above it.
    for (group, written) in [(59_049, 59_049), (177_147, u16::MAX)] {
        let block = report.geometry.superblock_block(GroupNr(group));
        let mut bytes = [0; 1024];
        let at = block.expect("a power of three").0 << report.geometry.block_bits;
        device.read_at(at, &mut bytes).expect("inside");
        let copy = Superblock::parse(&bytes).expect("a superblock");
        assert_eq!(copy.block_group_nr, written);
    }
}

#[test]
fn the_kernel_mounts_and_writes() {
    if !oracle::KernelMount::available_or_skip("mkfs::the_kernel_mounts_and_writes") {
        return;
    }
    for features in [
        "",
        "^metadata_csum,^orphan_file",
        "bigalloc",
        "^resize_inode,meta_bg",
    ] {
        let dir = oracle::scratch_dir().expect("scratch");
        let path = dir.path().join("image");
        let device = FileDevice::create(&path, 300 * MIB).expect("scratch file");
        let mut options = fixed(Preset::Ext4, features);
        options.contents = DeviceContents::Zeroed;
        format(&device, &options).expect(features);
        drop(device);
        let mount = oracle::KernelMount::new(&path, "rw").expect(features);
        for i in 0..200 {
            let file = mount.path().join(format!("file{i}"));
            std::fs::write(file, vec![i as u8; 10_000 + i * 100]).expect("the kernel writes");
        }
        mount.unmount().expect("unmount");
        oracle::assert_clean(&path);
    }
}

#[test]
fn impossible_wishes_are_refused() {
    let refuse = |size_bytes: u64, change: fn(&mut MkfsOptions)| {
        let device = MemDevice::new(size_bytes);
        let mut options = fixed(Preset::Ext4, "");
        change(&mut options);
        let error = format(&device, &options)
            .expect_err("impossible")
            .to_string();
        assert_eq!(
            device.resident_bytes(),
            0,
            "{error}: nothing may be written"
        );
        error
    };
    assert_eq!(refuse(0, |_| {}), "the device is too small");
    assert_eq!(refuse(16 << 10, |_| {}), "no space left for directories");
    assert_eq!(
        refuse(MIB, |o| o.block_size = Some(3000)),
        "a block size is a power of two from 1024 to 65536"
    );
    assert_eq!(
        refuse(MIB, |o| o.inode_size = Some(2048)),
        "an inode size is a power of two from 128 to the block size"
    );
    assert_eq!(
        refuse(MIB, |o| o.label = vec![b'x'; 17]),
        "a label has up to 16 bytes"
    );
    assert_eq!(
        refuse(MIB, |o| o.blocks_count = Some(u64::MAX)),
        "the device is too small"
    );
    assert_eq!(
        refuse(MIB, |o| o.groups_per_flex = 0),
        "the groups of a flexible group are a power of two"
    );
    let area: fn(&mut MkfsOptions) = |o| o.fast_commit_kib = Some(64);
    assert_eq!(
        refuse(64 * MIB, area),
        "an area of fast commits needs the feature fast_commit"
    );
    let place: fn(&mut MkfsOptions) = |o| o.journal_place = Some(JournalPlace::Byte(1 << 40));
    assert_eq!(
        refuse(64 * MIB, place),
        "the place of the journal is outside of the file system"
    );
    let journal: fn(&mut MkfsOptions) = |o| o.journal = JournalSize::Mib(9000);
    assert_eq!(
        refuse(64 * MIB, journal),
        "a journal has 1024 to 10240000 blocks, and at most half of the file system"
    );
    let inodes: fn(&mut MkfsOptions) = |o| o.inodes = InodeCount::AtLeast(u32::MAX);
    assert_eq!(refuse(64 * MIB, inodes), "too many inodes");
    assert_eq!(
        refuse(64 * MIB, |o| o.inodes = InodeCount::BytesPerInode(1023)),
        "there are at least 1024 bytes per inode"
    );
    assert_eq!(
        refuse(64 * MIB, |o| o.reserved_permyriad = 5001),
        "at most half of the blocks can be reserved"
    );
    let narrow: fn(&mut MkfsOptions) = |o| o.features = fixed(Preset::Ext4, "^64bit").features;
    assert_eq!(
        refuse(17 << 40, narrow),
        "more than 4294967295 blocks need the feature 64bit"
    );
    for size in [512, 3000, 32 << 20] {
        let device = MemDevice::new(64 * MIB);
        let mut options = fixed(Preset::Ext4, "bigalloc");
        (options.block_size, options.cluster_size) = (Some(1024), Some(size));
        assert_eq!(
            format(&device, &options)
                .expect_err("impossible")
                .to_string(),
            "a cluster size is a power of two, from one block to 16384 blocks and 512 MiB"
        );
    }
    for blocks in [0, 513] {
        let device = MemDevice::new(64 * MIB);
        let mut options = fixed(Preset::Ext4, "orphan_file");
        options.orphan_file_blocks = Some(blocks);
        let error = format(&device, &options).expect_err("impossible");
        assert_eq!(error.to_string(), "an orphan file has 1 to 512 blocks");
        assert_eq!(device.resident_bytes(), 0);
    }
}

/// A program that cannot make one of its inodes leaves no file system.
#[test]
fn a_failed_inode_leaves_no_superblock() {
    for fails in [false, true] {
        let device = MemDevice::new(16 * MIB);
        let options = MkfsOptions::new(Preset::Ext4);
        let mut plan = draft::plan(&options, 16 * MIB).expect("a plan");
        plan.identify(&options, [1; 16], [2; 16], 3)
            .expect("a UUID");
        let mut draft = Draft::new(plan, &options).expect("a draft");
        draft.allocate_group_metadata().expect("space for groups");
        draft.add_all().expect("space for the journal");
        let own = fails.then_some(Err(Error::TooSmall));
        let written = draft.write(&device, own.into_iter());
        assert_eq!(written.is_err(), fails);
        let mut bytes = [0; 1024];
        device.read_at(1024, &mut bytes).expect("reads");
        assert_eq!(Superblock::has_magic(&bytes), !fails);
    }
}

#[test]
fn external_journals() {
    for block_size in [1024, 4096] {
        let dir = oracle::scratch_dir().expect("scratch");
        let (log, path) = (dir.path().join("log"), dir.path().join("image"));
        let log_device = FileDevice::create(&log, 20 * MIB).expect("scratch file");
        let contents = DeviceContents::Unknown;
        let label = b"log".to_vec();
        let wishes = JournalDeviceOptions {
            block_size,
            uuid: None,
            label,
            time: None,
            contents,
        };
        let uuid = format_journal_device(&log_device, &wishes).expect("fits");

        let device = FileDevice::create(&path, 100 * MIB).expect("scratch file");
        let mut options = fixed(Preset::Ext4, "");
        options.contents = DeviceContents::Zeroed;
        options.block_size = Some(block_size);
        options.external_journal = Some(ExternalJournal {
            uuid,
            device_number: 0,
        });
        let report = format(&device, &options).expect("fits");
        add_journal_user(&log_device, report.superblock.uuid).expect("room");
        drop((device, log_device));

        let header = oracle::dumpe2fs(&log).expect("journal device");
        let users = header.text("Journal users").expect("a user");
        assert_eq!(users, "42424242-4242-4242-4242-424242424242");
        assert_eq!(
            header.number("Journal first block").expect("line"),
            if block_size == 1024 { 3 } else { 2 }
        );
        let program = oracle::Program::new("e2fsck").expect("e2fsck");
        program
            .args(["-fn", "-j"])
            .arg(&log)
            .arg(&path)
            .run_ok()
            .expect("clean");
    }
}

#[test]
fn impossible_external_journals_are_refused() {
    let wishes = |block_size, label: &[u8]| JournalDeviceOptions {
        block_size,
        uuid: None,
        label: label.to_vec(),
        time: None,
        contents: DeviceContents::Zeroed,
    };
    let device = MemDevice::new(16 * MIB);
    let refuse = |wishes| {
        let error = format_journal_device(&device, &wishes).expect_err("impossible");
        assert_eq!(device.resident_bytes(), 0, "{error}");
        error.to_string()
    };
    let size = "a block size is a power of two from 1024 to 65536";
    for block_size in [0, 512, 3000, 1 << 17] {
        assert_eq!(refuse(wishes(block_size, b"")), size);
    }
    assert!(refuse(wishes(65_536, b"")).starts_with("a journal has 1024 to"));
    assert_eq!(
        refuse(wishes(1024, &[b'x'; 17])),
        "a label has up to 16 bytes"
    );
    add_journal_user(&device, [7; 16]).expect_err("no superblock");
    format(&device, &fixed(Preset::Ext4, "")).expect("fits");
    let error = add_journal_user(&device, [7; 16]).expect_err("a file system");
    assert_eq!(error.to_string(), "the device holds no journal");
    format_journal_device(&device, &wishes(1024, b"")).expect("fits");
    for _ in 0..2 {
        add_journal_user(&device, [7; 16]).expect("its user");
    }
    let other = add_journal_user(&device, [8; 16]).expect_err("a second user");
    assert_eq!(
        other.to_string(),
        "the journal has another file system as its user"
    );
    remove_journal_user(&device, [7; 16]).expect("its user");
    add_journal_user(&device, [8; 16]).expect("no user");
}

/// The number of inodes has 32 bits, and mke2fs says how many that makes.
#[test]
fn most_inodes() {
    let size_bytes = 5 << 40;
    let dir = oracle::scratch_dir().expect("scratch");
    let path = dir.path().join("image");
    let file = std::fs::File::create(&path).expect("scratch file");
    file.set_len(size_bytes).expect("sparse file");
    let program = oracle::Program::new("mke2fs").expect("mke2fs");
    let program = program.args(["-n", "-F", "-t", "ext4", "-i", "1024"]);
    let said = program.arg(&path).run_ok().expect("mke2fs").all();
    let mut options = fixed(Preset::Ext4, "");
    options.inodes = InodeCount::BytesPerInode(1024);
    let (superblock, _) = sizing::plan(&options, size_bytes).expect("fits");
    let ours = format!("4k blocks and {} inodes", superblock.inodes_count);
    assert!(said.contains(&ours), "{ours}\n{said}");
}

/// Any options: a clean file system, or an error.
#[test]
fn random_wishes_make_clean_file_systems() {
    let mut rng = Rng::new(1);
    let mut below = |n: u64| rng.below(n);
    let switches = [
        "^has_journal,^orphan_file",
        "^flex_bg",
        "^resize_inode",
        "^resize_inode,meta_bg",
        "sparse_super2",
        "bigalloc",
        "^metadata_csum",
        "^metadata_csum,uninit_bg",
        "inline_data",
        "quota,project",
        "mmp",
        "^64bit",
        "fast_commit",
        "^huge_file",
        "^filetype",
        "^orphan_file",
    ];
    let dir = oracle::scratch_dir().expect("scratch");
    let mut made = 0;
    for round in 0..150 {
        let path = dir.path().join("image");
        let device = FileDevice::create(&path, 4096 + below(120 * MIB)).expect("scratch file");
        let mut options = fixed(Preset::Ext4, "");
        options.contents = DeviceContents::Zeroed;
        for _ in 0..below(4) {
            let list = switches[below(switches.len() as u64) as usize];
            options.features.apply_list(list).expect("known features");
        }
        options.block_size = Some(1024 << below(4));
        options.inode_size = Some(128 << below(3));
        options.groups_per_flex = 1 << below(7);
        options.inodes = match below(4) {
            0 => InodeCount::AtLeast(below(200_000) as u32),
            _ => InodeCount::BytesPerInode(1024 << below(8)),
        };
        if below(3) == 0 {
            options.blocks_per_group = Some(256 + 8 * below(4000) as u32);
        }
        if below(4) == 0 {
            options.journal = JournalSize::Blocks(1024 + below(4000) as u32);
        }
        let wishes = format!("round {round}: {} {options:?}", options.features);
        let result = format(&device, &options);
        drop(device);
        match result {
            Ok(_) => {
                made += 1;
                let verdict = oracle::e2fsck(&path).expect("e2fsck runs");
                assert!(verdict.is_clean(), "{wishes}\n{verdict:?}");
            }
            Err(error) => println!("{wishes}: {error}"),
        }
    }
    assert!(made > 50, "only {made} wishes could be met");
}
