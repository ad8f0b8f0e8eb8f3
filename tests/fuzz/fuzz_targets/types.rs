//! Any bytes through the check `types` of the sandbox.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| t2m_sandbox::fuzz::types(bytes));
