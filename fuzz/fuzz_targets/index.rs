//! See [`uext4_fuzz::directories::index`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uext4_fuzz::directories::index(data));
