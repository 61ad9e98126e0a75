//! Races of threads for the same few names: the image stays clean, nothing hangs, and no operation
//! returns an invalid error.

use crate::image;
use std::sync::Arc;
use std::thread;
use uext4::{Caller, Error, Filesystem, InodeRef, MountOptions, RenameFlags, WriteContext};
use uext4_sync::Rng;

const THREADS: u64 = 8;
const STEPS: u64 = 4000;

fn name(rng: &mut Rng) -> Vec<u8> {
    format!("contested {}", rng.below(6)).into_bytes()
}

/// A permanent directory, or one that other threads remove, rename and replace.
fn some_dir(fs: &Filesystem, dirs: &[InodeRef], rng: &mut Rng) -> Result<InodeRef, Error> {
    let dir = &dirs[rng.below(dirs.len() as u64) as usize];
    match rng.below(4) {
        0 => fs.lookup(dir, &name(rng), &Caller::root()),
        _ => Ok(dir.clone()),
    }
}

fn step(fs: &Filesystem, dirs: &[InodeRef], rng: &mut Rng) -> Result<(), Error> {
    let caller = Caller::root();
    let (dir, other) = (&some_dir(fs, dirs, rng)?, &some_dir(fs, dirs, rng)?);
    let (one, two) = (name(rng), name(rng));
    match rng.below(10) {
        0 | 1 => drop(fs.create(dir, &one, 0o644, &caller)?),
        2 => drop(fs.mkdir(dir, &one, 0o755, &caller)?),
        3 => fs.unlink(dir, &one, &caller)?,
        4 => fs.rmdir(dir, &one, &caller)?,
        5 => fs.rename(dir, &one, other, &two, RenameFlags::Replace, &caller)?,
        6 => fs.rename(dir, &one, other, &two, RenameFlags::Exchange, &caller)?,
        7 => {
            let inode = fs.lookup(dir, &one, &caller)?;
            fs.link(&inode, other, &two, &caller)?;
        }
        8 => {
            let file = fs.lookup(dir, &one, &caller)?;
            fs.write(
                &file,
                rng.below(100_000),
                &vec![1; rng.below(30_000) as usize],
                &WriteContext::ROOT,
            )?;
        }
        _ => {
            let file = fs.tmpfile(dir, 0o600, &caller)?;
            fs.write(&file, 0, &[7; 5000], &WriteContext::ROOT)?;
            fs.link(&file, dir, &one, &caller)?;
        }
    }
    Ok(())
}

/// Errors explained by a lost race or by a name of another type.
fn is_fair(error: &Error) -> bool {
    matches!(
        error,
        Error::NotFound
            | Error::Exists
            | Error::IsDirectory
            | Error::NotDirectory
            | Error::NotEmpty
            | Error::NotPermitted
            | Error::Invalid(_)
    )
}

#[test]
fn contested_names_leave_a_clean_image() {
    let device = image::ext4(128);
    let fs = Arc::new(Filesystem::mount(device.clone(), MountOptions::default()).unwrap());
    let caller = Caller::root();
    let root = fs.root().unwrap();
    let mut dirs = vec![root.clone()];
    for nested in [&b"a"[..], b"b"] {
        let parent = dirs.last().expect("the root at least").clone();
        dirs.push(fs.mkdir(&parent, nested, 0o755, &caller).unwrap());
    }
    let run = |id: u64| {
        let (fs, dirs) = (fs.clone(), dirs.clone());
        thread::spawn(move || {
            let mut rng = Rng::new(id);
            for _ in 0..STEPS {
                if let Err(error) = step(&fs, &dirs, &mut rng) {
                    assert!(is_fair(&error), "seed {id}: {error}");
                }
            }
        })
    };
    let workers: Vec<_> = (0..THREADS).map(run).collect();
    for worker in workers {
        worker.join().expect("a worker found an unfair answer");
    }
    drop((root, dirs));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn unmount_frees_files_that_are_still_held() {
    let device = image::ext4(64);
    let fs = image::mount(&device);
    let caller = Caller::root();
    let root = fs.root().unwrap();
    let held = fs.create(&root, b"held", 0o644, &caller).unwrap();
    fs.write(&held, 0, &[1; 100_000], &WriteContext::ROOT)
        .unwrap();
    fs.unlink(&root, b"held", &caller).unwrap();
    let mut read = [0; 10];
    assert_eq!(fs.read(&held, 50_000, &mut read).unwrap(), 10);
    fs.unmount().unwrap();
    image::assert_clean(&device);
}
