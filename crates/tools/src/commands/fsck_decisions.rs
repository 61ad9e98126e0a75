//! Questions and messages of `uext4 fsck`.

use crate::failure::{Failure, Result};
use crate::show;
use serde_json::json;
use std::io::{BufRead, IsTerminal, Write};
use uext4::format::DamageLocation;
use uext4::repair::{Decision, Decisions, Finding, Problem, RepairSafe, code};

/// How repairs are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Preen,
    Yes,
    No,
    Ask,
}

impl Choice {
    /// Questions need a terminal.
    pub(crate) fn of_terminal() -> Result<Self> {
        if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
            return Ok(Self::Ask);
        }
        let text = "fsck: questions need a terminal; say -p, -y or -n";
        Err(Failure::usage(text))
    }
}

/// A run of the command.
pub(crate) struct Session {
    name: String,
    choice: Choice,
    json: bool,
    /// The rest is repaired without questions.
    all: bool,
}

impl Session {
    pub(crate) fn new(name: String, choice: Choice, json: bool) -> Self {
        Self {
            name,
            choice,
            json,
            all: false,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn say_clean(&self) -> Result<()> {
        if self.json {
            return self.end(true, 0, None);
        }
        show::line(format_args!("{}: clean", self.name))
    }

    pub(crate) fn say_recovering(&self) {
        if !self.json {
            // A closed pipe ends the run at its next line.
            let _ = show::line(format_args!("{}: recovering journal", self.name));
        }
    }

    /// Prints a problem that is not repaired.
    pub(crate) fn report_left(&self, finding: &Finding) -> Result<()> {
        self.print(finding, "left")
    }

    /// Prints the summary.
    pub(crate) fn end(
        &self,
        is_sound: bool,
        n_repaired: u64,
        incomplete: Option<&'static str>,
    ) -> Result<()> {
        if self.json {
            let value = json!({
                "ok": is_sound,
                "repaired": n_repaired,
                "incomplete": incomplete,
            });
            return show::line(format_args!("{value}"));
        }
        if n_repaired > 0 {
            let plural = if n_repaired == 1 { "" } else { "s" };
            let text = format!("{}: {n_repaired} problem{plural} repaired", self.name);
            show::line(format_args!("{text}"))?;
        }
        if let Some(why) = incomplete {
            show::line(format_args!(
                "{}: not everything was checked: {why}",
                self.name
            ))?;
        }
        if !is_sound {
            let text = match self.choice {
                Choice::Preen => "UNEXPECTED INCONSISTENCY; run fsck without -p",
                _ => "errors are left",
            };
            return show::line(format_args!("{}: {text}", self.name));
        }
        show::line(format_args!("{}: sound", self.name))
    }

    /// A line for one problem: where, what, its code, and what became of it.
    fn print(&self, finding: &Finding, done: &str) -> Result<()> {
        let code = code(&finding.corrupt);
        if !self.json {
            return show::line(format_args!("{finding} [{code}]: {done}"));
        }
        let mut value = json!({
            "code": code,
            "structure": finding.corrupt.structure,
            "what": finding.corrupt.problem.phrase(),
            "detail": finding.detail,
            "byte": finding.byte,
            "done": done,
        });
        match finding.corrupt.place {
            DamageLocation::Superblock => {}
            DamageLocation::Group(group) => value["group"] = group.0.into(),
            DamageLocation::Inode(inode) => value["inode"] = inode.0.into(),
            DamageLocation::Block(block) => value["block"] = block.0.into(),
            DamageLocation::InodeBlock(inode, block) => {
                value["inode"] = inode.0.into();
                value["block"] = block.0.into();
            }
            DamageLocation::JournalBlock(block) => value["journal_block"] = block.into(),
        }
        show::line(format_args!("{value}"))
    }

    /// Asks on the terminal; the end of the input ends the repair.
    fn ask(&mut self, finding: &Finding, problem: &Problem) -> Decision {
        let code = code(&finding.corrupt);
        let mut out = std::io::stdout();
        loop {
            let _ = write!(
                out,
                "{finding} [{code}]\n  repair: {}? (y/n/a/q) ",
                problem.repair
            );
            let _ = out.flush();
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line);
            match (read, line.trim()) {
                (Ok(0) | Err(_), _) | (_, "q") => return Decision::Stop,
                (_, "y" | "yes") => return Decision::Repair,
                (_, "n" | "no") => return Decision::Leave,
                (_, "a" | "all") => {
                    self.all = true;
                    return Decision::Repair;
                }
                _ => {}
            }
        }
    }
}

impl Decisions for Session {
    fn decide(&mut self, finding: &Finding, problem: Option<&Problem>) -> Decision {
        let decision = match (self.choice, problem) {
            (Choice::Preen, _) => RepairSafe.decide(finding, problem),
            (_, None) | (Choice::No, _) => Decision::Leave,
            (Choice::Ask, Some(problem)) if !self.all => return self.ask(finding, problem),
            _ => Decision::Repair,
        };
        let done = match (decision, problem) {
            (Decision::Repair, Some(problem)) => problem.repair,
            (_, None) => "left, it has no repair here",
            _ => "left",
        };
        // A closed pipe does not end a repair half way.
        let _ = self.print(finding, done);
        decision
    }
}
