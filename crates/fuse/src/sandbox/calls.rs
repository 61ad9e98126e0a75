//! System-call filter of the server (seccomp); all other calls fail with `EPERM`.

use super::Files;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::io;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls on open descriptors, own memory, own threads, and time.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_fallocate,
    libc::SYS_sync_file_range,
    libc::SYS_fadvise64,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_close,
    libc::SYS_pipe2,
    libc::SYS_splice,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_fstat,
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_getsockopt,
    libc::SYS_shutdown,
    libc::SYS_io_uring_enter,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_getcpu,
    libc::SYS_membarrier,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Legacy variants of these calls.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[libc::c_long] = &[libc::SYS_poll, libc::SYS_dup2, libc::SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[libc::c_long] = &[];

/// Calls that take a path, which Landlock checks. Landlock does not restrict `stat`, `readlink` and
/// `chdir`, so their variants with a path are forbidden; `fstat` is allowed.
const BY_PATH: &[libc::c_long] = &[libc::SYS_openat, libc::SYS_unlinkat];
#[cfg(target_arch = "x86_64")]
const BY_PATH_HERE: &[libc::c_long] = &[libc::SYS_open, libc::SYS_unlink];
#[cfg(not(target_arch = "x86_64"))]
const BY_PATH_HERE: &[libc::c_long] = &[];

/// ioctls for non-blocking sockets and terminal detection.
#[expect(clippy::as_conversions, reason = "u64 with glibc, i32 with musl")]
#[allow(clippy::unnecessary_cast)]
const CONTROLS: [u64; 2] = [libc::FIONBIO as u64, libc::TCGETS as u64];

/// Restricts all threads of the process.
pub(super) fn restrict(files: Files) -> io::Result<()> {
    let wrong = |error: seccompiler::BackendError| io::Error::other(error);
    let no_clone3 = program(
        [(libc::SYS_clone3, Vec::new())].into(),
        SeccompAction::Allow,
        // The C library falls back to `clone`, whose flags a filter can check.
        SeccompAction::Errno(libc::ENOSYS.cast_unsigned()),
    );
    let denied = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let listed = rules(files).and_then(|rules| program(rules, denied, SeccompAction::Allow));
    for program in [no_clone3.map_err(wrong)?, listed.map_err(wrong)?] {
        apply_filter_all_threads(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

fn program(
    rules: Rules,
    others: SeccompAction,
    these: SeccompAction,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, others, these, arch)?.try_into()
}

fn rules(files: Files) -> Result<Rules, seccompiler::BackendError> {
    let by_path: [&[libc::c_long]; 2] = match files {
        Files::Restricted => [BY_PATH, BY_PATH_HERE],
        Files::Open => [&[], &[]],
    };
    let plain = [ALLOWED, ALLOWED_HERE].into_iter().chain(by_path).flatten();
    let mut rules: Rules = plain.map(|call| (*call, Vec::new())).collect();
    // The other filter decides on `clone3`.
    rules.insert(libc::SYS_clone3, Vec::new());
    let run = u64::from(libc::PROT_EXEC.cast_unsigned());
    let not_run = argument(2, SeccompCmpOp::MaskedEq(run), 0)?;
    rules.insert(libc::SYS_mmap, vec![not_run.clone()]);
    rules.insert(libc::SYS_mprotect, vec![not_run]);
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    let thread = argument(0, SeccompCmpOp::MaskedEq(thread), thread)?;
    rules.insert(libc::SYS_clone, vec![thread]);
    let table = u64::from(libc::CLONE_FILES.cast_unsigned());
    let table = argument(0, SeccompCmpOp::Eq, table)?;
    rules.insert(libc::SYS_unshare, vec![table]);
    let controls = CONTROLS
        .iter()
        .map(|call| argument(1, SeccompCmpOp::Eq, *call));
    rules.insert(libc::SYS_ioctl, controls.collect::<Result<_, _>>()?);
    let name = u64::from(libc::PR_SET_NAME.cast_unsigned());
    let name = argument(0, SeccompCmpOp::Eq, name)?;
    rules.insert(libc::SYS_prctl, vec![name]);
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, vec![argument(0, SeccompCmpOp::Eq, own)?]);
    let limits = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![limits])?]);
    Ok(rules)
}

fn argument(
    index: u8,
    compare: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = SeccompCondition::new(index, SeccompCmpArgLen::Dword, compare, value)?;
    SeccompRule::new(vec![condition])
}
