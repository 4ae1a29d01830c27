#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drawloom_models::fuzzing::check_responses(bytes));
