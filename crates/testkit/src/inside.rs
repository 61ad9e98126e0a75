//! Sandbox test: issues system calls from inside a sandboxed process by ptrace.
//!
//! Each thread is stopped, executes forbidden calls, and continues in its original state, including
//! an interrupted call. The kernel answers as it would to exploited code in that process.
//!
//! Needs root and `x86_64`, since it sets that machine's registers.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::libc::{self, user_regs_struct};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::oracle::scratch_dir;

use crate::wait;

/// Timeout for a thread to stop.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// Red zone: bytes that a function may use below the stack pointer.
const RED_ZONE_BYTES: u64 = 128;
/// Space below the stack for the memory that arguments point to.
const ROOM_BYTES: u64 = 1024;
/// Machine code of the `syscall` instruction (x86-64).
const CALL: [u8; 2] = [0x0f, 0x05];

/// Argument of a system call.
#[derive(Clone, Copy, Debug)]
enum Give<'a> {
    Number(i64),
    /// A pointer to these bytes and a zero byte.
    Bytes(&'a [u8]),
}

struct Stopped {
    thread: Pid,
    memory: File,
    saved: user_regs_struct,
    /// Address of a `syscall` instruction.
    call_at: u64,
}

impl Stopped {
    fn stop(pid: u32, thread: u32) -> Result<Self> {
        let memory = format!("/proc/{pid}/mem");
        let memory = File::options().read(true).write(true).open(memory)?;
        let thread = Pid::from_raw(i32::try_from(thread)?);
        ptrace::seize(thread, ptrace::Options::empty()).context("to trace it")?;
        ptrace::interrupt(thread)?;
        wait_for_stop(thread)?;
        let saved = ptrace::getregs(thread)?;
        let stopped = Self {
            thread,
            call_at: find_call(pid, &memory)?,
            memory,
            saved,
        };
        Ok(stopped)
    }

    /// The kernel's answer: a value, or a negative errno.
    fn call(&self, number: i64, given: &[Give<'_>]) -> Result<i64> {
        let mut registers = self.saved;
        let mut room = (self.saved.rsp - RED_ZONE_BYTES - ROOM_BYTES) & !15;
        let mut values = [0u64; 6];
        for (value, give) in values.iter_mut().zip(given) {
            *value = match *give {
                Give::Number(number) => number.cast_unsigned(),
                Give::Bytes(bytes) => {
                    self.memory.write_all_at(bytes, room)?;
                    self.memory.write_all_at(&[0], room + bytes.len() as u64)?;
                    let at = room;
                    room += bytes.len() as u64 + 1;
                    at
                }
            };
        }
        let [first, second, third, fourth, fifth, sixth] = values;
        (registers.rdi, registers.rsi, registers.rdx) = (first, second, third);
        (registers.r10, registers.r8, registers.r9) = (fourth, fifth, sixth);
        (registers.rip, registers.rax) = (self.call_at, number.cast_unsigned());
        // Prevents the kernel from restarting an interrupted call.
        registers.orig_rax = u64::MAX;
        ptrace::setregs(self.thread, registers)?;
        ptrace::step(self.thread, None::<Signal>)?;
        wait_for_stop(self.thread)?;
        Ok(ptrace::getregs(self.thread)?.rax.cast_signed())
    }

    /// Issues a call that must fail with EPERM or EACCES.
    fn denied(&self, what: &str, number: i64, given: &[Give<'_>]) -> Result<()> {
        let answer = self.call(number, given)?;
        let no = [libc::EPERM, libc::EACCES].map(|errno| -i64::from(errno));
        ensure!(no.contains(&answer), "{what}: the kernel answers {answer}");
        Ok(())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // The process may have been killed.
        let _ = ptrace::setregs(self.thread, self.saved);
        let _ = ptrace::detach(self.thread, None::<Signal>);
    }
}

fn wait_for_stop(thread: Pid) -> Result<()> {
    let flags = WaitPidFlag::__WALL | WaitPidFlag::WNOHANG;
    let stopped = wait::within(STOP_LIMIT, || match waitpid(thread, Some(flags)) {
        Ok(WaitStatus::StillAlive) => None,
        done => Some(done),
    });
    match stopped.with_context(|| format!("thread {thread} does not stop"))?? {
        WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..) => Ok(()),
        other => bail!("thread {thread}: {other:?}"),
    }
}

/// Finds a `syscall` instruction in the program.
fn find_call(pid: u32, memory: &File) -> Result<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    for line in maps.lines().filter(|line| line.contains(" r-xp ")) {
        let (range, _) = line.split_once(' ').context("a mapping has a range")?;
        let (start, end) = range.split_once('-').context("a range has two ends")?;
        let (start, end) = (
            u64::from_str_radix(start, 16)?,
            u64::from_str_radix(end, 16)?,
        );
        let mut text = vec![0; usize::try_from(end - start)?];
        if memory.read_exact_at(&mut text, start).is_err() {
            continue;
        }
        if let Some(at) = text.windows(2).position(|bytes| bytes == CALL) {
            return Ok(start + at as u64);
        }
    }
    bail!("no call of the system in the program")
}

/// Targets of the forbidden calls, all fresh or world-accessible.
struct Bait {
    dir: tempfile::TempDir,
    _socket: UnixListener,
    port: TcpListener,
}

impl Bait {
    fn new() -> Result<Self> {
        let dir = scratch_dir()?;
        fs::write(dir.path().join("other"), "secret")?;
        Ok(Self {
            _socket: UnixListener::bind(dir.path().join("socket"))?,
            port: TcpListener::bind("127.0.0.1:0")?,
            dir,
        })
    }

    fn path(&self, name: &str) -> Vec<u8> {
        self.dir
            .path()
            .join(name)
            .into_os_string()
            .into_encoded_bytes()
    }
}

/// Tries to access files, sockets, programs, processes and executable memory from every thread of
/// `pid`; each attempt must fail. Answers the number of threads.
///
/// # Errors
/// An attempt succeeded (the error names the thread), or the process cannot be traced.
pub fn reaches_nothing(pid: u32) -> Result<usize> {
    let bait = Bait::new()?;
    let mut n_threads = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task: u32 = task?.file_name().to_string_lossy().parse()?;
        let name = fs::read_to_string(format!("/proc/{pid}/task/{task}/comm"));
        let name = name.unwrap_or_default();
        let told = || format!("thread {task} ({}) of {pid}", name.trim());
        let stopped = match Stopped::stop(pid, task) {
            // The thread has ended by itself: helper threads are short-lived.
            Err(_) if !Path::new(&format!("/proc/{pid}/task/{task}")).exists() => continue,
            stopped => stopped.with_context(told)?,
        };
        asks(&stopped, pid, &bait).with_context(told)?;
        n_threads += 1;
    }
    ensure!(!bait.dir.path().join("new").exists(), "it made a file");
    Ok(n_threads)
}

fn asks(stopped: &Stopped, pid: u32, bait: &Bait) -> Result<()> {
    use Give::{Bytes, Number};
    // An allowed call works: arguments and paths arrive intact.
    let own = stopped.call(libc::SYS_getpid, &[])?;
    ensure!(own == i64::from(pid), "it is {own}, not {pid}");
    let here = Number(i64::from(libc::AT_FDCWD));
    let read_only = Number(i64::from(libc::O_RDONLY));
    let status = Bytes(b"/proc/self/status");
    let descriptor = stopped.call(libc::SYS_openat, &[here, status, read_only])?;
    ensure!(descriptor >= 0, "it cannot open what it may: {descriptor}");
    stopped.call(libc::SYS_close, &[Number(descriptor)])?;

    let (other, new, socket) = (bait.path("other"), bait.path("new"), bait.path("socket"));
    let create = Number(i64::from(libc::O_CREAT | libc::O_WRONLY));
    let open = libc::SYS_openat;
    stopped.denied("to read a file", open, &[here, Bytes(&other), read_only])?;
    stopped.denied(
        "to read a password",
        open,
        &[here, Bytes(b"/etc/shadow"), read_only],
    )?;
    let mode = Number(0o600);
    stopped.denied("to make a file", open, &[here, Bytes(&new), create, mode])?;
    stopped.denied(
        "to remove a file",
        libc::SYS_unlinkat,
        &[here, Bytes(&other), Number(0)],
    )?;
    stopped.denied(
        "to make a directory",
        libc::SYS_mkdirat,
        &[here, Bytes(&new), mode],
    )?;
    let rename = [here, Bytes(&other), here, Bytes(&new), Number(0)];
    stopped.denied("to rename a file", libc::SYS_renameat2, &rename)?;
    stopped.denied("to link a file", libc::SYS_linkat, &rename)?;
    looks(stopped, bait, here)?;

    connects(stopped, bait, &socket)?;
    let program = Bytes(b"/bin/true");
    stopped.denied(
        "to run a program",
        libc::SYS_execve,
        &[program, Number(0), Number(0)],
    )?;
    let program = [here, program, Number(0), Number(0), Number(0)];
    stopped.denied("to run a program", libc::SYS_execveat, &program)?;
    becomes_more(stopped)
}

/// Attributes, links and working directories of other processes.
fn looks(stopped: &Stopped, bait: &Bait, here: Give<'_>) -> Result<()> {
    use Give::{Bytes, Number};
    let other = bait.path("other");
    let other = Bytes(&other);
    let room = Bytes(&[0; 256]);
    let stat = [here, other, room, Number(0)];
    stopped.denied("attributes", libc::SYS_newfstatat, &stat)?;
    stopped.denied("attributes", libc::SYS_stat, &[other, room])?;
    stopped.denied("attributes", libc::SYS_lstat, &[other, room])?;
    let statx = [here, other, Number(0), Number(0x7ff), room];
    stopped.denied("attributes", libc::SYS_statx, &statx)?;
    let link = [here, Bytes(b"/proc/1/exe"), room, Number(64)];
    stopped.denied("a link", libc::SYS_readlinkat, &link)?;
    stopped.denied("a link", libc::SYS_readlink, &link[1..])?;
    stopped.denied("a directory", libc::SYS_chdir, &[Bytes(b"/root")])?;
    stopped.denied("a right", libc::SYS_faccessat, &[here, other, Number(0)])
}

/// Sockets of all kinds, new ones and one that the process may hold.
fn connects(stopped: &Stopped, bait: &Bait, socket: &[u8]) -> Result<()> {
    use Give::{Bytes, Number};
    let stream = Number(i64::from(libc::SOCK_STREAM));
    let datagrams = Number(i64::from(libc::SOCK_DGRAM));
    for (what, family, kind) in [
        ("a local socket", libc::AF_UNIX, stream),
        ("a TCP socket", libc::AF_INET, stream),
        ("a UDP socket", libc::AF_INET, datagrams),
        ("a TCP socket of IPv6", libc::AF_INET6, stream),
        ("a netlink socket", libc::AF_NETLINK, datagrams),
    ] {
        let family = Number(i64::from(family));
        stopped.denied(what, libc::SYS_socket, &[family, kind, Number(0)])?;
    }
    let port = bait.port.local_addr()?.port().to_be_bytes();
    let inet = (libc::AF_INET as u16).to_ne_bytes();
    let address = [
        inet[0], inet[1], port[0], port[1], 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let local = [&(libc::AF_UNIX as u16).to_ne_bytes(), socket].concat();
    for address in [&address[..], &local] {
        let to = [Number(0), Bytes(address), Number(address.len() as i64)];
        stopped.denied("to connect", libc::SYS_connect, &to)?;
        stopped.denied("to bind", libc::SYS_bind, &to)?;
    }
    Ok(())
}

/// Processes, executable memory, privileges, mounts, signals, rings with other commands.
fn becomes_more(stopped: &Stopped) -> Result<()> {
    use Give::{Bytes, Number};
    let signal = Number(i64::from(libc::SIGCHLD));
    stopped.denied("a new process", libc::SYS_clone, &[signal])?;
    stopped.denied("a new process", libc::SYS_fork, &[])?;
    let runs = Number(i64::from(
        libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
    ));
    let fresh = Number(i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS));
    let map = [Number(0), Number(4096), runs, fresh, Number(-1), Number(0)];
    stopped.denied("memory that runs", libc::SYS_mmap, &map)?;
    let stack = Number((stopped.saved.rsp & !4095).cast_signed());
    stopped.denied(
        "to run its stack",
        libc::SYS_mprotect,
        &[stack, Number(4096), runs],
    )?;
    stopped.denied(
        "a file of memory",
        libc::SYS_memfd_create,
        &[Bytes(b"x"), Number(0)],
    )?;
    stopped.denied("another user", libc::SYS_setuid, &[Number(0)])?;
    stopped.denied(
        "a namespace",
        libc::SYS_unshare,
        &[Number(i64::from(libc::CLONE_NEWUSER))],
    )?;
    let root = Bytes(b"/");
    stopped.denied(
        "to unmount",
        libc::SYS_umount2,
        &[root, Number(i64::from(libc::MNT_DETACH))],
    )?;
    stopped.denied("another root", libc::SYS_chroot, &[root])?;
    stopped.denied("to send signals", libc::SYS_kill, &[Number(1), Number(0)])?;
    stopped.denied("to trace", libc::SYS_ptrace, &[Number(16), Number(1)])?;
    stopped.denied(
        "a ring",
        libc::SYS_io_uring_setup,
        &[Number(4), Bytes(&[0; 120])],
    )?;
    stopped.denied("a program of the kernel", libc::SYS_bpf, &[Number(5)])?;
    stopped.denied(
        "more memory",
        libc::SYS_prlimit64,
        &[
            Number(0),
            Number(i64::from(libc::RLIMIT_AS)),
            Bytes(&[0xff; 16]),
        ],
    )
}
