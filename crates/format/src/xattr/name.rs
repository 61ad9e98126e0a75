//! Attribute names: a number for the prefix, and the rest as stored.

/// The number of a name prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameIndex(pub u8);

impl NameIndex {
    /// No prefix known: the name is stored whole. Linux never writes it.
    pub const NONE: NameIndex = NameIndex(0);
    /// `user.`
    pub const USER: NameIndex = NameIndex(1);
    /// `system.posix_acl_access`, all of it.
    pub const POSIX_ACL_ACCESS: NameIndex = NameIndex(2);
    /// `system.posix_acl_default`, all of it.
    pub const POSIX_ACL_DEFAULT: NameIndex = NameIndex(3);
    /// `trusted.`
    pub const TRUSTED: NameIndex = NameIndex(4);
    /// Lustre's; no prefix of Linux.
    pub const LUSTRE: NameIndex = NameIndex(5);
    /// `security.`
    pub const SECURITY: NameIndex = NameIndex(6);
    /// `system.`: inline data is `system.data`.
    pub const SYSTEM: NameIndex = NameIndex(7);
    /// `system.richacl`: preserved, not interpreted.
    pub const RICHACL: NameIndex = NameIndex(8);
    /// Encryption contexts (name `c`): not visible as an attribute.
    pub const ENCRYPTION: NameIndex = NameIndex(9);
    /// `gnu.` of the Hurd.
    pub const HURD: NameIndex = NameIndex(10);

    /// The prefix text; `None` if Linux shows none.
    pub const fn prefix(self) -> Option<&'static str> {
        match self.0 {
            1 => Some("user."),
            2 => Some("system.posix_acl_access"),
            3 => Some("system.posix_acl_default"),
            4 => Some("trusted."),
            6 => Some("security."),
            7 => Some("system."),
            8 => Some("system.richacl"),
            10 => Some("gnu."),
            _ => None,
        }
    }

    /// True when the prefix is the whole name.
    const fn is_whole(self) -> bool {
        matches!(self.0, 2 | 3 | 8)
    }
}

/// A name as it is stored. The order is that of the entries in a block.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct XattrName {
    /// The number of the prefix, which the name on disk lacks.
    pub index: NameIndex,
    /// The rest: at most 255 bytes; empty if the prefix is the whole name.
    pub rest: Vec<u8>,
}

impl XattrName {
    /// A name from its stored parts.
    pub fn new(index: NameIndex, rest: &[u8]) -> Self {
        Self {
            index,
            rest: rest.to_vec(),
        }
    }

    /// The name of inline data.
    pub fn inline_data() -> Self {
        Self::new(NameIndex::SYSTEM, b"data")
    }

    /// From the full name that a program uses (`user.comment`). `None` if no prefix fits, or the
    /// rest is empty or longer than 255 bytes.
    pub fn from_full(full: &[u8]) -> Option<Self> {
        let whole = [
            NameIndex::POSIX_ACL_ACCESS,
            NameIndex::POSIX_ACL_DEFAULT,
            NameIndex::RICHACL,
        ];
        let prefixes = [1, 4, 6, 7, 10].map(NameIndex);
        for index in whole.into_iter().chain(prefixes) {
            let Some(rest) = full.strip_prefix(index.prefix()?.as_bytes()) else {
                continue;
            };
            if index.is_whole() && !rest.is_empty() {
                continue;
            }
            let fits = index.is_whole() || (1..=255).contains(&rest.len());
            return fits.then(|| Self::new(index, rest));
        }
        None
    }

    /// The full name that a program sees; `None` if it is not shown.
    pub fn full(&self) -> Option<Vec<u8>> {
        let prefix = self.index.prefix()?;
        Some([prefix.as_bytes(), &self.rest].concat())
    }

    fn key(&self) -> (u8, usize, &[u8]) {
        (self.index.0, self.rest.len(), &self.rest)
    }
}

impl PartialOrd for XattrName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for XattrName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
