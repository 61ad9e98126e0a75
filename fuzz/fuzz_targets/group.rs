//! See [`uext4_fuzz::tables::group`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uext4_fuzz::tables::group(data));
