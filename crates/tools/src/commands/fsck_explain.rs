//! `uext4 fsck --explain CODE`.

use crate::failure::{Failure, Result};
use crate::show;
use uext4::repair::Problem;

/// Prints a row of the table of problems, or all codes.
pub(super) fn explain(code: &str) -> Result<()> {
    if code == "all" {
        return Problem::codes().try_for_each(|code| show::line(format_args!("{code}")));
    }
    let Some((problem, phrase)) = Problem::of_code(code) else {
        let text = format!("{code}: no such problem; --explain all lists them");
        return Err(Failure::usage(text).of_fsck());
    };
    show::line(format_args!("{code}: {phrase}"))?;
    show::line(format_args!("repair: {}", problem.repair))?;
    let preen = match problem.preen {
        uext4::repair::Preen::Repairs => "repaired, nothing is lost",
        uext4::repair::Preen::Stops => "left, a person has to decide",
    };
    show::line(format_args!("with -p: {preen}"))
}
