//! See [`uext4_fuzz::tables::mmp_and_orphans`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uext4_fuzz::tables::mmp_and_orphans(data));
