//! Fields of the superblock of a journal.

use super::{Field, Form};

const fn field(name: &'static str, at: usize, form: Form) -> Field {
    Field::new(name, at, form)
}

/// Fields of the superblock of a journal, by offset.
pub const JOURNAL: &[Field] = &[
    field("magic", 0, Form::Be32),
    field("blocktype", 4, Form::Be32),
    field("blocksize", 12, Form::Be32),
    field("maxlen", 16, Form::Be32),
    field("first", 20, Form::Be32),
    field("sequence", 24, Form::Be32),
    field("start", 28, Form::Be32),
    field("errno", 32, Form::Be32),
    field("feature_compat", 36, Form::Be32),
    field("feature_incompat", 40, Form::Be32),
    field("feature_ro_compat", 44, Form::Be32),
    field("uuid", 48, Form::Uuid),
    field("nr_users", 64, Form::Be32),
    field("dynsuper", 68, Form::Be32),
    field("max_transaction", 72, Form::Be32),
    field("max_trans_data", 76, Form::Be32),
    field("checksum_type", 80, Form::U8),
    field("num_fc_blocks", 84, Form::Be32),
    field("head", 88, Form::Be32),
    field("checksum", 252, Form::Be32),
];
