//! From the text of a table to its partitions.

use std::io::Read;
use std::path::{Path, PathBuf};

use uext4_num::u64_of;

use super::lines::{self, Text};
use super::{
    Contents, ENTRIES_SECTORS, Fault, GPT_FIRST, Label, Line, MIB_SECTORS, Problem, SECTORS_MAX,
    Table, words,
};

/// Most bytes of a table.
const TEXT_MAX: u64 = 1 << 20;

impl Table {
    /// Reads a table. Its files are beside it.
    ///
    /// # Errors
    /// Of the file; a line that is wrong, or asks for what is not supported.
    pub fn read(path: &Path) -> Result<Table, Fault> {
        let file = path.display().to_string();
        let failed = |problem| Fault {
            file: file.clone(),
            line: 0,
            key: String::new(),
            problem,
        };
        let mut text = Vec::new();
        let opened = std::fs::File::open(path);
        let read = opened.and_then(|opened| opened.take(TEXT_MAX + 1).read_to_end(&mut text));
        read.map_err(|error| failed(Problem::Content(error)))?;
        if u64_of(text.len()) > TEXT_MAX {
            return Err(failed(Problem::TooLong));
        }
        let directory = path.parent().unwrap_or(Path::new(""));
        Table::parse(&file, directory, &text)
    }

    /// Reads the text of a table with this name in messages. Its files are in `directory`.
    ///
    /// # Errors
    /// As [`Table::read`].
    pub fn parse(file: &str, directory: &Path, text: &[u8]) -> Result<Table, Fault> {
        let mut parser = Parser {
            table: Table {
                file: file.to_owned(),
                label: Label::Gpt(None),
                first: MIB_SECTORS,
                last: None,
                grain: MIB_SECTORS,
                lines: Vec::new(),
            },
            directory: directory.to_path_buf(),
            headers: Vec::new(),
        };
        for (nr, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let line = std::str::from_utf8(line);
            let line = line.map_err(|_| parser.table.fault(nr, "", Problem::NoText))?;
            parser.line(nr, line)?;
        }
        parser.end()
    }
}

/// More than there are, as a bound on the search for one that is there twice.
const HEADERS_MAX: usize = 16;

/// A table as far as it is read.
pub(super) struct Parser<'a> {
    pub(super) table: Table,
    pub(super) directory: PathBuf,
    /// Lines, names and values.
    headers: Vec<(usize, &'a str, &'a str)>,
}

impl<'a> Parser<'a> {
    fn line(&mut self, nr: usize, line: &'a str) -> Result<(), Fault> {
        match lines::sort(line) {
            Text::Nothing => Ok(()),
            Text::Header { name, value } => {
                let problem = if !self.table.lines.is_empty() {
                    Problem::Refused("headers stand before the partitions")
                } else if self.headers.len() >= HEADERS_MAX {
                    Problem::Refused("there are more headers than sfdisk has")
                } else if self.headers.iter().any(|(_, other, _)| *other == name) {
                    Problem::Twice
                } else {
                    self.headers.push((nr, name, value));
                    return Ok(());
                };
                Err(self.table.fault(nr, name, problem))
            }
            Text::Partition { device, fields } => {
                if self.table.lines.is_empty() {
                    self.take_headers(nr)?;
                }
                let fields = lines::fields(fields);
                let fields = fields.map_err(|problem| self.table.fault(nr, "", problem))?;
                let number = self.number(device);
                let number = number.map_err(|problem| self.table.fault(nr, "", problem))?;
                let line = self.partition(Line::new(nr, number, self.usual_kind()), &fields)?;
                self.table.lines.push(line);
                Ok(())
            }
        }
    }

    /// Follows the headers, the label first. `nr` is the line of the first partition.
    fn take_headers(&mut self, nr: usize) -> Result<(), Fault> {
        let headers = std::mem::take(&mut self.headers);
        let label = headers.iter().find(|(_, name, _)| *name == "label");
        let Some((line, _, label)) = label else {
            let problem = Problem::Refused("a header before the partitions says label: gpt or dos");
            return Err(self.table.fault(nr, "", problem));
        };
        self.table.label = match *label {
            "gpt" => Label::Gpt(None),
            "dos" => Label::Dos(None),
            value => {
                let problem = wrong(value, "a kind of table that is made here: gpt or dos");
                return Err(self.table.fault(*line, "label", problem));
            }
        };
        for &(line, name, value) in &headers {
            let taken = self.header(name, value);
            taken.map_err(|problem| self.table.fault(line, name, problem))?;
        }
        match self.table.last {
            Some(last) if last < self.table.first => {
                let given = headers.iter().find(|(_, name, _)| *name == "last-lba");
                let line = given.map_or(nr, |(line, ..)| *line);
                let problem = Problem::Refused("it is before the first usable sector");
                Err(self.table.fault(line, "last-lba", problem))
            }
            _ => Ok(()),
        }
    }

    fn header(&mut self, name: &str, value: &str) -> Result<(), Problem> {
        const NUMBER: &str = "a number of sectors";
        let number = || words::number(value).ok_or_else(|| wrong(value, NUMBER));
        match (name, &mut self.table.label) {
            ("label" | "device", _) => {} // the device is that of a dump
            ("label-id", Label::Gpt(disk)) => {
                let guid = words::guid(value).ok_or_else(|| wrong(value, "a GUID"))?;
                *disk = Some(guid);
            }
            ("label-id", Label::Dos(disk)) => {
                let id = words::disk_id(value);
                *disk = Some(id.ok_or_else(|| wrong(value, "0x and up to 8 digits"))?);
            }
            ("unit", _) if value == "sectors" => {}
            ("unit", _) => return Err(wrong(value, "the unit, which is sectors")),
            ("sector-size", _) if value == "512" => {}
            ("sector-size", _) => return Err(wrong(value, "the size of sectors here, 512")),
            ("first-lba" | "last-lba" | "table-length", Label::Dos(_)) => {
                return Err(Problem::Refused("only a GPT has it; leave it out"));
            }
            ("first-lba", _) => {
                self.table.first = number()?;
                if self.table.first < GPT_FIRST {
                    return Err(wrong(value, "a sector behind the table, from 34 on"));
                }
            }
            ("last-lba", _) => self.table.last = Some(number()?),
            ("table-length", _) if value == "128" => {}
            ("table-length", _) => return Err(wrong(value, "the length of tables here, 128")),
            ("grain", _) => {
                let grain = words::grain(value);
                let wanted = "a number of bytes: a multiple of 512 up to 1G";
                self.table.grain = grain.ok_or_else(|| wrong(value, wanted))?;
            }
            _ => {
                return Err(Problem::Refused(
                    "there is no header of this name; there are label, label-id, device, unit, \
                     first-lba, last-lba, grain, sector-size and table-length",
                ));
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<Table, Fault> {
        if self.table.lines.is_empty() {
            // Headers are followed at the first partition.
            let problem = Problem::FileSystems { count: 0 };
            return Err(self.table.fault(0, "", problem));
        }
        let own = |line: &&Line| line.contents == Contents::FileSystem;
        let count = self.table.lines.iter().filter(own).count();
        if count != 1 {
            let nr = self.table.lines.iter().filter(own).nth(1);
            let nr = nr.map_or(0, |line| line.line);
            let problem = Problem::FileSystems { count };
            return Err(self.table.fault(nr, "content", problem));
        }
        let end = SECTORS_MAX - ENTRIES_SECTORS;
        self.table.last = self.table.last.map(|last| last.min(end));
        Ok(self.table)
    }
}

pub(super) fn wrong(value: &str, wanted: &'static str) -> Problem {
    Problem::Value {
        value: value.to_owned(),
        wanted,
    }
}
