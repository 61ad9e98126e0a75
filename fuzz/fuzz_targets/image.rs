//! See [`uext4_fuzz::image::image`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| uext4_fuzz::image::image(data));
