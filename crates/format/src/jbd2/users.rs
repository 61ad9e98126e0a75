//! Users of an external journal: their number, and a list of UUIDs.
//!
//! Layout: the number at byte 0x40 of the superblock, the list of up to 48 UUIDs at 0x100.

use super::{SUPERBLOCK_BYTES, Superblock};
use crate::Full;
use crate::bytes::{get_u32_be, put_slice, put_u32_be, rest, rest_mut};
use uext4_num::usize_of;

const COUNT_AT: usize = 0x40;
const LIST_AT: usize = 0x100;
const UUID_BYTES: usize = 16;
const USERS_MAX: u32 = 48;
const _: () = assert!(LIST_AT + 48 * UUID_BYTES == SUPERBLOCK_BYTES);

impl Superblock {
    /// Number of file systems that use this journal.
    pub fn users(&self) -> u32 {
        get_u32_be(self.raw(), COUNT_AT)
    }

    /// Whether the UUID is one of the users.
    pub fn has_user(&self, uuid: &[u8; UUID_BYTES]) -> bool {
        let (known, _) = rest(self.raw(), LIST_AT).as_chunks::<UUID_BYTES>();
        let users = usize_of(self.users().min(USERS_MAX));
        known.iter().take(users).any(|entry| entry == uuid)
    }

    /// Whether it has users with different UUIDs.
    pub fn is_shared(&self) -> bool {
        let (known, _) = rest(self.raw(), LIST_AT).as_chunks::<UUID_BYTES>();
        let mut users = known.iter().take(usize_of(self.users().min(USERS_MAX)));
        let first = users.next();
        users.any(|user| Some(user) != first)
    }

    /// Appends the UUID of a file system to the users, unless it is there.
    ///
    /// # Errors
    /// [`Full`] when the list is full.
    pub fn add_user(&mut self, uuid: &[u8; UUID_BYTES]) -> Result<(), Full> {
        let users = self.users();
        if self.has_user(uuid) {
            return Ok(());
        }
        if users >= USERS_MAX {
            return Err(Full);
        }
        let at = usize_of(users).saturating_mul(UUID_BYTES);
        put_slice(rest_mut(self.raw_mut(), LIST_AT), at, uuid);
        put_u32_be(self.raw_mut(), COUNT_AT, users.saturating_add(1));
        Ok(())
    }

    /// Removes the UUID of a file system from the users, if it is there; the others keep their
    /// order.
    pub fn remove_user(&mut self, uuid: &[u8; UUID_BYTES]) {
        let users = self.users().min(USERS_MAX);
        let list = rest_mut(self.raw_mut(), LIST_AT);
        let mut entries: Vec<[u8; UUID_BYTES]> = list.as_chunks().0.to_vec();
        entries.truncate(usize_of(users));
        entries.retain(|entry| entry != uuid);
        list.fill(0);
        for (at, entry) in entries.iter().enumerate() {
            put_slice(list, at.saturating_mul(UUID_BYTES), entry);
        }
        let left = u32::try_from(entries.len()).unwrap_or(USERS_MAX);
        put_u32_be(self.raw_mut(), COUNT_AT, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_counted_and_listed_until_the_list_is_full() {
        let mut journal = Superblock::new(1024, 1024, 1, [7; 16]);
        assert_eq!((journal.users(), journal.is_shared()), (0, false));
        for nr in 0..48_u8 {
            assert_eq!(journal.add_user(&[nr; 16]), Ok(()));
            assert_eq!(journal.add_user(&[nr; 16]), Ok(()), "it is there");
            journal = Superblock::parse(&journal.encode()).expect("sound");
        }
        assert_eq!(
            (journal.users(), journal.add_user(&[99; 16])),
            (48, Err(Full))
        );
        let bytes = journal.encode();
        assert_eq!((bytes[0xFF], bytes[0x110], bytes[0x3FF]), (0, 1, 47));
    }

    /// Earlier releases entered a file system again after a crash.
    #[test]
    fn a_user_that_is_listed_twice_is_one() {
        let mut bytes = Superblock::new(1024, 1024, 1, [7; 16]).encode();
        bytes[0x43] = 2;
        bytes[0x100..0x120].fill(9);
        let journal = Superblock::parse(&bytes).expect("sound");
        assert_eq!((journal.users(), journal.is_shared()), (2, false));
        bytes[0x110] = 8;
        let journal = Superblock::parse(&bytes).expect("sound");
        assert!(journal.is_shared());
    }

    #[test]
    fn a_hostile_number_of_users_is_full() {
        let mut bytes = Superblock::new(1024, 1024, 1, [7; 16]).encode();
        bytes[0x40] = 0xFF;
        let mut journal = Superblock::parse(&bytes).expect("not checked");
        assert_eq!(journal.add_user(&[9; 16]), Err(Full));
    }

    #[test]
    fn a_user_goes_and_the_others_stay() {
        let mut journal = Superblock::new(1024, 1024, 1, [7; 16]);
        for nr in 1..4_u8 {
            assert_eq!(journal.add_user(&[nr; 16]), Ok(()));
        }
        let mut expected = Superblock::new(1024, 1024, 1, [7; 16]);
        for nr in [1, 3_u8] {
            assert_eq!(expected.add_user(&[nr; 16]), Ok(()));
        }
        journal.remove_user(&[2; 16]);
        assert_eq!(journal.encode(), expected.encode());
        journal.remove_user(&[2; 16]);
        assert_eq!(journal.encode(), expected.encode());
    }
}
