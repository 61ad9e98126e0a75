//! Errno values of replies.

/// A Linux errno in kernel format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const EIO: Errno = Errno(5);
    pub(crate) const EAGAIN: Errno = Errno(11);
    pub(crate) const EACCES: Errno = Errno(13);
    pub(crate) const EINVAL: Errno = Errno(22);
    pub(crate) const EPERM: Errno = Errno(1);
    pub(crate) const ENOTTY: Errno = Errno(25);
    pub(crate) const ENOSPC: Errno = Errno(28);
    pub(crate) const EROFS: Errno = Errno(30);
    pub(crate) const ERANGE: Errno = Errno(34);
    pub(crate) const ENOSYS: Errno = Errno(38);
    pub(crate) const EPROTO: Errno = Errno(71);
    pub(crate) const EOVERFLOW: Errno = Errno(75);
    pub(crate) const ENODATA: Errno = Errno(61);
    pub(crate) const EOPNOTSUPP: Errno = Errno(95);
    pub(crate) const ESTALE: Errno = Errno(116);
    pub(crate) const EUCLEAN: Errno = Errno(117);
    pub(crate) const EDQUOT: Errno = Errno(122);
}

/// Uses the library's table, the only one from errors to errno.
impl From<uext4::Error> for Errno {
    fn from(error: uext4::Error) -> Self {
        Errno(error.errno())
    }
}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> Self {
        std::io::Error::from_raw_os_error(errno.0)
    }
}
