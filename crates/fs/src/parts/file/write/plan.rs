//! Decides how the next bytes of a write are stored.

use super::super::delay::When;
use super::super::io;
use super::Write;
use super::delay::Need;
use crate::parts::map::{self, ExtentState, Mapping};
use crate::state::inode::InodeState;
use crate::types::error::{Error, Result};
use uext4_format::BlockNr;
use uext4_num::{clamp_u32, u64_of};

/// How the next bytes are stored. Lengths count blocks from the next byte's on; the data may end
/// inside the last.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// In the inode; if it has no space, the file gets a map first.
    Inline,
    /// Not yet: first the last block of the file is zeroed behind its end.
    Gap,
    /// Over delayed blocks, in the buffer.
    Buffered,
    /// Over written blocks, on the device; the map does not change.
    Overwrite { start: BlockNr, len_blocks: u32 },
    /// To unwritten blocks, which become written.
    Unwritten { start: BlockNr, len_blocks: u32 },
    /// To the buffer, as delayed blocks.
    Delay(Need),
    /// To blocks that are allocated at once.
    Allocate { len_blocks: u32 },
}

/// Limits of the next piece; wide unless a reservation for the same bytes failed.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    when: When,
    blocks_max: u32,
}

impl Limits {
    pub(super) fn of(when: When) -> Self {
        Self {
            when,
            blocks_max: u32::MAX,
        }
    }

    /// After a failed reservation of delayed blocks: without space, the blocks are allocated at
    /// once; the quota may suffice for a part of them.
    ///
    /// # Errors
    /// The failure, if no other piece may succeed.
    pub(super) fn tighten(&mut self, failure: Error, need: &Need) -> Result<()> {
        let len_blocks = need.len_blocks();
        match failure {
            Error::NoSpace => self.when = When::AtOnce,
            Error::Quota if len_blocks > 1 => self.blocks_max = len_blocks / 2,
            other => return Err(other),
        }
        Ok(())
    }
}

impl Write<'_> {
    /// The next piece, at the front of the remaining data; `state` is the inode's.
    pub(super) fn plan(&self, state: &InodeState) -> Result<Piece> {
        if self.file.inline {
            return Ok(Piece::Inline);
        }
        if self.file.gap {
            return Ok(Piece::Gap);
        }
        let (block, within) = self.block_and_offset();
        if self.buffer.get(block.0.into()).is_some() {
            return Ok(Piece::Buffered);
        }
        let bytes = within + u64_of(self.data.len() - self.done);
        let blocks = clamp_u32(io::blocks_for(self.fs, bytes)).min(self.limits.blocks_max);
        Ok(match map::lookup(self.fs, state, block, blocks)? {
            Mapping::Mapped {
                start,
                len_blocks,
                state: ExtentState::Written,
            } => Piece::Overwrite { start, len_blocks },
            Mapping::Mapped {
                start,
                len_blocks,
                state: ExtentState::Unwritten,
            } => Piece::Unwritten { start, len_blocks },
            Mapping::Hole { len_blocks } => {
                let len_blocks = self.buffer.cut_hole(block.0.into(), len_blocks);
                match self.limits.when {
                    When::Later => Piece::Delay(self.need(state, block.0.into(), len_blocks)?),
                    When::AtOnce => Piece::Allocate { len_blocks },
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::file::{FallocateMode, Position, WritePolicy, fallocate, write};
    use crate::test_rig::Rig;

    const BLOCK: u64 = 1024;

    /// The first piece of a write of `len` bytes at `start`, in few words.
    fn first(rig: &Rig, start: u64, len: usize) -> String {
        let (mut buffer, state) = (rig.file.io.write(), rig.file.read());
        let data = vec![9; len];
        let (fs, inode) = (rig.fs(), rig.file.arc());
        let write = Write::new(
            fs,
            inode,
            &mut buffer,
            &state,
            start,
            &data,
            WritePolicy::INTERNAL,
        );
        match write.plan(&state).expect("a sound map") {
            Piece::Overwrite { len_blocks, .. } => format!("overwrite {len_blocks}"),
            Piece::Unwritten { len_blocks, .. } => format!("unwritten {len_blocks}"),
            Piece::Delay(need) => format!("delay {}", need.len_blocks()),
            Piece::Allocate { len_blocks } => format!("allocate {len_blocks}"),
            other => format!("{other:?}").to_lowercase(),
        }
    }

    /// Blocks 0 and 1 are written, 4 and 5 unwritten, and 8 is delayed, if data are.
    fn prepare(rig: &Rig) {
        let (fs, file) = (rig.fs(), rig.file.arc());
        let put = |block, len| {
            let position = Position::Offset(block * BLOCK);
            write(fs, file, position, &vec![1; len], WritePolicy::INTERNAL).expect("writes");
        };
        put(0, 2048);
        let held = 4 * BLOCK..6 * BLOCK;
        fallocate(
            fs,
            file,
            FallocateMode::Allocate,
            held,
            WritePolicy::INTERNAL,
        )
        .expect("allocates");
        put(8, 100);
    }

    #[test]
    fn pieces_follow_the_map_and_the_buffer() {
        let now = Rig::new(8, &["-b", "1024"]);
        let later = Rig::delayed(8, &["-b", "1024"], 1 << 20);
        let inline = Rig::new(8, &["-b", "1024", "-O", "inline_data", "-I", "512"]);
        prepare(&now);
        prepare(&later);
        for (start, len, at_once, delayed) in [
            (0, 10, "overwrite 1", "overwrite 1"),
            (1000, 9000, "overwrite 2", "overwrite 2"),
            (2 * BLOCK, 10, "allocate 1", "delay 1"),
            (2 * BLOCK + 5, 9000, "allocate 2", "delay 2"),
            (5 * BLOCK, 9000, "unwritten 1", "unwritten 1"),
            (6 * BLOCK, 9000, "allocate 2", "delay 2"),
            (8 * BLOCK + 50, 9000, "overwrite 1", "buffered"),
            // Up to the size, which is inside block 8, no gap is left.
            (8 * BLOCK + 100, 10, "overwrite 1", "buffered"),
            (8 * BLOCK + 101, 10, "gap", "gap"),
            (20 * BLOCK, 3000, "gap", "gap"),
            // Long writes are allocated at once.
            (2 * BLOCK, 1 << 20, "allocate 2", "allocate 2"),
        ] {
            let found = [first(&now, start, len), first(&later, start, len)];
            assert_eq!(found, [at_once, delayed], "{len} bytes at {start}");
            assert_eq!(first(&inline, start, len), "inline");
        }
        for rig in [now, later, inline] {
            rig.assert_clean();
        }
    }

    #[test]
    fn a_failed_reservation_limits_the_next_piece() {
        let rig = Rig::delayed(8, &["-b", "1024"], 1 << 20);
        let (mut buffer, state) = (rig.file.io.write(), rig.file.read());
        let (fs, inode, data) = (rig.fs(), rig.file.arc(), [9; 5000]);
        let mut write = Write::new(
            fs,
            inode,
            &mut buffer,
            &state,
            0,
            &data,
            WritePolicy::INTERNAL,
        );
        for expected in [5, 2, 1] {
            let Piece::Delay(need) = write.plan(&state).expect("an empty map") else {
                panic!("the data are delayed");
            };
            assert_eq!(need.len_blocks(), expected);
            let tightened = write.limits.tighten(Error::Quota, &need);
            assert_eq!(tightened.is_err(), expected == 1);
            write.limits.tighten(Error::ReadOnly, &need).unwrap_err();
            if expected == 1 {
                write.limits.tighten(Error::NoSpace, &need).expect("once");
            }
        }
        let at_once = Piece::Allocate { len_blocks: 1 };
        assert_eq!(write.plan(&state).expect("an empty map"), at_once);
    }
}
