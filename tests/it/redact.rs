//! Redacted copies, as a person makes them: golden files, permissions, the check for CI, and refusal at a run.

use std::os::unix::fs::PermissionsExt;

use t2m_tests::{HostCli, Outcome, TestEnv, golden};

/// T13: each case's copy is as expected, private, free of what it hid, and redacting it again changes nothing.
#[test]
fn copies_are_as_expected_private_and_stable() -> Outcome<()> {
    for case in golden::cases("redact")? {
        let env = TestEnv::new()?;
        let trace = case.join("trace.json");
        let before = std::fs::read(&trace)?;
        let redact = |args: &[&str]| HostCli::new(&env)?.arg("redact").args(args).output();
        let source = trace.to_string_lossy().into_owned();
        let out = redact(&[&source, "--out", "copy.json"])?.success()?;
        assert!(!out.stderr.contains("hunter22") && !out.stderr.contains("9f8e7d6c"), "{out:?}");
        let copy = env.read("copy.json")?;
        golden::check(&case, "expected.json", &copy)?;
        assert_eq!(std::fs::metadata(env.work().join("copy.json"))?.permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(&trace)?, before, "the recording is untouched");
        redact(&[&source, "--check"])?.expect_code(4)?;
        redact(&["copy.json", "--check"])?.success()?;
        redact(&["copy.json", "--out", "again.json"])?.success()?;
        assert_eq!(env.read("again.json")?, copy);
    }
    Ok(())
}
