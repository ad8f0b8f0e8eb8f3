//! Compiles the first-party plugins to components, so that the binary carries them.

fn main() -> Result<(), t2m_plugin_build::Failure> {
    t2m_plugin_build::compile(&[
        "plugins/fetch",
        "plugins/files",
        "plugins/json",
        "plugins/math",
        "plugins/memory",
        "plugins/time",
    ])?;
    Ok(())
}
