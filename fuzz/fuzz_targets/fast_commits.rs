//! See [`uext4_fuzz::journal::fast_commits`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uext4_fuzz::journal::fast_commits(data));
