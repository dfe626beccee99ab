#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| terrace_damage::targets::message(data));
