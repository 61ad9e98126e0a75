//! From the fields of a line to a partition.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::lines::{self, Field};
use super::parse::{Parser, wrong};
use super::{Contents, Fault, Label, Line, PartitionType, Problem, Size, words};

/// The value of `content=` for the file system.
const BUILD: &str = "build";

impl Parser<'_> {
    /// The number of a partition: that at the end of the device, or the first unused one.
    pub(super) fn number(&self, device: Option<&str>) -> Result<u32, Problem> {
        let is_used = |number: &u32| self.table.lines.iter().any(|line| line.number == *number);
        let last = self.table.label.numbers();
        let number = match device {
            Some(device) => {
                let name = device.trim_end_matches(|c: char| c.is_ascii_digit());
                device[name.len()..].parse().ok()
            }
            None => (1..=last).find(|number| !is_used(number)),
        };
        let number = number.filter(|number| (1..=last).contains(number) && !is_used(number));
        number.ok_or(Problem::Number { last })
    }

    pub(super) fn usual_kind(&self) -> PartitionType {
        match self.table.label {
            Label::Gpt(_) => PartitionType::Gpt(words::LINUX),
            Label::Dos(_) => PartitionType::Dos(words::DOS_LINUX),
        }
    }

    pub(super) fn partition(&self, mut line: Line, fields: &[Field<'_>]) -> Result<Line, Fault> {
        let nr = line.line;
        for (place, field) in fields.iter().enumerate() {
            let key = field.key.to_ascii_lowercase();
            let mut before = fields[..place].iter();
            let taken = if before.any(|other| other.key.eq_ignore_ascii_case(&key)) {
                Err(Problem::Twice)
            } else {
                self.field(&mut line, &key, field.value)
            };
            taken.map_err(|problem| self.table.fault(nr, field.key, problem))?;
        }
        let mut others = self.table.lines.iter();
        if line.uuid.is_some() && others.any(|other| other.uuid == line.uuid) {
            let problem = Problem::Refused("another partition has the same one");
            Err(self.table.fault(nr, "uuid", problem))
        } else {
            Ok(line)
        }
    }

    fn field(&self, line: &mut Line, key: &str, value: Option<&str>) -> Result<(), Problem> {
        const SECTORS: &str = "a number of sectors, or of bytes with K, M, G or T behind it";
        let is_gpt = matches!(self.table.label, Label::Gpt(_));
        let given = value.ok_or(Problem::NoValue);
        match key {
            "bootable" if is_gpt => {
                return Err(Problem::Refused(
                    "it is a mark of label: dos; a GPT has attrs=LegacyBIOSBootable",
                ));
            }
            "bootable" => match value {
                Some(value) => return Err(wrong(value, "a value, since bootable has none")),
                None => line.is_bootable = true,
            },
            "uuid" | "name" | "attrs" if !is_gpt => {
                return Err(Problem::Refused("only a partition of a GPT has it"));
            }
            "start" => {
                let start = words::sectors(given?);
                line.start = Some(start.ok_or_else(|| wrong(given_or(value), SECTORS))?);
            }
            "size" if value == Some("+") => line.size = Size::Rest,
            "size" => {
                let size = words::sectors(given?).filter(|sectors| *sectors > 0);
                line.size = Size::Sectors(size.ok_or_else(|| wrong(given_or(value), SECTORS))?);
            }
            "type" => line.kind = words::kind(self.table.label, given?)?,
            "uuid" => {
                let guid = words::guid(given?);
                line.uuid = Some(guid.ok_or_else(|| wrong(given_or(value), "a GUID"))?);
            }
            "name" => line.name = words::name(&lines::bytes(given?))?,
            "attrs" => line.attributes = words::attributes(given?)?,
            "content" => line.contents = self.contents(given?)?,
            _ => {
                return Err(Problem::Refused(
                    "there is no key of this name; there are start, size, type, uuid, name, attrs, \
                     bootable and content, as KEY=VALUE",
                ));
            }
        }
        Ok(())
    }

    fn contents(&self, value: &str) -> Result<Contents, Problem> {
        let bytes = lines::bytes(value);
        match value {
            "" => Err(wrong(value, "the path of a file, or build")),
            BUILD => Ok(Contents::FileSystem),
            _ if bytes.contains(&0) => Err(wrong(value, "the path of a file, or build")),
            _ => Ok(Contents::File(
                self.directory.join(OsString::from_vec(bytes)),
            )),
        }
    }
}

fn given_or(value: Option<&str>) -> &str {
    value.unwrap_or_default()
}
