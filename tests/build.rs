//! Compiles the guests and the plugins under test to components.

fn main() -> Result<(), t2m_plugin_build::Failure> {
    t2m_plugin_build::compile(&[
        "tests/guests/hostile",
        "tests/guests/counter",
        "tests/guests/dated",
        "tests/guests/lent",
        "tests/guests/typed",
        "tests/guests/typed-files",
        "tests/guests/web",
        "plugins/files",
        "plugins/math",
        "plugins/time",
    ])?;
    Ok(())
}
