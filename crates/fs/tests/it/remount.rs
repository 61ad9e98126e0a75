//! Remounts: state of the device in between, and changeable options.

use crate::worker::{self, Model, Worker};
use crate::{crashed, image};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use uext4::device::{Fault, Faulty, MemDevice, Recorder};
use uext4::format::Feature;
use uext4::{
    Access, Caller, Error, Filesystem, InodeRef, MountOptions, RemountError, SetAttr, SetTime,
    Timestamp, WriteContext,
};

fn file_with(fs: &Filesystem, name: &[u8], data: &[u8]) -> uext4::Result<InodeRef> {
    let file = fs.create(&fs.root()?, name, 0o644, &Caller::root())?;
    fs.write(&file, 0, data, &WriteContext::ROOT)?;
    Ok(file)
}

fn read(fs: &Filesystem, name: &[u8]) -> Vec<u8> {
    let root = fs.root().unwrap();
    let file = fs.lookup(&root, name, &Caller::root()).unwrap();
    let mut data = vec![0; 64];
    let len = fs.read(&file, 0, &mut data).unwrap();
    data.truncate(len);
    data
}

fn says_clean(device: &MemDevice) -> bool {
    let superblock = uext4::read_superblock(device, None).unwrap();
    !superblock.features().has(Feature::RECOVER)
}

/// Makes a file durable and cuts the power.
fn leave_dirty(device: &Arc<MemDevice>) {
    let fs = image::mount(device);
    drop(file_with(&fs, b"durable", b"promised").unwrap());
    fs.sync().unwrap();
    fs.abandon();
    assert!(!says_clean(device));
}

#[track_caller]
fn assert_refused(answer: uext4::Result<()>, why: &RemountError) {
    match answer {
        Err(Error::Remount(found)) => assert_eq!(found, *why),
        other => panic!("{other:?} instead of: {why}"),
    }
}

#[test]
fn read_only_and_back_again_and_again() {
    for shape in [&[][..], &["-O", "^has_journal"], &["-b", "1024"]] {
        let device = image::mke2fs(48, shape);
        let fs = image::mount(&device);
        for round in 0..3 {
            let name = format!("round {round}").into_bytes();
            drop(file_with(&fs, &name, &name).unwrap());
            fs.remount("ro").unwrap();
            assert!(says_clean(&device));
            image::assert_clean(&device);
            let before = device.to_bytes();
            let late = file_with(&fs, b"late", b"");
            assert!(matches!(late, Err(Error::ReadOnly)), "{late:?}");
            assert_eq!(read(&fs, &name), name);
            fs.sync().unwrap();
            assert!(device.to_bytes() == before, "read-only, and written");
            fs.remount("rw").unwrap();
            fs.remount("rw").expect("again it changes nothing");
        }
        fs.unmount().unwrap();
        image::assert_clean(&device);
        let fs = image::mount(&device);
        assert_eq!(read(&fs, b"round 2"), b"round 2", "{shape:?}");
    }
}

#[test]
fn writers_go_on_after_each_remount() {
    let device = image::ext4(96);
    let fs = Arc::new(Filesystem::mount(device.clone(), MountOptions::default()).unwrap());
    let done = Arc::new(AtomicBool::new(false));
    let total = Arc::new(AtomicU64::new(0));
    let run = |id| {
        let (fs, done, total) = (fs.clone(), done.clone(), total.clone());
        thread::spawn(move || {
            let mut written = 0u64;
            while !done.load(Ordering::SeqCst) {
                let name = format!("{id} {written}").into_bytes();
                match file_with(&fs, &name, &name) {
                    Ok(_) => {
                        total.fetch_add(1, Ordering::SeqCst);
                        written += 1;
                        // The remounts take as long as they take: few files exist at a time. One
                        // that a remount keeps from its removal stays.
                        if let Some(old) = written.checked_sub(100) {
                            let old = format!("{id} {old}").into_bytes();
                            let _ = fs.unlink(&fs.root().unwrap(), &old, &Caller::root());
                        }
                    }
                    Err(Error::ReadOnly) => thread::yield_now(),
                    // Created before the remount but not written.
                    Err(Error::Exists) => written += 1,
                    Err(other) => panic!("{other}"),
                }
            }
        })
    };
    let writers: Vec<_> = (0..4).map(run).collect();
    for _ in 0..4 {
        let before = total.load(Ordering::SeqCst);
        while total.load(Ordering::SeqCst) < before + 20 {
            thread::yield_now();
        }
        fs.remount("ro").unwrap();
        assert!(says_clean(&device));
        image::assert_clean(&device);
        fs.remount("rw").unwrap();
        fs.sync().unwrap();
    }
    done.store(true, Ordering::SeqCst);
    writers.into_iter().for_each(|w| w.join().unwrap());
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn a_replay_in_memory_becomes_a_real_one() {
    for shape in [&[][..], &["-b", "1024"], &["-O", "^64bit,^metadata_csum"]] {
        let device = image::mke2fs(48, shape);
        leave_dirty(&device);
        let before = device.to_bytes();
        let fs = Filesystem::mount(
            image::Sealed::new(device.clone()),
            MountOptions {
                access: Access::ReadOnly,
                ..MountOptions::default()
            },
        )
        .unwrap();
        assert_eq!(read(&fs, b"durable"), b"promised");
        assert!(device.to_bytes() == before);
        fs.remount("rw").unwrap();
        drop(file_with(&fs, b"later", b"too").unwrap());
        fs.unmount().unwrap();
        image::assert_clean(&device);
        let fs = image::mount(&device);
        assert_eq!(read(&fs, b"durable"), b"promised", "{shape:?}");
        assert_eq!(read(&fs, b"later"), b"too");
    }
}

/// Power cuts at every write while an in-memory replay is written to the device.
#[test]
fn a_crash_while_going_read_write_replays_again() {
    for shape in [&[][..], &["-b", "1024"]] {
        let device = image::mke2fs(32, shape);
        leave_dirty(&device);
        let recorder = Arc::new(Recorder::new(device));
        let options = crashed::options().parse("ro").unwrap();
        let fs = Filesystem::mount(image::Sealed::new(recorder.clone()), options).unwrap();
        fs.remount("rw").unwrap();
        drop(file_with(&fs, b"later", b"too").unwrap());
        fs.sync().unwrap();
        fs.abandon();
        image::at_every_cut(&mut recorder.log(), |fs, _, cut| {
            assert_eq!(read(fs, b"durable"), b"promised", "cut {cut}");
        });
    }
}

#[test]
fn orphans_of_a_crash_are_freed_when_it_goes_read_write() {
    for shape in [&["-O", "orphan_file"][..], &["-O", "^orphan_file"]] {
        let device = image::mke2fs(48, shape);
        let fs = image::mount(&device);
        let file = file_with(&fs, b"doomed", &[1; 200_000]).unwrap();
        let free = fs.statfs().blocks_free;
        fs.unlink(&fs.root().unwrap(), b"doomed", &Caller::root())
            .unwrap();
        fs.sync().unwrap();
        fs.abandon();
        drop((file, fs));
        let options = crashed::options().parse("ro").unwrap();
        let fs = Filesystem::mount(image::Sealed::new(device.clone()), options).unwrap();
        fs.remount("rw").unwrap();
        fs.sync().unwrap();
        assert!(fs.statfs().blocks_free > free, "{shape:?}");
        fs.unmount().unwrap();
        image::assert_clean(&device);
    }
}

#[test]
fn open_files_without_a_name_keep_it_read_write() {
    let device = image::ext4(32);
    let fs = image::mount(&device);
    let file = file_with(&fs, b"file", b"data").unwrap();
    fs.unlink(&fs.root().unwrap(), b"file", &Caller::root())
        .unwrap();
    assert_refused(fs.remount("ro"), &RemountError::Busy);
    fs.write(&file, 0, b"still", &WriteContext::ROOT)
        .expect("nothing has changed");
    drop(file);
    fs.remount("ro").unwrap();
    image::assert_clean(&device);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let device = image::ext4(32);
    let fs = image::mount(&device);
    for (list, name) in [
        ("data=writeback", "data="),
        ("ro,sb=8193", "sb="),
        ("journal_path=/dev/null", "journal_path="),
        ("noload", "noload"),
        ("allocator=linear", "allocator="),
        ("nombcache", "nombcache"),
        ("journal_checksum", "journal_checksum"),
    ] {
        assert_refused(fs.remount(list), &RemountError::Fixed(name));
    }
    for list in ["ro,data=journal", "ro,bogus", "commit=x,ro"] {
        assert!(fs.remount(list).is_err(), "{list}");
    }
    drop(file_with(&fs, b"file", b"still read-write").unwrap());
    fs.remount("data=ordered").expect("what holds may be said");
    fs.unmount().unwrap();
    assert!(matches!(fs.remount("rw"), Err(Error::Unmounted)));

    leave_dirty(&device);
    let fs = image::mount_with(&device, "ro,noload").unwrap();
    assert_refused(fs.remount("rw"), &RemountError::NotReplayed);
    let before = device.to_bytes();
    drop(fs);
    assert!(device.to_bytes() == before);
}

#[test]
fn a_device_that_changed_below_stays_read_only() {
    let device = image::ext4(32);
    let fs = image::mount_with(&device, "ro").unwrap();
    image::mount(&device).unmount().unwrap();
    assert_refused(fs.remount("rw"), &RemountError::ChangedBelow);
}

#[test]
fn options_take_effect() {
    let device = image::ext4(32);
    let fs = image::mount_with(&device, "strictatime,errors=continue").unwrap();
    let caller = Caller::root();
    let file = file_with(&fs, b"file", b"data").unwrap();
    let touched = |fs: &Filesystem| {
        let long_ago = Timestamp::new(1000, 0);
        let atime = Some(SetTime::At(long_ago));
        let set = SetAttr {
            atime,
            ..SetAttr::default()
        };
        fs.set_attr(&file, &set, &caller).unwrap();
        fs.read(&file, 0, &mut [0; 4]).unwrap();
        fs.attr(&file).atime != long_ago
    };
    assert!(touched(&fs));
    fs.remount("noatime").unwrap();
    assert!(!touched(&fs));
    fs.remount("atime,strictatime").unwrap();
    assert!(touched(&fs));
    fs.set_xattr(&file, b"user.a", b"1", uext4::SetMode::Any, &caller)
        .unwrap();
    fs.remount("nouser_xattr").unwrap();
    assert!(fs.get_xattr(&file, b"user.a", &caller).is_err());
    fs.remount("user_xattr,minixdf").unwrap();
    assert!(fs.get_xattr(&file, b"user.a", &caller).is_ok());
    let with_overhead = fs.statfs().blocks;
    fs.remount("bsddf").unwrap();
    assert!(fs.statfs().blocks < with_overhead);
    fs.remount("commit=7,max_dir_size_kb=4").unwrap();
    assert_eq!(fs.options().commit_interval.as_secs(), 7);
    fs.remount("extent_cache=65536").unwrap();
    assert_eq!(fs.tunable("extent_cache"), Some(65_536));
    let dir = fs
        .mkdir(&fs.root().unwrap(), b"dir", 0o755, &caller)
        .unwrap();
    let full = (0..1000).find_map(|nr| {
        let name = format!("a long name for a small directory {nr}");
        fs.create(&dir, name.as_bytes(), 0o644, &caller).err()
    });
    assert!(matches!(full, Some(Error::NoSpace)), "{full:?}");
    drop((file, dir));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

/// The second flush or write on the way to read-only fails: the mount is stopped, reports the
/// reason, and blocks no caller.
#[test]
fn a_device_that_fails_on_the_way_stops_it() {
    use uext4::device::{Cause, Operation, When};
    for (operation, list) in [(Operation::Flush, "ro"), (Operation::Write, "ro")] {
        let device = image::ext4(32);
        let faulty = Arc::new(Faulty::new(device.clone()));
        let fs = Filesystem::mount(faulty.clone(), MountOptions::default()).unwrap();
        drop(file_with(&fs, b"durable", b"promised").unwrap());
        fs.sync().unwrap();
        drop(file_with(&fs, b"maybe", b"").unwrap());
        faulty.arm(Fault {
            operation,
            when: When::Counted { after: 1, count: 1 },
            cause: Cause::Io,
        });
        fs.remount(list).unwrap_err();
        faulty.disarm();
        assert!(fs.failure().is_some());
        assert!(matches!(file_with(&fs, b"late", b""), Err(Error::ReadOnly)));
        assert_refused(fs.remount("rw"), &RemountError::Failed);
        assert!(fs.freeze().is_ok() && fs.thaw().is_ok());
        assert!(fs.unmount().is_err());
        drop(fs);
        let fs = image::mount(&device);
        assert_eq!(read(&fs, b"durable"), b"promised");
        fs.unmount().unwrap();
        image::assert_clean(&device);
    }
}

#[test]
fn models_hold_over_remounts() {
    let device = image::ext4(96);
    let fs = Arc::new(Filesystem::mount(device.clone(), MountOptions::default()).unwrap());
    let mut models: Vec<Model> = Vec::new();
    for id in 0..3 {
        let worker = Worker::new(&fs, id, id).unwrap();
        models.push(worker.work(|done| done < 300).0);
        fs.remount("ro").unwrap();
        fs.remount("rw,commit=1").unwrap();
    }
    for (id, model) in models.iter().enumerate() {
        worker::check(&fs, id as u64, model).unwrap();
    }
    fs.unmount().unwrap();
    image::assert_clean(&device);
}
