//! Failure of a command: one sentence (cause, place, remedy) and an exit status.

use crate::helper::Caller;
use crate::show;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;
use uext4::device::User;

/// Result of a command, which `main` turns into an exit status.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Exit status of the tool, as `uext4 --help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The reader of standard output closed the pipe, so no message is printed.
    Quiet = 0,
    Failed = 1,
    Usage = 2,
    NotExt4 = 3,
    Damaged = 4,
    Busy = 5,
    /// `fsck(8)`: errors were corrected.
    Corrected,
    /// `fsck(8)`: operational error.
    Operational = 8,
    /// `fsck(8)`: usage error.
    Misuse = 16,
}

/// Exit statuses of `mount(8)` and `umount(8)`: usage error, and failure.
const MOUNT_USAGE: u8 = 1;
const MOUNT_FAILED: u8 = 32;

impl Exit {
    #[expect(clippy::as_conversions, reason = "the number of the variant")]
    fn number(self) -> u8 {
        match self {
            Exit::Corrected => 1,
            other => other as u8,
        }
    }

    /// The failing variant with this number; [`Exit::Failed`] for any other number.
    pub(crate) fn from_status(status: u8) -> Self {
        let all = [Self::Usage, Self::NotExt4, Self::Damaged, Self::Busy];
        let found = all.into_iter().find(|exit| exit.number() == status);
        found.unwrap_or(Self::Failed)
    }
}

/// Why a command failed: exit status, message and hint.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    text: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        let text = without_numbers(&text.into());
        Self { exit, text }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }

    /// Invalid mount options. The message names the word if the error does.
    pub(crate) fn options(list: &str, error: &uext4::Error) -> Self {
        match error {
            uext4::Error::Option(word) => Self::usage(format!("-o {word}")),
            other => Self::usage(format!("-o {list}: {other}")),
        }
    }

    /// The cause and its place, with the remedy if the cause has one.
    pub(crate) fn at(cause: &impl Cause, place: impl Display) -> Self {
        let (place, text) = (place.to_string(), cause.text());
        // Some causes already begin with the place.
        let text = if text.starts_with(&format!("{place} ")) {
            text
        } else {
            format!("{place}: {text}")
        };
        let failure = Self::new(cause.exit(), text);
        match cause.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.text = format!("{}; {hint}", self.text);
        self
    }

    /// A failure that was already printed: only its exit status counts.
    pub(crate) fn said(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    /// The status of `diff`, where 1 means that something differs: what fails has 2, as the wrong
    /// arguments have.
    pub(crate) fn of_comparison(self) -> Self {
        match self.exit {
            Exit::Failed if !self.text.is_empty() => Self {
                exit: Exit::Usage,
                ..self
            },
            _ => self,
        }
    }

    /// The status of `fsck(8)`, where 1 means that errors were corrected.
    pub(crate) fn of_fsck(self) -> Self {
        let exit = match self.exit {
            Exit::Usage => Exit::Misuse,
            Exit::Failed | Exit::NotExt4 | Exit::Busy => Exit::Operational,
            other => other,
        };
        Self { exit, ..self }
    }

    /// The result of a comparison that found differences.
    pub(crate) fn different() -> Self {
        Self::said(Exit::Failed)
    }

    /// Whether the reader of standard output closed the pipe.
    pub(crate) fn is_quiet(&self) -> bool {
        self.exit == Exit::Quiet
    }

    /// Prints the sentence and returns the exit status. For commands that continue.
    pub(crate) fn say(&self) -> Exit {
        if self.exit != Exit::Quiet && !self.text.is_empty() {
            eprintln!("uext4: {}", uext4_fuse::escape_controls(&self.text));
        }
        self.exit
    }

    /// Exit status and sentence, for transfer to another process.
    pub(crate) fn into_parts(self) -> (u8, String) {
        (self.exit.number(), self.text)
    }

    /// Prints the sentence and returns the exit status in the caller's numbering.
    pub(crate) fn report(self, caller: Caller) -> ExitCode {
        ExitCode::from(match (caller, self.say()) {
            (Caller::Anybody | Caller::Fsck, exit) => exit.number(),
            (_, Exit::Quiet) => 0,
            (_, Exit::Usage) => MOUNT_USAGE,
            _ => MOUNT_FAILED,
        })
    }
}

/// Prints a note to standard error; the command continues.
pub(crate) fn info(text: impl Display) {
    eprintln!(
        "uext4: note: {}",
        uext4_fuse::escape_controls(&text.to_string())
    );
}

/// Removes the suffix `(os error N)` that `std` appends to messages of the system.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |said, part| {
        said + part.split_once(')').map_or("", |(_, rest)| rest)
    })
}

/// Errors of writing to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Exit::Quiet, ""),
            _ => Self::new(Exit::Failed, format!("standard output: {error}")),
        }
    }
}

/// Errors that have an exit status.
pub(crate) trait Cause: Display {
    fn exit(&self) -> Exit;
    fn hint(&self) -> Option<&'static str> {
        None
    }
    /// The message, without the hint.
    fn text(&self) -> String {
        self.to_string()
    }
}

/// Converts an error into a [`Failure`] at a place.
pub(crate) trait At<T> {
    fn at(self, place: impl Display) -> Result<T>;
}

impl<T, E: Cause> At<T> for std::result::Result<T, E> {
    fn at(self, place: impl Display) -> Result<T> {
        self.map_err(|cause| Failure::at(&cause, place))
    }
}

impl Cause for io::Error {
    fn exit(&self) -> Exit {
        Exit::Failed
    }
}

impl Cause for rustix::io::Errno {
    fn exit(&self) -> Exit {
        Exit::Failed
    }
}

impl Cause for uext4::Error {
    fn exit(&self) -> Exit {
        use uext4::Error;
        match self {
            Error::Device(device) => device.exit(),
            Error::Corrupt(_) => Exit::Damaged,
            Error::Journal(_) | Error::Resize(_) if self.errno() == UCLEAN => Exit::Damaged,
            Error::Unsupported(_) | Error::Mount(_) => Exit::NotExt4,
            Error::Option(_) => Exit::Usage,
            Error::Busy => Exit::Busy,
            _ => Exit::Failed,
        }
    }

    fn text(&self) -> String {
        match self {
            uext4::Error::Device(device) => device.text(),
            uext4::Error::Mount(problem) => problem.clone(),
            other => other.to_string(),
        }
    }

    fn hint(&self) -> Option<&'static str> {
        use uext4::Error;
        match self {
            Error::Device(device) => device.hint(),
            Error::ReadOnly => {
                Some("a feature of this image allows only reading, `uext4 info` names it")
            }
            Error::NotEmpty | Error::IsDirectory => Some("-r works on directories"),
            Error::NoInodes => {
                Some("removing files frees some; `uext4 mkfs -N` makes a file system with more")
            }
            _ => None,
        }
    }
}

impl Cause for uext4_forensics::Error {
    fn exit(&self) -> Exit {
        match self {
            uext4_forensics::Error::Volume(error) => uext4::Error::from(error.clone()).exit(),
            uext4_forensics::Error::Memory { .. } => Exit::Failed,
        }
    }

    fn text(&self) -> String {
        match self {
            uext4_forensics::Error::Volume(error) => uext4::Error::from(error.clone()).text(),
            memory => memory.to_string(),
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            uext4_forensics::Error::Volume(error) => uext4::Error::from(error.clone()).hint(),
            uext4_forensics::Error::Memory { .. } => Some("--memory gives more"),
        }
    }
}

/// The path is the place; the text adds the component where a look-up ended.
impl Cause for uext4::path::PathError {
    fn exit(&self) -> Exit {
        self.error().exit()
    }

    fn hint(&self) -> Option<&'static str> {
        self.error().hint()
    }

    fn text(&self) -> String {
        match self.component() {
            Some(component) => format!("{}: {}", show::name(component), self.error().text()),
            None => self.error().text(),
        }
    }
}

/// `EUCLEAN` of Linux: the structure needs cleaning.
const UCLEAN: i32 = 117;

impl Cause for uext4::device::Error {
    fn exit(&self) -> Exit {
        use uext4::device::Error;
        match self {
            Error::Busy { .. } => Exit::Busy,
            Error::PartitionTable { .. }
            | Error::NoPartitionTable
            | Error::NoPartition { .. }
            | Error::PartitionCut { .. } => Exit::NotExt4,
            Error::OutOfRange { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        use uext4::device::Error;
        match self {
            Error::Busy { user, .. } => Some(remedy(user)),
            Error::PartitionTable { .. } | Error::NoPartitionTable => {
                Some("without --partition the whole is looked at")
            }
            Error::WriteProtected => Some("with -o ro it can be mounted"),
            Error::NoPartition { .. } => Some("`fdisk -l` lists those that are there"),
            Error::PartitionCut { .. } => Some("the image is only the front of a disk"),
            Error::Io { source, .. } if source.kind() == io::ErrorKind::IsADirectory => {
                Some("an image is a file or a block device")
            }
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self {
            uext4::device::Error::Io {
                op: "open", source, ..
            } => source.to_string(),
            uext4::device::Error::Busy { user, .. } => format!("in use: {user}"),
            uext4::device::Error::OutOfRange {
                offset,
                len: 0,
                size_bytes,
            } => format!("byte {offset} is past the end, which is at byte {size_bytes}"),
            other => other.to_string(),
        }
    }
}

/// The hint for each kind of user of the image.
fn remedy(user: &User) -> &'static str {
    match user {
        User::Mount { .. } | User::Process { .. } => "unmount it first",
        User::Host { .. } => "unmount it there first",
        User::Checker { .. } => {
            "wait for it; if none runs, `tune2fs -f -E clear_mmp` takes the mark away"
        }
        User::Swap { .. } => "swapoff ends that",
        User::Holder { .. } => "take that apart first",
        User::Unknown { .. } => "`fuser` or `lsof`, run by root, may find it",
    }
}

impl Cause for uext4::mkfs::Error {
    fn exit(&self) -> Exit {
        use uext4::mkfs::Error;
        match self {
            Error::Device(device) => device.exit(),
            Error::NoSpace(_) | Error::TooSmall => Exit::Failed,
            _ => Exit::Usage,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        use uext4::mkfs::Error;
        match self {
            Error::Device(device) => device.hint(),
            Error::TooSmall => {
                Some("give more, as 64M; without a letter SIZE is in KiB, and --size in bytes")
            }
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self {
            uext4::mkfs::Error::Device(device) => device.text(),
            uext4::mkfs::Error::TooSmall => "the size is too small for a file system".to_owned(),
            other => other.to_string(),
        }
    }
}
