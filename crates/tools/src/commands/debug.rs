//! `uext4 debug`: shows and sets fields of structures.

use crate::date;
use crate::failure::{At, Cause, Exit, Failure, Result};
use crate::image::{ImageArgs, Purpose};
use crate::show;
use serde_json::{Map, Value as Json, json};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::PathBuf;
use uext4::device::BlockDevice;
use uext4::format::Feature;
use uext4::format::fields::Value;
use uext4_forensics::Memory;
use uext4_forensics::debug::{Answer, Command, CommandError, Debugger, HELP, Row, show_value};

/// Show and set fields of structures
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// Run this command; may be repeated
    #[arg(short, long, value_name = "COMMAND")]
    command: Vec<String>,
    /// Run the commands in this file, one a line; - and no commands at all: standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// Allow changes
    #[arg(short, long)]
    write: bool,
    /// Answer questions with yes
    #[arg(short, long, requires = "write")]
    yes: bool,
    /// Print JSON, an object for each command on a line
    #[arg(long)]
    json: bool,
    /// Memory limit
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = crate::numbers::size)]
    memory: u64,
}

impl Cause for CommandError {
    fn exit(&self) -> Exit {
        match self {
            CommandError::Image(error) => error.exit(),
            CommandError::Missing(_) | CommandError::NoFile(_) | CommandError::Outside => {
                Exit::Failed
            }
            _ => Exit::Usage,
        }
    }

    fn text(&self) -> String {
        match self {
            CommandError::Image(error) => error.text(),
            other => other.to_string(),
        }
    }
}

/// The commands in the help are those of the library.
fn after_help() -> String {
    let commands = HELP.replace('\n', "\n  ");
    format!("{EXAMPLES}\n\nCommands:\n  {commands}\n\n{NOTES}")
}

const EXAMPLES: &str = "\
Examples:
  uext4 debug disk.img -c 'show superblock'
  uext4 debug disk.img -c 'show inode /etc/hosts' -c 'show extents /etc/hosts' --json
  uext4 debug -w disk.img -c 'set inode <12> links_count 1'
  uext4 debug -w disk.img -f script
  echo 'show group 0' | uext4 debug disk.img";

const NOTES: &str = "\
Fields have the names of debugfs(8);
`show` lists them. Numbers are decimal, 0x hexadecimal or, with a leading 0, octal; a time may be a
date (UTC). A set computes the checksum of its structure, and changes nothing else: `uext4 fsck -n`
says what does not fit. The device is shown as it is: the journal is not replayed.

Without -w nothing is written, and a note says if the image is in use. With -w, an image in use is
refused, and one whose journal is to be replayed is asked about, since the replay may write over a
change; -y answers yes.";

impl Args {
    pub(crate) fn run(self) -> Result<()> {
        let name = self.image.name();
        let purpose = if self.write {
            Purpose::Change
        } else {
            Purpose::Read
        };
        if !self.write {
            super::snapshot::read_mount(&self.image)?;
        }
        let options = self.image.journal_options(purpose).at(&name)?;
        let device = self.image.device(purpose)?;
        if !self.write {
            self.image.say_other_writer();
        }
        if self.write {
            uext4::refuse_other_hosts(&device).at(&name)?;
        }
        if self.write && !self.yes {
            ask_about_replay(&name, &*device)?;
        }
        let journal = options.journal_device;
        let debugger = Debugger::new(device, journal, Memory::new(self.memory));
        match &self.file {
            _ if !self.command.is_empty() => {
                let mut lines = self.command.iter();
                lines.try_for_each(|line| self.run_line(&debugger, line))
            }
            Some(file) if file.as_os_str() != "-" => {
                let opened = File::open(file).at(file.display())?;
                self.run_lines(&debugger, BufReader::new(opened))
            }
            _ => self.run_lines(&debugger, std::io::stdin().lock()),
        }
    }

    fn run_lines(&self, debugger: &Debugger, lines: impl BufRead) -> Result<()> {
        for line in lines.lines() {
            self.run_line(debugger, &line.at("commands")?)?;
        }
        Ok(())
    }

    /// Runs a command. The first one that fails ends the script.
    fn run_line(&self, debugger: &Debugger, line: &str) -> Result<()> {
        let mut out = show::stdout();
        if line.trim() == "help" {
            writeln!(out, "{HELP}")?;
            return Ok(out.flush()?);
        }
        let Some(command) = Command::parse(&dated(line)) else {
            return Ok(());
        };
        let answer = debugger.run(&command).at(line.trim())?;
        if self.json {
            writeln!(out, "{}", as_json(line.trim(), &answer))?;
        } else {
            print(&mut out, &answer)?;
        }
        Ok(out.flush()?)
    }
}

/// The command with the seconds of a date in the place of its last word, if the field is a time.
fn dated(line: &str) -> String {
    let line = line.trim_end();
    let Some((head, text)) = line.rsplit_once(' ') else {
        return line.to_owned();
    };
    let is_time = head.ends_with("time") || head.ends_with("lastcheck");
    match date::parse(text) {
        Ok(time) if is_time => format!("{head} {}", time.seconds),
        _ => line.to_owned(),
    }
}

/// Asks whether to change an image whose journal is to be replayed.
fn ask_about_replay(name: &str, device: &dyn BlockDevice) -> Result<()> {
    let disk = uext4::read_superblock(device, None);
    if !disk.is_ok_and(|disk| disk.features().has(Feature::RECOVER)) {
        return Ok(());
    }
    let text = format!("{name}: its journal is to be replayed, which may write over changes");
    let failure = Failure::new(Exit::Failed, text.clone());
    let failure = failure.hint("`uext4 replay` replays it, -y changes the image all the same");
    if !std::io::stdin().is_terminal() {
        return Err(failure);
    }
    let mut out = std::io::stdout();
    write!(out, "{text}. Change it? (y/n) ")?;
    out.flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    match line.trim() {
        "y" | "yes" => Ok(()),
        _ => Err(failure),
    }
}

fn print(out: &mut dyn Write, answer: &Answer) -> Result<()> {
    for row in &answer.rows {
        if answer.is_single {
            for (name, value) in row {
                writeln!(out, "{name:<26}{}", in_words(name, value))?;
            }
        } else {
            let fields = row
                .iter()
                .map(|(name, value)| format!("{name}={}", show_value(value)));
            writeln!(out, "{}", fields.collect::<Vec<_>>().join(" "))?;
        }
    }
    Ok(())
}

/// A value for a person: with its hexadecimal or octal digits, or its date.
fn in_words(name: &str, value: &Value) -> String {
    let text = show_value(value);
    let Value::Number(number) = value else {
        return text;
    };
    let is_time = name.ends_with("time") || name == "lastcheck";
    match name {
        _ if is_time && *number > 0 => {
            let seconds = uext4_num::clamp_i64(*number).min(1 << 40);
            let date = date::show(uext4::Timestamp::new(seconds, 0));
            format!("{text} ({date} UTC)")
        }
        "mode" => format!("{text} (0{number:o})"),
        _ if name.contains("flags") || name.contains("feature") || name.contains("magic") => {
            format!("{text} ({number:#x})")
        }
        _ if name.contains("checksum") || name.ends_with("csum") => format!("{text} ({number:#x})"),
        _ => text,
    }
}

fn as_json(line: &str, answer: &Answer) -> Json {
    let rows: Vec<Json> = answer.rows.iter().map(object).collect();
    json!({ "command": line, "rows": rows })
}

fn object(row: &Row) -> Json {
    let fields = row.iter().map(|(name, value)| {
        let value = match value {
            Value::Number(number) => json!(number),
            Value::Text(text) => json!(show::Name::new(text)),
            Value::Uuid(_) => json!(show_value(value)),
            Value::Words(words) => json!(words),
        };
        ((*name).to_owned(), value)
    });
    Json::Object(fields.collect::<Map<String, Json>>())
}
