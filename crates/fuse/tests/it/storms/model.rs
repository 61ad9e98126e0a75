//! What each order to a mount must answer, and what the mount is after it.
//!
//! A model of few states. Where users come and go an order may find some of them by chance, so it
//! has a set of answers, and the answer that came decides the next state.

use uext4::Flush;
use uext4_fuse::Error;
use uext4_testkit::rng::Rng;

/// What can be asked of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Freeze,
    Thaw,
    ReadOnly,
    ReadWrite,
    Shutdown(Flush),
    Umount,
    UmountLazily,
    /// SIGTERM, and a wait until the mount is off.
    Terminate,
    /// SIGTERM, and the next order at once.
    TerminateInPassing,
}

/// How threads use the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    /// Files stay open throughout, some of them to be written.
    Keep,
    /// Each call opens its files and closes them.
    ComeAndGo,
}

/// The kinds of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Frozen,
    NotFrozen,
    Busy,
    /// An I/O error, as of a mount that is shut down.
    Shut,
    NotMounted,
    /// The server ended before it answered.
    ServerEnded,
    /// The image is off, and not clean.
    Lost,
    Other(String),
}

/// How far it is with a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Mounted,
    /// It is being taken off: an order may come before that or after.
    Leaving,
    /// At its path there is nothing; users that have files open are served.
    Detached,
    /// The server has closed the image, even if it was in use.
    Ended,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) users: Users,
    pub(crate) life: Life,
    pub(crate) is_frozen: bool,
    pub(crate) is_read_only: bool,
    pub(crate) is_shut: bool,
    /// Shut down without writing everything: the image needs its journal.
    pub(crate) has_loss: bool,
    n_signals: u32,
}

impl Outcome {
    pub(crate) fn of<T>(done: uext4_fuse::Result<T>) -> Self {
        let Err(error) = done else {
            return Self::Done;
        };
        let said = error.to_string();
        match error {
            Error::Frozen { .. } => Self::Frozen,
            Error::Busy { .. } => Self::Busy,
            Error::NotMounted { .. } => Self::NotMounted,
            Error::ServerEnded { .. } => Self::ServerEnded,
            Error::Server { .. } => Self::Lost,
            Error::System { source, .. } if source.raw_os_error() == Some(libc::EIO) => Self::Shut,
            Error::Refused(_) if said.contains("is not frozen") => Self::NotFrozen,
            Error::Refused(_) if said.contains("frozen") => Self::Frozen,
            Error::Refused(why) if why.errno == libc::EIO => Self::Shut,
            Error::Refused(why) if why.errno == libc::EBUSY => Self::Busy,
            other => Self::Other(format!("{other:?}")),
        }
    }
}

impl Order {
    pub(crate) fn is_signal(self) -> bool {
        matches!(self, Self::Terminate | Self::TerminateInPassing)
    }

    /// Draws one. A mount with users keeps `umount` for a second, so that it is rare there.
    pub(crate) fn draw(rng: &mut Rng, users: Users) -> Self {
        let flushes = [Flush::Everything, Flush::Log, Flush::Nothing];
        match rng.below(100) {
            0..30 => Self::Freeze,
            30..50 => Self::Thaw,
            50..62 => Self::ReadOnly,
            62..74 => Self::ReadWrite,
            74..80 => Self::Shutdown(*rng.pick(&flushes)),
            80..86 if users == Users::Keep && !rng.chance(25) => Self::Freeze,
            80..86 => Self::Umount,
            86..91 => Self::UmountLazily,
            91..96 => Self::Terminate,
            _ => Self::TerminateInPassing,
        }
    }
}

impl Model {
    pub(crate) fn new(users: Users) -> Self {
        Self {
            users,
            life: Life::Mounted,
            is_frozen: false,
            is_read_only: false,
            is_shut: false,
            has_loss: false,
            n_signals: 0,
        }
    }

    /// Whether `answer` is one that `order` may have now.
    pub(crate) fn allows(&self, order: Order, answer: &Outcome) -> bool {
        match (self.life, order) {
            // A signal has no answer.
            (_, Order::Terminate | Order::TerminateInPassing) => *answer == Outcome::Done,
            // Any answer: what counts is that there is one.
            (Life::Leaving, _) => true,
            // The server may be found, and says that it ends, or ends.
            (Life::Detached, Order::Thaw) => {
                [Outcome::NotMounted, Outcome::Busy, Outcome::ServerEnded].contains(answer)
            }
            // It may be found while it exits.
            (Life::Ended, Order::Thaw) => true,
            (Life::Detached | Life::Ended, _) => *answer == Outcome::NotMounted,
            (Life::Mounted, _) => self.allowed_mounted(order).contains(answer),
        }
    }

    fn allowed_mounted(&self, order: Order) -> &'static [Outcome] {
        use Outcome::{Busy, Done, Frozen, Lost, NotFrozen, Shut};
        let comes_and_goes = self.users == Users::ComeAndGo;
        match order {
            Order::Umount if !comes_and_goes => &[Busy],
            Order::Umount if self.has_loss => &[Busy, Lost],
            Order::Umount => &[Busy, Done],
            Order::UmountLazily if self.has_loss => &[Done, Lost],
            Order::UmountLazily => &[Done],
            Order::Shutdown(_) if self.is_shut => &[Done, Shut],
            Order::Shutdown(_) => &[Done],
            Order::Thaw if self.is_frozen => &[Done],
            Order::Thaw => &[NotFrozen],
            // The kernel is asked first.
            Order::ReadOnly if self.is_shut => &[Busy, Shut],
            _ if self.is_shut => &[Shut],
            _ if self.is_frozen => &[Frozen],
            Order::ReadOnly if self.is_read_only => &[Done],
            Order::ReadOnly if comes_and_goes => &[Busy, Done],
            Order::ReadOnly => &[Busy],
            _ => &[Done],
        }
    }

    /// Whether changes wait; what is read-only refuses them at once.
    pub(crate) fn parks_changes(&self) -> bool {
        self.is_frozen && !self.is_read_only
    }

    /// The state after `order` got `answer`.
    pub(crate) fn go_on(&mut self, order: Order, answer: &Outcome) {
        let is_done = *answer == Outcome::Done;
        match order {
            Order::Terminate | Order::TerminateInPassing => self.signal(order),
            // Of what was asked of it meanwhile nothing is known, but that it ends.
            _ if self.life != Life::Mounted => {}
            Order::Freeze if is_done => self.is_frozen = true,
            Order::Thaw => self.is_frozen = false,
            Order::ReadOnly if is_done => self.is_read_only = true,
            Order::ReadWrite if is_done => self.is_read_only = false,
            Order::Shutdown(flush) if !self.is_shut => self.shut(flush),
            Order::Umount | Order::UmountLazily => {
                // It thaws first, also when users are found after that.
                self.is_frozen = false;
                if *answer != Outcome::Busy {
                    self.life = Life::Detached;
                }
            }
            _ => {}
        }
    }

    fn shut(&mut self, flush: Flush) {
        let is_at_rest = self.is_frozen || self.is_read_only || flush == Flush::Everything;
        self.has_loss = !is_at_rest;
        (self.is_shut, self.is_frozen) = (true, false);
    }

    fn signal(&mut self, order: Order) {
        self.n_signals += 1;
        self.is_frozen = false;
        self.life = match self.life {
            Life::Ended => Life::Ended,
            Life::Mounted | Life::Leaving if order == Order::TerminateInPassing => Life::Leaving,
            _ if self.n_signals > 1 && order == Order::TerminateInPassing => Life::Leaving,
            _ if self.n_signals > 1 => Life::Ended,
            _ => Life::Detached,
        };
    }
}
