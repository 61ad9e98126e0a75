use super::*;
use std::time::Duration;
use uext4_format::Superblock;
use uext4_format::superblock::default_mount_option as bit;

fn parse(list: &str) -> Result<MountOptions> {
    MountOptions::default().parse(list)
}

#[test]
fn ext4_words_are_understood() {
    let options = parse("ro,errors=remount-ro,commit=30,grpid,nosuid,x-systemd.automount").unwrap();
    assert_eq!(options.access, Access::ReadOnly);
    assert_eq!(options.on_error, OnError::RemountReadOnly);
    assert_eq!(options.commit_interval, Duration::from_secs(30));
    assert_eq!(options.max_batch, Duration::from_millis(15));
    let none = parse("max_batch_time=0,min_batch_time=0").unwrap();
    assert_eq!(none.max_batch, Duration::ZERO);
    assert!(options.group_from_parent);
}

#[test]
fn what_is_not_there_is_refused_by_name_and_reason() {
    let cases = [
        ("frobnicate", "there is no option of this name"),
        ("commit=x", "not a number"),
        ("commit=2147484", "too large"),
        ("resuid=4294967295", "too large"),
        ("delalloc_memory=x", "not a number"),
        ("usrjquota=aquota.user", "quota"),
        ("inode_readahead_blks=x", "not a number"),
        ("min_batch_time=4294967296", "too large"),
        ("data_err=abort", "fails the write"),
        ("abort", "simulates a file system error"),
        ("max_batch_time=x", "not a number"),
        ("errors=explode", "remount-ro"),
    ];
    for (list, word) in cases {
        let error = parse(list).err().expect("must be refused").to_string();
        assert!(error.contains(word) && error.contains(list), "{error}");
    }
}

/// Words for the kernel's way of working.
#[test]
fn inert_words_are_accepted() {
    let list = "noblock_validity,init_itable,init_itable=10,inode_readahead_blks=32,\
                min_batch_time=100,dioread_lock,dioread_nolock,nodioread_nolock,debug,\
                warn_on_error";
    for word in list.split(',').chain([list]) {
        assert!(parse(word).is_ok(), "{word}");
    }
}

#[test]
fn later_words_win() {
    assert_eq!(
        parse("commit=0").unwrap().commit_interval,
        Duration::from_secs(5)
    );
    assert!(parse("nobarrier,barrier=1").unwrap().barrier);
    assert!(!parse("barrier=0").unwrap().barrier);
    let options = parse("nodelalloc,noauto_da_alloc,delalloc").unwrap();
    assert!(options.delalloc == Some(true) && !options.auto_da_alloc);
    assert!(parse("delalloc,nodelalloc").unwrap().delalloc == Some(false));
    assert!(!parse("auto_da_alloc=0").unwrap().auto_da_alloc);
    let options = parse("noatime,strictatime").unwrap();
    assert!(!options.no_atime && !options.relatime);
    let options = parse("sync,dirsync,lazytime,async").unwrap();
    assert!(!options.sync && options.dirsync && options.lazytime);
}

#[test]
fn the_superblock_asks_and_words_win() {
    let mut superblock = Superblock::blank();
    superblock.default_mount_opts =
        bit::BSDGROUPS | bit::NOBARRIER | bit::DISCARD | bit::JMODE_DATA;
    superblock.def_resuid = 7;
    superblock.def_resuid_hi = 1;
    superblock.mount_opts[..16].copy_from_slice(b"commit=9,minixdf");
    let wished = MountOptions::default().settled(&superblock).unwrap();
    assert_eq!(wished.data, DataMode::Ordered);
    let refused = parse("data=journal").and_then(|options| options.settled(&superblock));
    let refused = refused.err().expect("a word is no wish").to_string();
    assert!(refused.contains("data=journal"), "{refused}");
    let options = parse("data=ordered").unwrap().settled(&superblock).unwrap();
    assert!(options.group_from_parent && !options.barrier && options.discard && options.minix_df);
    assert_eq!(options.commit_interval, Duration::from_secs(9));
    assert_eq!(options.reserved_uid, Some(65543));
    let words = "data=ordered,nogrpid,barrier,nodiscard,bsddf,resuid=5,commit=3";
    let options = parse(words).unwrap().settled(&superblock).unwrap();
    assert!(!options.group_from_parent && options.barrier && !options.discard && !options.minix_df);
    assert_eq!(options.commit_interval, Duration::from_secs(3));
    assert_eq!(options.reserved_uid, Some(5));
}

#[test]
fn a_bad_string_of_the_superblock_is_left_out_as_a_whole() {
    let mut superblock = Superblock::blank();
    superblock.mount_opts[..17].copy_from_slice(b"commit=9,whatever");
    let options = MountOptions::default().settled(&superblock).unwrap();
    assert_eq!(options.commit_interval, Duration::from_secs(5));
}

#[test]
fn allocators_have_the_names_of_ext4_and_their_own() {
    let allocator = |list| parse(list).unwrap().allocator;
    assert_eq!(allocator(""), Allocator::FreespaceTree);
    assert_eq!(allocator("mb_optimize_scan=0"), Allocator::Linear);
    assert_eq!(
        allocator("allocator=linear,mb_optimize_scan=1"),
        Allocator::Optimized
    );
    assert_eq!(allocator("freespace_tree"), Allocator::FreespaceTree);
    assert_eq!(
        allocator("allocator=freespace-tree"),
        Allocator::FreespaceTree
    );
    for list in ["allocator=best", "cache_aggression=4", "mb_optimize_scan=2"] {
        assert!(parse(list).is_err(), "{list}");
    }
}

#[test]
fn allocation_has_the_words_of_ext4_and_of_the_patch_and_they_are_documented() {
    let all = "freespace_tree,frsp_cache_aggression=3,freespace_memory=4096,stripe=16,delalloc,\
               no_prefetch_block_bitmaps,noauto_da_alloc,discard";
    let options = parse(all).unwrap();
    assert_eq!(options.allocator, Allocator::FreespaceTree);
    assert_eq!(options.cache_aggression, 3);
    assert_eq!(options.freespace_memory_bytes, 4096);
    let sized = parse("freespace_memory=64M,extent_cache=3K,delalloc_memory=1T").unwrap();
    assert_eq!(sized.freespace_memory_bytes, 64 << 20);
    assert_eq!(sized.extent_cache_bytes, 3 << 10);
    assert_eq!(sized.delalloc_memory_bytes, Some(1 << 40));
    for wrong in ["M", "-1K", "1MM", "1 M", "1k", "16777216T"] {
        assert!(
            parse(&format!("freespace_memory={wrong}")).is_err(),
            "{wrong}"
        );
    }
    assert_eq!(options.stripe_blocks, 16);
    assert_eq!(options.delalloc, Some(true));
    assert!(!options.prefetch_bitmaps && !options.auto_da_alloc && options.discard);
    let docs = include_str!("../../../../../docs/tunables.md");
    let names = all.split(',').map(|word| word.split('=').next().unwrap());
    let more = [
        "mb_optimize_scan",
        "allocator",
        "cache_aggression",
        "nodelalloc",
    ];
    for name in names
        .chain(more)
        .chain(crate::ops::filesystem::Filesystem::TUNABLES)
    {
        assert!(
            docs.contains(&format!("`{name}")),
            "not in docs/tunables.md: {name}"
        );
    }
}

#[test]
fn options_of_trees_are_refused_where_there_are_none() {
    let superblock = Superblock::blank();
    for (list, is_good) in [
        (
            "freespace_tree,cache_aggression=3,freespace_memory=1M",
            true,
        ),
        ("allocator=linear,cache_aggression=1", true),
        ("cache_aggression=3,freespace_memory=1M", true),
        ("allocator=linear,cache_aggression=3", false),
        ("mb_optimize_scan=1,freespace_memory=1M", false),
        ("freespace_tree,freespace_memory=1M,allocator=linear", false),
    ] {
        let settled = parse(list).unwrap().settled(&superblock);
        assert_eq!(settled.is_ok(), is_good, "{list}");
    }
}

#[test]
fn every_word_of_the_table_is_taken_and_every_other_refused() {
    let mut all = Vec::new();
    for help in MountOptions::help() {
        assert!(!help.about.is_empty() && !help.forms.is_empty());
        let is_refused = help.section.contains("refused");
        for form in &help.forms {
            let (name, shown) = form.split_once('=').unwrap_or((form, ""));
            let word = match shown {
                "" => form.replace("...", "anything"),
                "..." => format!("{name}=anything"),
                "0" | "none" | "never" | "ignore" => form.clone(),
                "FILE" => format!("{name}=/dev/sdb"),
                shown if shown.contains('|') => {
                    format!("{name}={}", shown.split('|').next().unwrap())
                }
                _ => format!("{name}=3"),
            };
            match parse(&word) {
                Ok(_) => assert!(!is_refused, "{word} is taken"),
                Err(error) => {
                    assert!(is_refused, "{word}: {error}");
                    assert!(
                        !error.to_string().contains("no option of this name"),
                        "{error}"
                    );
                }
            }
            all.push(form.clone());
        }
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "a form stands there twice");
}
