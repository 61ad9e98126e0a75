//! Mount options that a remount cannot change.
//!
//! At a remount `mount(8)` repeats the whole line of fstab; a repeated option is no change.

use uext4::RemountError;

/// Fixed options, by the name before `=`.
const KEPT: [&str; 15] = [
    "allow_other",
    "gid",
    "io_uring",
    "loop",
    "loop_direct",
    "map",
    "no_io_uring",
    "no_sandbox",
    "offset",
    "partition",
    "sandbox",
    "uid",
    "untrusted",
    "writeback",
    "writethrough",
];

fn kept(word: &str) -> Option<&'static str> {
    let name = word.split('=').next().unwrap_or(word);
    KEPT.into_iter().find(|kept| *kept == name)
}

/// Fixed options of a mount.
pub(crate) struct FixedOptions(Vec<String>);

impl FixedOptions {
    /// Extracts the fixed options from `list`.
    pub(crate) fn new(list: &str) -> Self {
        let words = list.split(',').filter(|word| kept(word).is_some());
        Self(words.map(str::to_owned).collect())
    }

    /// The list without fixed options.
    ///
    /// # Errors
    /// A fixed option differs from that of the mount.
    pub(crate) fn leave_out(&self, list: &str) -> Result<String, RemountError> {
        let mut rest = Vec::new();
        for word in list.split(',') {
            match kept(word) {
                None => rest.push(word),
                Some(_) if self.0.iter().any(|had| had == word) => {}
                Some(name) => return Err(RemountError::Fixed(name)),
            }
        }
        Ok(rest.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_as_it_was_is_no_change() {
        let made = FixedOptions::new("noatime,uid=5,untrusted");
        let rest = made
            .leave_out("uid=5,ro,untrusted")
            .expect("they are the same");
        assert_eq!(rest, "ro");
        for other in ["uid=6", "ro,gid=5", "io_uring"] {
            assert!(made.leave_out(other).is_err(), "{other}");
        }
    }
}
