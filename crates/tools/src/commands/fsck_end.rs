//! The end of `uext4 fsck`: what is printed last, and the exit status of `fsck(8)`.

use super::fsck_decisions::Session;
use crate::failure::{self, Exit, Failure, Result};
use uext4::check::CheckReport;
use uext4::repair::RepairReport;

/// Prints the end of a check.
pub(super) fn end_check(session: &mut Session, report: &CheckReport) -> Result<()> {
    for finding in &report.findings {
        session.report_left(finding)?;
    }
    let is_sound = report.is_clean();
    session.end(is_sound, 0, report.incomplete)?;
    if is_sound {
        return Ok(());
    }
    let nothing_found = report.findings.is_empty() && report.n_more == 0;
    let exit = if nothing_found {
        Exit::Failed
    } else {
        Exit::Damaged
    };
    Err(Failure::said(exit))
}

/// Prints the end of a repair; its exit status is that of fsck(8).
pub(super) fn end_repair(session: &mut Session, report: &RepairReport) -> Result<()> {
    session.end(report.is_sound(), report.n_repaired, report.incomplete)?;
    if report.n_unwritten_backups > 0 {
        failure::info(format_args!(
            "{}: {} backups of superblock and descriptors are stale, and cannot be read or written",
            session.name(),
            report.n_unwritten_backups
        ));
    }
    if !report.is_sound() {
        let exit = if report.is_without_result() {
            Exit::Operational
        } else {
            Exit::Damaged
        };
        return Err(Failure::said(exit));
    }
    if report.n_repaired > 0 {
        return Err(Failure::said(Exit::Corrected));
    }
    Ok(())
}
