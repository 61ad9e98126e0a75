//! Inspects the server of a mount through `/proc`: alive, sandboxed, within its memory limit.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use uext4_testkit::served::ServedMount;
use uext4_testkit::wait;

/// Limit of peak resident memory of a server, in KiB. It is far below the limit under `untrusted`,
/// because the images are small.
const RESIDENT_MAX_KIB: u64 = 512 << 10;
/// Limit of the time from the mount's first answer until the sandbox is active.
const LOCKING_LIMIT: Duration = Duration::from_secs(60);

/// Whether the server has a limit of address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budget {
    Set,
    Unset,
}

/// Peak memory over all servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Peak resident memory, in KiB.
    pub resident_kib: u64,
    /// Peak address space of servers with a limit, in KiB.
    pub addresses_kib: u64,
    /// Limit of address space for untrusted images, in KiB.
    pub budget_kib: u64,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [resident, addresses, budget] =
            [self.resident_kib, self.addresses_kib, self.budget_kib].map(|kib| kib.div_ceil(1024));
        write!(
            f,
            "at most {resident} MiB resident; with untrusted at most {addresses} MiB of addresses \
             of a budget of {budget} MiB"
        )
    }
}

/// Checks the server and records its memory.
pub(super) fn check_server(mount: &ServedMount, budget: Budget, memory: &mut Memory) -> Result<()> {
    let status = locked_in(mount)?;
    let state = field(&status, "State").unwrap_or_default();
    ensure!(!state.starts_with('Z'), "the server ended: {state}");
    ensure!(
        field(&status, "Seccomp") == Some("2"),
        "not locked in:\n{status}"
    );
    // Bit 1 is CAP_DAC_OVERRIDE: access to files of other users, which Landlock restricts to the
    // image.
    let rights = field(&status, "CapEff").unwrap_or_default();
    let rights = u64::from_str_radix(rights, 16).context("CapEff is a number")?;
    ensure!(rights & !2 == 0, "it has rights: {rights:x}");
    let resident = kib(&status, "VmHWM")?;
    ensure!(
        resident <= RESIDENT_MAX_KIB,
        "it took {resident} KiB of memory"
    );
    memory.resident_kib = memory.resident_kib.max(resident);
    if budget == Budget::Set {
        memory.budget_kib = budget_kib(mount)?;
        memory.addresses_kib = memory.addresses_kib.max(kib(&status, "VmPeak")?);
    }
    Ok(())
}

/// Checks that injected code in the server reaches nothing. Only x86-64 registers are supported.
#[cfg(target_arch = "x86_64")]
pub(super) fn try_from_inside(mount: &ServedMount) -> Result<()> {
    locked_in(mount)?;
    let n_threads = uext4_testkit::inside::reaches_nothing(mount.pid())?;
    ensure!(n_threads > 0, "no thread tried");
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn try_from_inside(mount: &ServedMount) -> Result<()> {
    locked_in(mount).map(drop)
}

/// Waits for the sandbox, because the server answers shortly before it is active. Returns the
/// status.
fn locked_in(mount: &ServedMount) -> Result<String> {
    let status = || std::fs::read_to_string(format!("/proc/{}/status", mount.pid()));
    let locked = wait::within(LOCKING_LIMIT, || {
        Some(status()).filter(|status| {
            status
                .as_ref()
                .map_or(true, |text| text.contains("Seccomp:\t2"))
        })
    });
    locked.unwrap_or_else(status).context("the server is gone")
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.map(|rest| rest.trim_start_matches(':').trim())
}

fn kib(status: &str, name: &str) -> Result<u64> {
    let text = field(status, name).context("Linux tells the peak")?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}

fn budget_kib(mount: &ServedMount) -> Result<u64> {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", mount.pid()))?;
    let most = field(&limits, "Max address space").context("Linux tells the limits")?;
    let bytes: u64 = most.split(' ').next().unwrap_or_default().parse()?;
    Ok(bytes / 1024)
}
