//! `uext4 tunables`: reads and sets tunables of a running mount.

use crate::failure::{Failure, Result};
use crate::show;
use serde_json::{Map, Value};
use std::io::Write;
use std::path::PathBuf;
use uext4_fuse::Ask;

/// Show or set tunables of a mount, named as in /sys/fs/ext4
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  uext4 tunables /mnt/data                         show all
  uext4 tunables /mnt/data mb_prefetch             print one value
  uext4 tunables /mnt/data mb_prefetch=64 mb_max_to_scan=500

Changes last until unmount. See docs/tunables.md for the meaning of each.")]
pub(crate) struct Args {
    /// Mount point, or control socket of the mount
    #[arg(value_name = "DIR|SOCKET")]
    target: PathBuf,
    /// Tunables to show or set; default: show all
    #[arg(value_name = "NAME[=VALUE]")]
    words: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let mut names = Vec::new();
        let mut settings = Vec::new();
        for word in &self.words {
            match word.split_once('=') {
                None => names.push(word.clone()),
                Some((name, value)) => {
                    let value = value.parse().map_err(|_| {
                        Failure::usage(format!("{word}: a value is a whole number"))
                    })?;
                    settings.push((name.to_owned(), value));
                }
            }
        }
        let only_sets = names.is_empty() && !settings.is_empty();
        for (name, value) in settings {
            super::control::ask(&self.target, &Ask::Set { name, value })?;
        }
        if only_sets && !self.json {
            return Ok(());
        }
        let answer = super::control::ask(&self.target, &Ask::Get { names })?;
        self.print(&answer)
    }

    fn print(&self, answer: &Value) -> Result<()> {
        let mut out = show::stdout();
        let none = Map::new();
        let found = answer.as_object().unwrap_or(&none);
        if self.json {
            show::json(&mut out, answer)?;
        } else if let [_one] = self.words.as_slice() {
            found
                .values()
                .try_for_each(|value| writeln!(out, "{}", bare(value)))?;
        } else {
            for (name, value) in found {
                writeln!(out, "{name}={}", bare(value))?;
            }
        }
        Ok(out.flush()?)
    }
}

/// The value as text, strings without quotes.
fn bare(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
