//! Types of files: in the mode of an inode, and in a directory entry.

/// Mask of the type bits of a mode.
const TYPE_MASK: u16 = 0o170000;

/// One row for each type: its name, its code in directory entries, its bits of a mode.
macro_rules! file_types {
    ($($(#[$doc:meta])* $name:ident = $code:literal $bits:literal;)*) => {
        /// Type of a file, by the upper four bits of a mode.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FileType {
            $($(#[$doc])* $name,)*
        }

        /// The type of a file, as stored in a directory entry.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum DirEntryType {
            /// Not stored: the feature `filetype` is off.
            Unknown,
            $($(#[$doc])* $name,)*
        }

        impl FileType {
            /// The type that a mode names, if any.
            pub fn from_mode(mode: u16) -> Option<FileType> {
                match mode & TYPE_MASK {
                    $($bits => Some(FileType::$name),)*
                    _ => None,
                }
            }

            /// The type bits of a mode.
            pub fn mode_bits(self) -> u16 {
                match self {
                    $(FileType::$name => $bits,)*
                }
            }

            /// The code in directory entries (with the feature `filetype`).
            pub fn dirent_code(self) -> u8 {
                match self {
                    $(FileType::$name => $code,)*
                }
            }

            /// The type of a directory entry's code; `None` for 0 and unknown codes.
            pub fn from_dirent_code(code: u8) -> Option<FileType> {
                match code {
                    $($code => Some(FileType::$name),)*
                    _ => None,
                }
            }
        }

        impl From<FileType> for DirEntryType {
            fn from(kind: FileType) -> Self {
                match kind {
                    $(FileType::$name => Self::$name,)*
                }
            }
        }

        impl DirEntryType {
            /// The type of file; `None` if it is not stored.
            pub fn file_type(self) -> Option<FileType> {
                match self {
                    Self::Unknown => None,
                    $(Self::$name => Some(FileType::$name),)*
                }
            }
        }
    };
}

file_types! {
    /// A regular file: code 1, `S_IFREG`.
    Regular = 1 0o100000;
    /// A directory: code 2, `S_IFDIR`.
    Directory = 2 0o040000;
    /// A character device: code 3, `S_IFCHR`.
    CharDevice = 3 0o020000;
    /// A block device: code 4, `S_IFBLK`.
    BlockDevice = 4 0o060000;
    /// A named pipe: code 5, `S_IFIFO`.
    Fifo = 5 0o010000;
    /// A Unix domain socket: code 6, `S_IFSOCK`.
    Socket = 6 0o140000;
    /// A symbolic link: code 7, `S_IFLNK`.
    Symlink = 7 0o120000;
}

impl DirEntryType {
    /// From the byte on disk; undefined codes count as unknown.
    pub fn from_code(code: u8) -> Self {
        FileType::from_dirent_code(code).map_or(Self::Unknown, Self::from)
    }

    /// From the type bits of an inode's mode.
    pub fn from_mode(mode: u16) -> Self {
        FileType::from_mode(mode).map_or(Self::Unknown, Self::from)
    }

    /// The byte on disk: 1 to 7, or 0 for an unknown type.
    pub fn code(self) -> u8 {
        self.file_type().map_or(0, FileType::dirent_code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_comes_back_and_unknown_ones_are_zero() {
        for code in 0..=u8::MAX {
            let known = (1..=7).contains(&code);
            let kind = DirEntryType::from_code(code);
            assert_eq!(kind.code(), if known { code } else { 0 });
            assert_eq!(kind.file_type(), FileType::from_dirent_code(code));
            assert_eq!(kind.file_type().is_some(), known);
        }
    }
}
