//! `uext4 completions` and `uext4 man`: files that packages install beside the tool.

use crate::cli::Cli;
use crate::failure::{At, Result};
use clap::CommandFactory;
use std::path::PathBuf;

/// Print a completion script for a shell
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  uext4 completions bash > /usr/share/bash-completion/completions/uext4")]
pub(crate) struct Args {
    /// Shell
    shell: clap_complete::Shell,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "uext4", &mut script);
        Ok(std::io::Write::write_all(&mut std::io::stdout(), &script)?)
    }
}

/// Write man pages into a directory
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  uext4 man /usr/share/man/man1")]
pub(crate) struct ManArgs {
    /// Existing directory
    dir: PathBuf,
}

impl ManArgs {
    pub(crate) fn run(self) -> Result<()> {
        clap_mangen::generate_to(Cli::command(), &self.dir).at(self.dir.display())
    }
}
