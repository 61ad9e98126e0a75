//! Many threads in one file system: each keeps a model of its own names, all share directories.

use crate::image;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use uext4::{Caller, Filesystem, InodeRef, MountOptions, RenameFlags};
use uext4_sync::Rng;

const THREADS: u64 = 16;
const STEPS: u64 = 3000;

/// What one thread expects to find: name → contents, in its own and in the shared directory.
type Model = BTreeMap<(bool, Vec<u8>), Vec<u8>>;

struct Worker {
    fs: Arc<Filesystem>,
    own: InodeRef,
    shared: InodeRef,
    rng: Rng,
    id: u64,
    model: Model,
}

impl Worker {
    fn dir(&self, shared: bool) -> &InodeRef {
        if shared { &self.shared } else { &self.own }
    }

    fn name(&mut self) -> Vec<u8> {
        format!("thread {} name {:04}", self.id, self.rng.below(400)).into_bytes()
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
        let len = self.rng.below(20_000) as usize;
        let data = vec![self.rng.next_u64() as u8; len];
        let dir = self.dir(key.0).clone();
        let file = match self.fs.lookup(&dir, &key.1, &caller) {
            Ok(file) => file,
            Err(_) => self.fs.create(&dir, &key.1, 0o644, &caller).expect("a create of a new name"),
        };
        self.fs.truncate(&file, 0).expect("a truncate");
        let written = self.fs.write(&file, 0, &data).expect("a write");
        assert_eq!(written, len);
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
        let moved =
            self.fs.rename(&from_dir, &from.1, &to_dir, &to.1, flags, &Caller::root());
        match self.model.remove(&from) {
            Some(data) => {
                moved.expect("a rename of a name that exists");
                self.model.insert(to, data);
            }
            None => assert!(moved.is_err()),
        }
    }

    fn check(&self, key: &(bool, Vec<u8>)) {
        let found = self.fs.lookup(self.dir(key.0), &key.1, &Caller::root());
        match self.model.get(key) {
            Some(data) => {
                let mut read = vec![0; data.len() + 1];
                let len = self.fs.read(&found.expect("a known name"), 0, &mut read).unwrap();
                assert_eq!(&read[..len], &data[..]);
            }
            None => assert!(found.is_err()),
        }
    }
}

#[test]
fn sixteen_threads_agree_with_their_models() {
    let device = image::ext4(256);
    let fs = Arc::new(Filesystem::mount(device.clone(), MountOptions::default()).unwrap());
    let caller = Caller::root();
    let root = fs.root().unwrap();
    let shared = fs.mkdir(&root, b"shared", 0o755, &caller).unwrap();
    let run = |id| {
        let own = fs.mkdir(&root, format!("own {id}").as_bytes(), 0o755, &caller).unwrap();
        let (fs, shared) = (fs.clone(), shared.clone());
        let mut worker = Worker { fs, own, shared, rng: Rng::new(id), id, model: Model::new() };
        thread::spawn(move || {
            for _ in 0..STEPS {
                worker.step();
            }
            worker.model
        })
    };
    let workers: Vec<_> = (0..THREADS).map(run).collect();
    let models: Vec<Model> = workers.into_iter().map(|w| w.join().unwrap()).collect();
    drop((root, shared));
    fs.unmount().unwrap();
    image::assert_clean(&device);

    let fs = image::mount(&device);
    let root = fs.root().unwrap();
    let shared = fs.lookup(&root, b"shared", &caller).unwrap();
    for (id, model) in models.iter().enumerate() {
        let own = fs.lookup(&root, format!("own {id}").as_bytes(), &caller).unwrap();
        for ((in_shared, name), data) in model {
            let dir = if *in_shared { &shared } else { &own };
            let file = fs.lookup(dir, name, &caller).unwrap();
            let mut read = vec![0; data.len() + 1];
            let len = fs.read(&file, 0, &mut read).unwrap();
            assert_eq!(&read[..len], &data[..]);
        }
    }
}
