//! Failures of background threads reach a listener at once, without a request.

use crate::image;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use uext4::device::{Cause, Fault, Faulty, MemDevice, Operation, When};
use uext4::{Caller, Filesystem, Incident, Listener, MountOptions, Threads};

/// Time limit for a message; the thread commits every 50 ms.
const PATIENCE: Duration = Duration::from_secs(30);

struct Ear(std::sync::Mutex<Sender<Incident>>);

impl Listener for Ear {
    fn hear(&self, incident: &Incident) {
        let sender = self.0.lock().expect("nothing panics with it");
        // The test may have dropped the receiver.
        let _ = sender.send(incident.clone());
    }
}

/// A mount whose writes fail from now on, with a change that waits for a commit.
fn failing(device: Arc<MemDevice>, options: &str) -> (Filesystem, Receiver<Incident>) {
    let faulty = Arc::new(Faulty::new(device));
    let background = MountOptions {
        threads: Threads::Background,
        commit_interval: Duration::from_millis(50),
        ..MountOptions::default()
    };
    let options = background.parse(options).unwrap();
    let fs = Filesystem::mount(faulty.clone(), options).unwrap();
    let (sender, heard) = channel();
    fs.listen(Arc::new(Ear(sender.into())));
    let (root, caller) = (fs.root().unwrap(), Caller::root());
    drop(fs.create(&root, b"file", 0o644, &caller).unwrap());
    fs.sync().unwrap();
    faulty.arm(Fault {
        operation: Operation::Write,
        when: When::Always,
        cause: Cause::Io,
    });
    fs.unlink(&root, b"file", &caller).unwrap();
    drop(root);
    (fs, heard)
}

#[test]
fn a_commit_that_fails_in_the_background_is_heard() {
    let (fs, heard) = failing(image::ext4(64), "");
    let first = heard.recv_timeout(PATIENCE).expect("it is heard");
    assert!(matches!(first, Incident::Stopped(_)), "{first}");
    assert!(fs.failure().is_some());
    // The unmount fails with the same error.
    assert!(fs.unmount().is_err());
    assert_eq!(heard.try_iter().count(), 0);
    assert_eq!(fs.incidents().len(), 1);
}

#[test]
fn metadata_that_are_late_are_heard() {
    let device = image::mke2fs(64, &["-O", "^has_journal"]);
    let (fs, heard) = failing(device, "errors=continue");
    let first = heard.recv_timeout(PATIENCE).expect("it is heard");
    assert!(matches!(first, Incident::Met(_)), "{first}");
    assert!(first.to_string().contains("write of"), "{first}");
    assert!(fs.failure().is_none());
    drop(fs);
}

#[test]
fn a_listener_that_comes_late_is_told_all() {
    let fs = image::mount(&image::ext4(64));
    fs.trigger_error().unwrap();
    fs.trigger_error().unwrap();
    let (sender, heard) = channel();
    fs.listen(Arc::new(Ear(sender.into())));
    let told: Vec<_> = heard.try_iter().collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].to_string().contains("trigger_fs_error"));
    fs.unmount().unwrap();
}
