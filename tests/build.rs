//! Compiles the misbehaving guests to components and tells the tests where they are.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    for watched in ["tests/guests", "wit", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    // A folder of its own: the outer cargo holds the lock of the usual one.
    let target = root.join("target/guests");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(&root)
        .args(["build", "--profile", "guest", "--target", "wasm32-wasip2"])
        .args(["-p", "t2m-guest-hostile", "--target-dir"])
        .arg(&target)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    match cargo.status() {
        Ok(status) if status.success() => {}
        other => {
            println!(
                "cargo::error=the guest `t2m-guest-hostile` can't be built ({other:?}); is the target `wasm32-wasip2` there?"
            );
            std::process::exit(1);
        }
    }
    let wasm = target.join("wasm32-wasip2/guest/t2m_guest_hostile.wasm");
    println!("cargo::rustc-env=T2M_GUEST_HOSTILE={}", wasm.display());
}
