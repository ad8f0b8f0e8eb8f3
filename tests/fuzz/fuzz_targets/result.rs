//! Any bytes through the check `result` of the sandbox.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| t2m_sandbox::fuzz::result(bytes));
