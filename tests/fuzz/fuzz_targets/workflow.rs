//! Any bytes through the check `workflow`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| t2m_fuzz::checks::workflow(bytes));
