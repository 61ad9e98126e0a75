//! Storms: freeze, thaw, remount, shutdown, unmounts and signals in any order, while threads read,
//! write, seek, sync, change names and start programs.
//!
//! A model (`model`) says what each order may answer. After each order every thread whose calls
//! wait for nothing (`workers`) must get the answer to a new call, and so must all others unless
//! the mount is frozen. Then everything ends, the image is clean or its journal makes it so, and
//! what `fsync` promised is there.
//!
//! `UEXT4_STORM_SEEDS` sets the number of rounds, `UEXT4_STORM_SEED` repeats one or begins there.

mod model;
mod workers;

use crate::support::{IMAGE_BYTES, Mounted};
use crate::watchdog::Watchdog;
use model::{Life, Model, Order, Outcome, Users};
use rustix::fs::{SeekFrom, seek};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use uext4_fuse::{Error, Lazy, freeze, remount, shutdown, thaw, umount};
use uext4_testkit::oracle::{self, Repair};
use uext4_testkit::rng::Rng;
use workers::{CLEAN, CLEAN_BYTES, Callers, Scene, WRITTEN};

/// Long enough for a busy machine; a hang takes for ever.
const LIMIT: Duration = Duration::from_secs(20);
/// So small that the kernel may hold nothing back.
const SMALL_BYTES: u64 = 24 << 20;
const ROUNDS: u64 = 20;
const MKE2FS: &[&str] = &["-b", "4096", "-J", "size=4"];
/// Its crashes are recovered by our mount: e2fsck refuses some logs with fast commits.
const FAST_COMMITS: &[&str] = &["-b", "4096", "-J", "size=4", "-O", "fast_commit"];

/// A mount that gets orders.
struct Storm<'a> {
    scene: &'a Scene,
    root: &'a Path,
    server: &'a mut Child,
    model: Model,
    /// What was ordered, and the answers.
    told: Vec<(Order, Outcome)>,
}

type Done = Result<(), String>;

impl Storm<'_> {
    fn order(&mut self, order: Order) -> Done {
        let n_names = self.scene.n_names();
        let were_parked = self.model.parks_changes();
        self.expect_failures(order);
        let answer = self.give(order)?;
        let is_allowed = self.model.allows(order, &answer);
        self.told.push((order, answer.clone()));
        if !is_allowed {
            return Err(format!("{order:?} answered {answer:?}"));
        }
        self.model.go_on(order, &answer);
        // One answer may have been on its way.
        if were_parked && self.model.parks_changes() && self.scene.n_names() > n_names + 1 {
            return Err("names changed while frozen".into());
        }
        self.look()
    }

    /// What must have an answer now.
    fn look(&mut self) -> Done {
        let (callers, n_names) = if self.model.parks_changes() {
            (Callers::Answered, self.scene.n_names())
        } else {
            (Callers::All, u64::MAX - 1)
        };
        self.scene.hear(callers, LIMIT)?;
        if self.scene.n_names() > n_names + 1 {
            return Err("names changed while frozen".into());
        }
        self.scene
            .wrong()
            .map_or(Ok(()), |wrong| Err(wrong.clone()))
    }

    /// Tells the threads what may happen to them.
    fn expect_failures(&self, order: Order) {
        let scene = self.scene;
        match order {
            Order::Shutdown(_) => scene.may_fail.store(true, SeqCst),
            Order::ReadOnly => scene.may_refuse.store(true, SeqCst),
            Order::Umount | Order::UmountLazily => scene.is_gone.store(true, SeqCst),
            Order::Terminate | Order::TerminateInPassing => {
                scene.is_gone.store(true, SeqCst);
                if self.told.iter().any(|(order, _)| order.is_signal()) {
                    scene.may_fail.store(true, SeqCst);
                }
            }
            _ => {}
        }
        if scene.is_gone.load(SeqCst) && self.model.users == Users::ComeAndGo {
            scene.may_fail.store(true, SeqCst);
        }
    }

    fn give(&mut self, order: Order) -> Result<Outcome, String> {
        let root = self.root;
        Ok(match order {
            Order::Freeze => Outcome::of(freeze(root)),
            Order::Thaw => Outcome::of(thaw(root)),
            Order::ReadOnly => Outcome::of(remount(root, "ro")),
            Order::ReadWrite => Outcome::of(remount(root, "rw")),
            Order::Shutdown(flush) => Outcome::of(shutdown(root, flush)),
            Order::Umount => Outcome::of(umount(root, Lazy::No)),
            Order::UmountLazily => Outcome::of(umount(root, Lazy::Yes)),
            Order::Terminate => {
                terminate(self.server);
                wait_for("the mount to be taken off", || {
                    (!is_mounted(root)).then_some(())
                })?;
                Outcome::Done
            }
            Order::TerminateInPassing => {
                terminate(self.server);
                Outcome::Done
            }
        })
    }

    /// Ends the mount in one of all ways, and the threads.
    fn end(&mut self, rng: &mut Rng) -> Done {
        if self.model.life == Life::Mounted {
            match rng.below(3) {
                0 => self.order(Order::UmountLazily)?,
                1 => self.order(Order::Terminate)?,
                _ => return self.unmount_from_users(),
            }
        }
        self.scene.stop();
        Ok(())
    }

    /// The threads stop, those that wait for a thaw by the unmount.
    fn unmount_from_users(&mut self) -> Done {
        self.scene.is_gone.store(true, SeqCst);
        self.scene.may_fail.store(true, SeqCst);
        self.scene.stop();
        let off = || match umount(self.root, Lazy::No) {
            Err(Error::Busy { .. }) => None,
            done => Some(Outcome::of(done)),
        };
        let answer = wait_for("the last user", off)?;
        self.told.push((Order::Umount, answer.clone()));
        if self.model.allows(Order::Umount, &answer) || self.model.users == Users::Keep {
            Ok(())
        } else {
            Err(format!("the last umount answered {answer:?}"))
        }
    }
}

fn terminate(server: &Child) {
    signal(server, Signal::TERM);
}

fn signal(server: &Child, signal: Signal) {
    let pid = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
    // It has not been waited for, so the number is its own.
    kill_process(pid.expect("it runs"), signal).expect("it is our child");
}

fn is_mounted(root: &Path) -> bool {
    let table = fs::read_to_string("/proc/mounts").expect("/proc is mounted");
    let wanted = root.to_str().expect("the path is plain");
    table
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(wanted))
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T, String> {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if start.elapsed() > LIMIT {
            return Err(format!("waited {LIMIT:?} for {what}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Copies the data of an image, but not its holes.
fn copy_image(from: &Path, to: &Path) {
    let (from, to) = (File::open(from).unwrap(), File::create(to).unwrap());
    let end = from.metadata().unwrap().len();
    to.set_len(end).unwrap();
    let mut at = 0;
    while let Ok(data) = seek(&from, SeekFrom::Data(at)) {
        at = seek(&from, SeekFrom::Hole(data)).unwrap();
        let mut bytes = vec![0; (at - data) as usize];
        from.read_exact_at(&mut bytes, data).unwrap();
        to.write_all_at(&bytes, data).unwrap();
    }
}

/// A mount point, and an image to begin each round with.
struct Stage {
    mounted: Mounted,
    fresh: std::path::PathBuf,
}

impl Stage {
    fn new(bytes: u64, mke2fs: &[&str]) -> Self {
        let mut mounted = Mounted::of_bytes(bytes, mke2fs, &[]);
        for dir in ["quiet", "written", "names"] {
            fs::create_dir(mounted.path(dir)).unwrap();
        }
        fs::write(mounted.path("quiet/clean"), vec![CLEAN; CLEAN_BYTES]).unwrap();
        for name in WRITTEN {
            fs::write(mounted.path("written").join(name), format!("{:020}\n", 0)).unwrap();
        }
        mounted.unmount();
        let fresh = mounted.image().with_file_name("fresh");
        copy_image(&mounted.image(), &fresh);
        Self { mounted, fresh }
    }

    fn mount(&mut self) {
        copy_image(&self.fresh, &self.mounted.image());
        self.mounted.mount(&[]);
    }

    /// One round; all that is known about it when it fails.
    fn storm(&mut self, seed: u64) -> Done {
        let mut rng = Rng::new(seed);
        let users = *rng.pick(&[Users::Keep, Users::ComeAndGo]);
        self.mount();
        let root = self.mounted.root();
        let mut watchdog = Watchdog::over(&mut self.mounted);
        let mut server = self.mounted.take_server();
        let scene = Scene::new(root.clone(), users);
        let (done, model, told) = std::thread::scope(|scope| {
            let _end = StopOnPanic(&scene, server.id());
            scene.start(scope);
            let mut storm = Storm {
                scene: &scene,
                root: &root,
                server: &mut server,
                model: Model::new(users),
                told: Vec::new(),
            };
            let n_orders = rng.between(3, 8);
            let done = storm
                .look()
                .and_then(|()| {
                    (0..n_orders).try_for_each(|_| storm.order(Order::draw(&mut rng, users)))
                })
                .and_then(|()| storm.end(&mut rng));
            let (model, told) = (storm.model, storm.told);
            if done.is_err() {
                give_up(&scene, &root, &server);
            }
            (done, model, told)
        });
        let ended = done.and_then(|()| wait_for("the server", || server.try_wait().unwrap()));
        let hung = watchdog.has_bitten();
        ended
            .and_then(|status| self.judge(seed, &scene, &model, status))
            .and(if hung { Err("it hung".into()) } else { Ok(()) })
            .map_err(|why| format!("{why}; {users:?}, {told:?}"))
    }

    /// The image is as it should be, and has what `fsync` promised.
    fn judge(&mut self, seed: u64, scene: &Scene, model: &Model, status: ExitStatus) -> Done {
        if let Some(wrong) = scene.wrong() {
            return Err(wrong.clone());
        }
        // A mount that leaves answers orders or does not: with or without loss.
        let sure = model.life != Life::Leaving && model.life != Life::Ended;
        if sure && status.success() == model.has_loss {
            return Err(format!("the server ended with {status}"));
        }
        let image = self.mounted.image();
        // Shut down, files that were open without a name stay on the list of orphans.
        if model.is_shut || !status.success() {
            self.recover(seed);
        }
        let verdict = oracle::e2fsck(&image).map_err(|error| error.to_string())?;
        if !verdict.is_clean() {
            return Err(format!("e2fsck: {verdict}"));
        }
        let said = oracle::debugfs_one(&image, "cat written/synced").unwrap();
        let kept: u64 = said
            .trim()
            .parse()
            .map_err(|_| format!("synced: {said:?}"))?;
        let (durable, tried) = (scene.durable.load(SeqCst), scene.tried.load(SeqCst));
        if (durable..=tried).contains(&kept) {
            Ok(())
        } else {
            Err(format!(
                "{kept} is there; {durable} is durable, {tried} the last"
            ))
        }
    }

    /// By our mount or by e2fsck.
    fn recover(&mut self, seed: u64) {
        if seed.is_multiple_of(2) {
            self.mounted.mount(&[]);
            self.mounted.unmount();
        } else {
            let verdict = oracle::e2fsck_repair(&self.mounted.image(), Repair::Preen).unwrap();
            assert!(verdict.is_repaired(), "{verdict}");
        }
    }
}

/// Ends all that may wait.
fn give_up(scene: &Scene, root: &Path, server: &Child) {
    scene.may_fail.store(true, SeqCst);
    scene.stop();
    // A server that waits for the kernel's data does not die before its connection is aborted.
    let flags = rustix::mount::UnmountFlags::FORCE | rustix::mount::UnmountFlags::DETACH;
    let _ = rustix::mount::unmount(root, flags);
    signal(server, Signal::KILL);
}

/// The threads of a scope are waited for, also by a panic.
struct StopOnPanic<'a>(&'a Scene, u32);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
            let pid = i32::try_from(self.1).ok().and_then(Pid::from_raw);
            let _ = kill_process(pid.expect("it ran"), Signal::KILL);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn all_orders_in_all_states() {
    let first = number("UEXT4_STORM_SEED");
    let n_rounds = number("UEXT4_STORM_SEEDS").unwrap_or(if first.is_some() { 1 } else { ROUNDS });
    let first = first.unwrap_or(1);
    let mut large = Stage::new(IMAGE_BYTES, MKE2FS);
    let mut small = Stage::new(SMALL_BYTES, MKE2FS);
    let mut fast = Stage::new(IMAGE_BYTES, FAST_COMMITS);
    for seed in first..first + n_rounds {
        let stage = match seed % 4 {
            0 => &mut small,
            // An even number: recovered by our mount.
            2 => &mut fast,
            _ => &mut large,
        };
        // A round that hangs says which it is.
        eprintln!("storms {:?}: UEXT4_STORM_SEED={seed}", crate::VIA);
        let done = stage.storm(seed);
        assert!(
            done.is_ok(),
            "UEXT4_STORM_SEED={seed}: {}",
            done.unwrap_err()
        );
    }
}

/// What judges a round sees a server that answers nothing. It is not killed while it is stopped:
/// callers whose requests are in its rings then would wait for ever, even if the connection is
/// aborted.
#[test]
fn a_stopped_server_is_a_hang() {
    let mut stage = Stage::new(IMAGE_BYTES, MKE2FS);
    stage.mount();
    let watchdog = Watchdog::over(&mut stage.mounted);
    let scene = Scene::new(stage.mounted.root(), Users::Keep);
    let (stopped, again) = std::thread::scope(|scope| {
        scene.start(scope);
        let before = scene.hear(Callers::All, LIMIT);
        signal(stage.mounted.server(), Signal::STOP);
        let stopped = scene.hear(Callers::Answered, Duration::from_millis(500));
        signal(stage.mounted.server(), Signal::CONT);
        let again = before.and_then(|()| scene.hear(Callers::All, LIMIT));
        scene.stop();
        (stopped, again)
    });
    let said = stopped.expect_err("nothing answers");
    assert!(said.contains("has no answer"), "{said}");
    assert_eq!(again, Ok(()));
    drop(watchdog);
    stage.mounted.unmount();
}
