//! Worker thread of a stress test: it keeps a model of its own names and shares directories with
//! the others. The full-size run of `xtask` uses it too.

use std::collections::BTreeMap;
use std::sync::Arc;
use uext4::{Caller, Filesystem, InodeRef, RenameFlags, WriteContext};
use uext4_sync::Rng;

/// Names per thread in each directory.
const NAMES: u64 = 400;
/// Maximum file size in bytes.
const FILE_BYTES_MAX: u64 = 20_000;

/// Expected files of one thread: (in the shared directory, name) → content.
pub(crate) type Model = BTreeMap<(bool, Vec<u8>), Vec<u8>>;

pub(crate) struct Worker {
    fs: Arc<Filesystem>,
    own: InodeRef,
    shared: InodeRef,
    rng: Rng,
    id: u64,
    model: Model,
}

/// The directory that all threads share.
pub(crate) fn shared_dir(fs: &Filesystem) -> uext4::Result<InodeRef> {
    dir(fs, b"shared")
}

fn own_dir(fs: &Filesystem, id: u64) -> uext4::Result<InodeRef> {
    dir(fs, format!("own {id}").as_bytes())
}

/// A directory in the root, created if missing.
fn dir(fs: &Filesystem, name: &[u8]) -> uext4::Result<InodeRef> {
    let (root, caller) = (fs.root()?, Caller::root());
    fs.lookup(&root, name, &caller)
        .or_else(|_| fs.mkdir(&root, name, 0o755, &caller))
}

/// Checks all files that thread `id` expects.
pub(crate) fn check(fs: &Filesystem, id: u64, model: &Model) -> uext4::Result<()> {
    let (shared, own) = (shared_dir(fs)?, own_dir(fs, id)?);
    for ((in_shared, name), data) in model {
        let dir = if *in_shared { &shared } else { &own };
        check_one(fs, dir, name, data)?;
    }
    Ok(())
}

fn check_one(fs: &Filesystem, dir: &InodeRef, name: &[u8], data: &[u8]) -> uext4::Result<()> {
    let file = fs.lookup(dir, name, &Caller::root())?;
    let mut read = vec![0; data.len() + 1];
    let len = fs.read(&file, 0, &mut read)?;
    assert!(
        read[..len] == *data,
        "{} holds something else",
        name.escape_ascii()
    );
    Ok(())
}

impl Worker {
    pub(crate) fn new(fs: &Arc<Filesystem>, id: u64, seed: u64) -> uext4::Result<Self> {
        let (own, shared) = (own_dir(fs, id)?, shared_dir(fs)?);
        let rng = Rng::new(seed);
        Ok(Worker {
            fs: fs.clone(),
            own,
            shared,
            rng,
            id,
            model: Model::new(),
        })
    }

    /// Works while `goes_on` returns true. Returns the model and the number of operations.
    pub(crate) fn work(mut self, mut goes_on: impl FnMut(u64) -> bool) -> (Model, u64) {
        let mut done = 0;
        while goes_on(done) {
            self.step();
            done += 1;
        }
        (self.model, done)
    }

    fn dir(&self, shared: bool) -> &InodeRef {
        if shared { &self.shared } else { &self.own }
    }

    fn name(&mut self) -> Vec<u8> {
        format!("thread {} name {:04}", self.id, self.rng.below(NAMES)).into_bytes()
    }

    fn step(&mut self) {
        let shared = self.rng.chance(1, 2);
        let name = self.name();
        let key = (shared, name);
        match self.rng.below(6) {
            0..=2 => self.put(key),
            3 => self.remove(key),
            4 => self.rename(key),
            _ => self.check(&key),
        }
    }

    fn put(&mut self, key: (bool, Vec<u8>)) {
        let caller = Caller::root();
        let len = self.rng.below(FILE_BYTES_MAX) as usize;
        let data = vec![self.rng.next_u64() as u8; len];
        let dir = self.dir(key.0).clone();
        let file = match self.fs.lookup(&dir, &key.1, &caller) {
            Ok(file) => file,
            Err(_) => self
                .fs
                .create(&dir, &key.1, 0o644, &caller)
                .expect("a create of a new name"),
        };
        self.fs.truncate(&file, 0).expect("a truncate");
        let written = self
            .fs
            .write(&file, 0, &data, &WriteContext::ROOT)
            .expect("a write");
        assert_eq!(written.len_bytes, len);
        self.model.insert(key, data);
    }

    fn remove(&mut self, key: (bool, Vec<u8>)) {
        let known = self.model.remove(&key).is_some();
        let removed = self.fs.unlink(self.dir(key.0), &key.1, &Caller::root());
        assert_eq!(removed.is_ok(), known, "{removed:?}");
    }

    fn rename(&mut self, from: (bool, Vec<u8>)) {
        let to = (self.rng.chance(1, 2), self.name());
        let (from_dir, to_dir) = (self.dir(from.0).clone(), self.dir(to.0).clone());
        let flags = RenameFlags::Replace;
        let moved = self
            .fs
            .rename(&from_dir, &from.1, &to_dir, &to.1, flags, &Caller::root());
        match self.model.remove(&from) {
            Some(data) => {
                moved.expect("a rename of a name that exists");
                self.model.insert(to, data);
            }
            None => assert!(moved.is_err()),
        }
    }

    fn check(&self, key: &(bool, Vec<u8>)) {
        let dir = self.dir(key.0);
        match self.model.get(key) {
            Some(data) => check_one(&self.fs, dir, &key.1, data).expect("a known name"),
            None => assert!(self.fs.lookup(dir, &key.1, &Caller::root()).is_err()),
        }
    }
}
