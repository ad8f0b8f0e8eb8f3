//! Compiles the misbehaving guest, the one that sends requests, the SDK's first example and the plugins under test to components.

fn main() -> Result<(), t2m_plugin_build::Failure> {
    t2m_plugin_build::compile(&["tests/guests/hostile", "tests/guests/lent", "tests/guests/web", "plugins/files", "plugins/math"])?;
    Ok(())
}
