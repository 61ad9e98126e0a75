//! `uext4 help`: the help of the tool or of one command.

use crate::cli::Cli;
use crate::failure::{Failure, Result};
use clap::CommandFactory;

/// Print help for the tool or for one command
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 help
  uext4 help mkfs                          the same as uext4 mkfs --help")]
pub(crate) struct Args {
    /// Command
    command: Option<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let mut cli = Cli::command();
        cli.build();
        let found = match &self.command {
            None => Some(&mut cli),
            Some(name) => cli.find_subcommand_mut(name),
        };
        match (found, self.command) {
            (Some(command), _) => Ok(command.print_help()?),
            (None, name) => {
                let name = name.unwrap_or_default();
                let problem = "no such command; `uext4 help` lists them";
                Err(Failure::usage(format!("help {name}: {problem}")))
            }
        }
    }
}
