//! Threads that use a mount while it gets orders.
//!
//! Some make calls that always have an answer at once. The others change something, which waits
//! while the mount is frozen. Each thread counts its answers, so that the test can wait for calls
//! that began after an order.

use super::model::Users;
use rustix::fs::{Advice, SeekFrom, fadvise, seek, statvfs};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use uext4_fuse::{Ask, Client};

/// Size of the file that only readers use: some reads are large.
pub(crate) const CLEAN_BYTES: usize = 256 << 10;
/// Its bytes.
pub(crate) const CLEAN: u8 = 0x5a;
/// Files that are written, in a directory whose names never change.
pub(crate) const WRITTEN: [&str; 4] = ["written", "sought", "synced", "program"];
/// Between two calls of a thread.
const PAUSE: Duration = Duration::from_micros(500);

type Call = fn(&Scene, &File) -> io::Result<()>;

/// The calls of one thread, and the file that they get.
struct Part {
    file: &'static str,
    calls: &'static [(&'static str, Call)],
}

/// Calls that always have an answer.
const ANSWERED: [Part; 3] = [
    Part {
        file: "quiet/clean",
        calls: &[("read", read), ("read past the cache", read_again)],
    },
    Part {
        file: "quiet",
        calls: &[("stat", stat), ("statfs", room), ("readdir", list)],
    },
    Part {
        file: "quiet/clean",
        calls: &[
            ("fsync", sync),
            ("fsync of a directory", sync_dir),
            ("control", control),
        ],
    },
];

/// Calls that wait for a thaw.
const CHANGING: [Part; 5] = [
    Part {
        file: "written/written",
        calls: &[("write", write)],
    },
    Part {
        file: "written/sought",
        calls: &[("write before seek", write), ("seek", seek_data)],
    },
    Part {
        file: "written/synced",
        calls: &[("write and fsync", write_and_sync)],
    },
    Part {
        file: "written/program",
        calls: &[("write before execve", write), ("execve", execute)],
    },
    Part {
        file: "quiet",
        calls: &[("create", create), ("unlink", unlink)],
    },
];
/// The last of [`CHANGING`]: none of its calls is answered while frozen.
const NAMES: usize = ANSWERED.len() + CHANGING.len() - 1;

/// What the threads of a round share.
pub(crate) struct Scene {
    root: PathBuf,
    users: Users,
    stop: AtomicBool,
    /// Nothing may be at the path any more.
    pub(crate) is_gone: AtomicBool,
    /// Any call may fail.
    pub(crate) may_fail: AtomicBool,
    /// The mount may be read-only.
    pub(crate) may_refuse: AtomicBool,
    /// The last number that was written to the synced file.
    pub(crate) tried: AtomicU64,
    /// The last number of which `fsync` said that it is durable.
    pub(crate) durable: AtomicU64,
    /// The first wrong answer.
    wrong: OnceLock<String>,
    pulses: Vec<Pulse>,
}

#[derive(Default)]
struct Pulse {
    n_answers: AtomicU64,
    call: AtomicUsize,
}

/// Which threads must get answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callers {
    /// Those whose calls wait for nothing.
    Answered,
    All,
}

fn parts() -> impl Iterator<Item = &'static Part> {
    ANSWERED.iter().chain(&CHANGING)
}

impl Scene {
    pub(crate) fn new(root: PathBuf, users: Users) -> Self {
        Self {
            root,
            users,
            stop: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            may_fail: AtomicBool::new(false),
            may_refuse: AtomicBool::new(false),
            tried: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            wrong: OnceLock::new(),
            pulses: parts().map(|_| Pulse::default()).collect(),
        }
    }

    /// Starts all threads; in a mount whose files stay open they are open then.
    pub(crate) fn start<'s>(&'s self, scope: &'s std::thread::Scope<'s, '_>) {
        for (part, pulse) in parts().zip(&self.pulses) {
            let kept = (self.users == Users::Keep).then(|| self.open(part).expect("it is there"));
            scope.spawn(move || self.work(part, pulse, kept));
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
    }

    /// A wrong answer, if there was one.
    pub(crate) fn wrong(&self) -> Option<&String> {
        self.wrong.get()
    }

    /// Answers to changes of names.
    pub(crate) fn n_names(&self) -> u64 {
        self.pulses[NAMES].n_answers.load(SeqCst)
    }

    /// Waits until each thread got the answer to a call that began after now.
    ///
    /// # Errors
    /// Which call had none within `limit`.
    pub(crate) fn hear(&self, callers: Callers, limit: Duration) -> Result<(), String> {
        let start = Instant::now();
        let n_waited = match callers {
            Callers::Answered => ANSWERED.len(),
            Callers::All => self.pulses.len(),
        };
        let count = |pulse: &Pulse| pulse.n_answers.load(SeqCst);
        let before: Vec<u64> = self.pulses.iter().map(count).collect();
        for (index, part) in parts().enumerate().take(n_waited) {
            let pulse = &self.pulses[index];
            // The first answer may be to an older call.
            while count(pulse) < before[index] + 2 {
                if start.elapsed() > limit {
                    let (call, _) = part.calls[pulse.call.load(SeqCst)];
                    return Err(format!("{call} has no answer after {limit:?}"));
                }
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    fn open(&self, part: &Part) -> io::Result<File> {
        let path = self.root.join(part.file);
        let writes = part.file.starts_with("written/");
        OpenOptions::new().read(true).write(writes).open(path)
    }

    fn work(&self, part: &Part, pulse: &Pulse, mut kept: Option<File>) {
        for round in 0.. {
            if self.stop.load(SeqCst) {
                break;
            }
            let index = round % part.calls.len();
            let (name, call) = part.calls[index];
            pulse.call.store(index, SeqCst);
            let answer = match &kept {
                Some(file) => call(self, file),
                None => self.open(part).and_then(|file| call(self, &file)),
            };
            self.judge(name, answer);
            pulse.n_answers.fetch_add(1, SeqCst);
            std::thread::sleep(PAUSE);
        }
        drop(kept.take());
    }

    fn judge(&self, name: &str, answer: io::Result<()>) {
        let Err(error) = answer else {
            return;
        };
        let errno = error.raw_os_error();
        let gone = errno == Some(libc::ENOENT) || name == "control";
        let expected = self.may_fail.load(SeqCst)
            || self.is_gone.load(SeqCst) && gone
            || self.may_refuse.load(SeqCst) && errno == Some(libc::EROFS);
        if !expected {
            let _ = self.wrong.set(format!("{name}: {error}"));
        }
    }
}

fn read(_: &Scene, file: &File) -> io::Result<()> {
    let mut data = vec![0; CLEAN_BYTES];
    file.read_exact_at(&mut data, 0)?;
    assert!(data.iter().all(|&byte| byte == CLEAN), "wrong data");
    Ok(())
}

fn read_again(scene: &Scene, file: &File) -> io::Result<()> {
    fadvise(file, 0, None, Advice::DontNeed)?;
    read(scene, file)
}

fn stat(scene: &Scene, dir: &File) -> io::Result<()> {
    dir.metadata()?;
    for name in WRITTEN {
        fs::metadata(scene.root.join("written").join(name))?;
    }
    Ok(())
}

fn room(_: &Scene, dir: &File) -> io::Result<()> {
    Ok(rustix::fs::fstatvfs(dir).map(drop)?)
}

fn list(scene: &Scene, _: &File) -> io::Result<()> {
    for dir in ["", "quiet", "written"] {
        for entry in fs::read_dir(scene.root.join(dir))? {
            entry?;
        }
    }
    statvfs(&scene.root)?;
    Ok(())
}

fn sync(_: &Scene, file: &File) -> io::Result<()> {
    file.sync_all()
}

fn sync_dir(scene: &Scene, _: &File) -> io::Result<()> {
    File::open(scene.root.join("quiet"))?.sync_all()
}

fn control(scene: &Scene, _: &File) -> io::Result<()> {
    let client = Client::connect(&scene.root).map_err(io::Error::other)?;
    client.ask(&Ask::Server {}).map_err(io::Error::other)?;
    Ok(())
}

fn write(_: &Scene, file: &File) -> io::Result<()> {
    file.write_all_at(&[1; 8192], 0)
}

fn seek_data(_: &Scene, file: &File) -> io::Result<()> {
    seek(file, SeekFrom::Data(0))?;
    Ok(())
}

/// Writes the next number, for [`Scene::durable`].
fn write_and_sync(scene: &Scene, file: &File) -> io::Result<()> {
    let number = scene.tried.load(SeqCst) + 1;
    scene.tried.store(number, SeqCst);
    file.write_all_at(format!("{number:020}\n").as_bytes(), 0)?;
    file.sync_all()?;
    scene.durable.store(number, SeqCst);
    Ok(())
}

/// Starts a program, which closes the files of this process that are marked for it.
fn execute(_: &Scene, _: &File) -> io::Result<()> {
    Command::new("true").status().map(drop)
}

fn create(scene: &Scene, _: &File) -> io::Result<()> {
    File::create(scene.root.join("names/new")).map(drop)
}

fn unlink(scene: &Scene, _: &File) -> io::Result<()> {
    match fs::remove_file(scene.root.join("names/new")) {
        // Creating it was refused while the mount was read-only.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
