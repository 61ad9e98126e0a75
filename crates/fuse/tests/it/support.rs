//! An image that is mounted during the lifetime of a value.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;
use uext4_fuse::{Client, Error, Image, Lazy, umount};
use uext4_testkit::rings::RingsSwitch;
use uext4_testkit::served::ServedMount;
use uext4_testkit::{oracle, skip, wait};

/// Size of the images.
pub(crate) const IMAGE_BYTES: u64 = 256 << 20;

/// An image and a mount point, mounted or not. Dropping it removes both.
pub(crate) struct Mounted {
    dir: TempDir,
    server: Option<Child>,
}

/// Transport of requests from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each test program has one")]
pub(crate) enum Via {
    DevFuse,
    IoUring,
}

impl Via {
    /// Option of the example program.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Via::DevFuse => "dev_fuse",
            Via::IoUring => "io_uring",
        }
    }

    /// Sets the module parameter needed for a mount. If nothing can be mounted this way, it ends
    /// the test program, since none of its tests can run.
    pub(crate) fn switch_on(self) -> Option<RingsSwitch> {
        if !ServedMount::is_available() {
            end_unrun("root and /dev/fuse");
        }
        if self == Via::DevFuse {
            return None;
        }
        if !RingsSwitch::is_available() {
            end_unrun("root and Linux 6.14 (FUSE over io_uring)");
        }
        Some(RingsSwitch::on().expect("it is available"))
    }
}

/// Ends the test program, none of whose tests can run.
fn end_unrun(needs: &str) -> ! {
    skip::record(&format!("all tests of mounts, {:?}", crate::VIA), needs);
    std::process::exit(i32::from(oracle::in_ci()));
}

/// The example program `mount`, which cargo builds with the tests.
pub(crate) fn program() -> PathBuf {
    let tests = std::env::current_exe().expect("the test has a path");
    let built = tests
        .ancestors()
        .nth(2)
        .expect("tests are in target/PROFILE/deps");
    let program = built.join("examples/mount");
    let hint = "run `cargo build -p uext4-fuse --examples`";
    assert!(program.exists(), "{} is missing: {hint}", program.display());
    program
}

impl Mounted {
    /// A fresh file system of mke2fs with these options, mounted with these words of the example.
    pub(crate) fn with(mke2fs: &[&str], words: &[&str]) -> Self {
        Self::of_bytes(IMAGE_BYTES, mke2fs, words)
    }

    /// As [`Mounted::with`], with an image of another size.
    pub(crate) fn of_bytes(bytes: u64, mke2fs: &[&str], words: &[&str]) -> Self {
        let dir = oracle::scratch_dir().expect("there is room");
        oracle::mke2fs(&dir.path().join("image"), bytes, mke2fs).expect("mke2fs runs");
        std::fs::create_dir(dir.path().join("at")).expect("it is fresh");
        let mut mounted = Self { dir, server: None };
        mounted.mount(words);
        mounted
    }

    /// A fresh file system with default options, mounted.
    pub(crate) fn new() -> Self {
        Self::with(&["-b", "4096"], &[])
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("at")
    }

    /// A path in the mount.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Mounts the image in a server process and waits until it is ready.
    pub(crate) fn mount(&mut self, words: &[&str]) {
        self.mount_by(Command::new(program()), words);
    }

    /// As [`Mounted::mount`], with a command that starts the program.
    pub(crate) fn mount_by(&mut self, command: Command, words: &[&str]) {
        self.mount_early(command, words);
        drop(self.client());
    }

    /// As [`Mounted::mount_by`], but returns as soon as the mount answers. Its server may still be
    /// starting, without a control socket.
    pub(crate) fn mount_early(&mut self, mut command: Command, words: &[&str]) {
        let _on = crate::VIA.switch_on();
        let mut server = command
            .arg(self.image())
            .arg(self.root())
            .arg(crate::VIA.word())
            .args(words)
            .stdin(Stdio::null())
            .spawn()
            .expect("the server starts");
        wait::until_true("the mount is ready", || {
            let ended = server.try_wait().expect("it is our child");
            assert!(ended.is_none(), "the server ended: {ended:?}");
            self.is_mounted()
        });
        self.server = Some(server);
        // The kernel completes `FUSE_INIT` while the switch is on.
        std::fs::metadata(self.root()).expect("the mount answers");
    }

    /// A client of the control socket, which appears a moment after the mount answers.
    pub(crate) fn client(&self) -> Client {
        wait::until("the server answers", || Client::connect(&self.root()).ok())
    }

    /// The directory of the connection in `fusectl`, which counts requests without an answer.
    pub(crate) fn connection(&self) -> Connection {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
        let root = self.root();
        let wanted = root.to_str().expect("the path is plain");
        let minor = mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (_major, minor) = words.nth(2)?.split_once(':')?;
            (words.nth(1) == Some(wanted)).then(|| minor.to_owned())
        });
        Connection(minor.expect("it is mounted"))
    }

    /// Whether `/proc/mounts` has the mount.
    pub(crate) fn is_mounted(&self) -> bool {
        let mounts = std::fs::read_to_string("/proc/mounts").expect("/proc is mounted");
        let root = self.root();
        let wanted = root.to_str().expect("the path is plain");
        mounts.lines().any(|line| {
            let mut words = line.split(' ');
            (words.nth(1), words.next()) == (Some(wanted), Some("fuse.uext4"))
        })
    }

    /// The server process.
    pub(crate) fn server(&mut self) -> &mut Child {
        self.server.as_mut().expect("it is mounted")
    }

    /// The server process, for a test that ends it.
    pub(crate) fn take_server(&mut self) -> Child {
        self.server.take().expect("it is mounted")
    }

    /// Unmounts, waits for the server and runs e2fsck.
    pub(crate) fn unmount(&mut self) {
        assert_eq!(self.umount_soon(), Image::Clean);
        oracle::assert_clean(&self.image());
        let status = self.server().wait().expect("it is our child");
        assert!(status.success(), "the server ended with {status}");
        self.server = None;
    }

    /// Unmounts with retries. Another test that spawns a program holds a copy of every open file
    /// until its child's exec, which makes mounts busy for a moment.
    pub(crate) fn umount_soon(&self) -> Image {
        let done = wait::until("it is not busy", || match umount(&self.root(), Lazy::No) {
            Err(Error::Busy { .. }) => None,
            done => Some(done),
        });
        done.expect("it unmounts")
    }

    /// Kills the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        let mut server = self.take_server();
        server.kill().expect("it is our child");
        let status = server.wait().expect("it is our child");
        assert_eq!(status.signal(), Some(9));
    }
}

/// A connection of the kernel to a server.
pub(crate) struct Connection(String);

impl Connection {
    /// Waits until this many requests have no answer.
    pub(crate) fn wait_for_requests(&self, count: usize) {
        let file = format!("/sys/fs/fuse/connections/{}/waiting", self.0);
        wait::until_true("requests wait", || {
            let waiting = std::fs::read_to_string(&file).expect("fusectl is mounted");
            let waiting: usize = waiting.trim().parse().expect("a number");
            waiting >= count
        });
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_mounted() {
            let _ = umount(&self.root(), Lazy::Yes);
        }
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// The superuser's directory with the claim and the socket of a mount; paths of tests are plain.
pub(crate) fn runtime_dir(mount_point: &Path) -> PathBuf {
    let path = mount_point.to_str().expect("it is plain");
    let name = path.replace('-', "%2d").replace('/', "-");
    Path::new("/run/uext4").join(name)
}

/// Runs a program that must succeed; returns its output.
pub(crate) fn run(program: &str, args: &[&dyn AsRef<std::ffi::OsStr>]) -> String {
    let output = try_run(program, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program}: {} {said}",
        output.status
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a program with a time limit.
pub(crate) fn try_run(program: &str, args: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["60", program]);
    for arg in args {
        command.arg(arg);
    }
    command.output().expect("timeout is there")
}

/// A name of that many bytes.
pub(crate) fn long_name(bytes: usize) -> String {
    "n".repeat(bytes)
}

/// The errno of a failed call.
pub(crate) fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

/// Whether a directory is empty but for `lost+found`.
pub(crate) fn names_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("it is a directory");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry
            .expect("it reads")
            .file_name()
            .into_string()
            .expect("names are plain")
    };
    entries.map(name).collect()
}
