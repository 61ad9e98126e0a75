//! See [`uext4_fuzz::directories::inline`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uext4_fuzz::directories::inline(data));
