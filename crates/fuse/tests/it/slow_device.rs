//! A device whose flushes take long: requests that wait for one keep no other request waiting.
//!
//! The flushes of the image wait until the test opens a gate, so a request that waits for one is
//! not answered before, however fast the machine is.

use crate::support::{Connection, Mounted};
use crate::watchdog::Watchdog;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

/// More than any machine of the tests has serving threads of one transport.
const WRITERS: usize = 40;
/// Answers that each client needs while the gate is closed.
const CALLS: usize = 200;

struct Gate(File);

impl Gate {
    fn close(&self) {
        flock(&self.0, FlockOperation::LockExclusive).unwrap();
    }

    fn open(&self) {
        flock(&self.0, FlockOperation::Unlock).unwrap();
    }
}

/// A mount with a gate, which is open, and the connection of the kernel to its server.
fn gated() -> (Mounted, Gate, Connection) {
    let mut mounted = Mounted::new();
    mounted.unmount();
    let path: PathBuf = mounted.image().with_file_name("gate");
    let gate = Gate(File::create(&path).unwrap());
    mounted.mount(&[&format!("gate={}", path.display())]);
    let connection = mounted.connection();
    (mounted, gate, connection)
}

fn write_and_sync(mounted: &Mounted, name: &str) {
    let mut file = File::create(mounted.path(name)).unwrap();
    file.write_all(&[7; 4096]).unwrap();
    file.sync_all().unwrap();
}

/// Look-ups, listings and changes of names, none of which waits for the device.
fn use_names(mounted: &Mounted) {
    for index in 0..CALLS {
        let absent = mounted.path(&format!("absent{index}"));
        assert!(fs::metadata(absent).is_err());
        let name = mounted.path("passing");
        File::create(&name).unwrap();
        assert!(fs::read_dir(mounted.root()).unwrap().count() > 1);
        fs::remove_file(&name).unwrap();
    }
}

#[test]
fn names_are_served_while_all_writers_wait_for_the_device() {
    let (mut mounted, gate, connection) = gated();
    let watchdog = Watchdog::over(&mut mounted);
    gate.close();
    std::thread::scope(|scope| {
        let mounted = &mounted;
        for index in 0..WRITERS {
            scope.spawn(move || write_and_sync(mounted, &format!("written{index}")));
        }
        connection.wait_for_requests(WRITERS);
        use_names(mounted);
        gate.open();
    });
    drop(watchdog);
    mounted.unmount();
}
