//! Ways out of a granted folder, tried by a hostile guest.
//!
//! Owns the ways. Refuses other grants.
//!
//! **Invariant:** beside the folder lies a secret, which no test ever reads through the guest.

use std::sync::atomic::{AtomicBool, Ordering};

use t2m_core::code::Code;
use t2m_sandbox::Access;
use tempfile::TempDir;

use crate::hostile_host::Host;

/// A folder `inside` with a file, next to a file that nobody granted, and links to it.
fn secret_beside() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(folder.path().join("secret"), "top secret").unwrap();
    std::fs::write(inside.join("file"), "fine").unwrap();
    std::os::unix::fs::symlink("../secret", inside.join("relative")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret"), inside.join("absolute")).unwrap();
    std::os::unix::fs::symlink("/proc/self/root/etc", inside.join("magic")).unwrap();
    std::os::unix::fs::symlink("file", inside.join("near")).unwrap();
    folder
}

/// Ways to say what isn't in the folder.
const OUTSIDE: [&str; 16] = [
    "../secret",
    "./../secret",
    "file/../../secret",
    "missing/../../secret",
    "near/../../secret",
    "//../secret",
    "..//secret",
    ".../../../secret",
    "../inside/../secret",
    "../INSIDE/file",
    "magic/passwd",
    "/etc/passwd",
    "/proc/self/environ",
    "/proc/self/fd/3",
    "/dev/zero",
    "\u{202e}terces/../../secret",
];

/// Links that lead out. They may be moved and renamed, not followed.
const LINKS: [&str; 4] = ["relative", "absolute", "relative/", "magic"];

/// Names that only look as if they led out, and are names in the folder like any other.
const LOOKALIKES: [&str; 4] =
    ["..\\secret", "..\u{2215}secret", "\u{ff0e}\u{ff0e}\u{ff0f}secret", "%2e%2e%2fsecret"];

/// P04: parents, absolute paths and links don't lead out, and a read-only folder isn't written.
#[tokio::test]
async fn no_path_leads_out_of_a_granted_folder() {
    let folder = secret_beside();
    let inside = folder.path().canonicalize().unwrap().join("inside");
    let at = |name: &str| inside.join(name).display().to_string();
    for access in [Access::ReadOnly, Access::ReadWrite] {
        let host = Host::with_folder(&inside, access).await;
        for name in ["file", "near", "../inside/file"] {
            // The last one leaves the folder on its way, which is refused even though it comes back.
            let expected = if name.starts_with("..") { Err(Code::ToolFailed) } else { Ok("fine".into()) };
            assert_eq!(host.text("read", &at(name)).await, expected, "{name}");
        }
        for name in OUTSIDE {
            for tool in ["read", "write", "list", "link", "move_out"] {
                let refused = host.text(tool, &at(name)).await;
                assert_eq!(refused, Err(Code::ToolFailed), "{tool} {name:?}");
            }
        }
        for name in LINKS {
            for tool in ["read", "write", "list"] {
                assert_eq!(host.text(tool, &at(name)).await, Err(Code::ToolFailed), "{tool} {name}");
            }
        }
        for name in LOOKALIKES {
            assert_eq!(host.text("read", &at(name)).await, Err(Code::ToolFailed), "{name}");
            let written = host.text("write", &at(name)).await;
            assert_eq!(written.is_ok(), access == Access::ReadWrite, "{name}: {written:?}");
        }
        let written = host.text("write", &at("new")).await;
        assert_eq!(written.is_ok(), access == Access::ReadWrite, "{written:?}");
        assert_eq!(inside.join("new").exists(), access == Access::ReadWrite);
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("secret")).unwrap(), "top secret");
    let beside: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(beside.len(), 2, "{beside:?}");
}

/// P04: a link that the guest makes itself leads nowhere either.
#[tokio::test]
async fn a_guest_makes_no_way_out() {
    let folder = secret_beside();
    let inside = folder.path().canonicalize().unwrap().join("inside");
    let host = Host::with_folder(&inside, Access::ReadWrite).await;
    for target in ["../secret", "..", "/", "/proc/self/root", "/dev/zero", "relative"] {
        // The guest makes the link and reads through it. Neither a link that starts at the root is made nor one
        // with a parent in it, which others might follow.
        let read = host.text("read_through_link", &format!("{}|{target}", inside.display())).await;
        assert_eq!(read, Err(Code::ToolFailed), "{target}");
        let made = std::fs::symlink_metadata(inside.join("made"));
        assert_eq!(made.is_ok(), target == "relative", "{target}");
    }
}

/// P04: a named pipe or a device is not opened, so nothing waits for it; the next call is served.
#[tokio::test]
async fn nothing_that_may_wait_for_ever_is_opened() {
    let folder = secret_beside();
    let inside = folder.path().canonicalize().unwrap().join("inside");
    let pipe = inside.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink("pipe", inside.join("to_pipe")).unwrap();
    let host = Host::with_folder(&inside, Access::ReadWrite).await;
    for name in ["pipe", "to_pipe"] {
        for tool in ["read", "write"] {
            let path = inside.join(name).display().to_string();
            assert_eq!(host.text(tool, &path).await, Err(Code::ToolFailed), "{tool} {name}");
        }
    }
    host.serves().await;
}

/// P04: a name that turns into a link while it is used never leads out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_comes_and_goes_leads_nowhere() {
    let folder = secret_beside();
    let root = folder.path().canonicalize().unwrap();
    let inside = root.join("inside");
    std::fs::create_dir(root.join("other")).unwrap();
    std::fs::write(root.join("other/file"), "top secret").unwrap();
    std::fs::create_dir(inside.join("a")).unwrap();
    std::fs::write(inside.join("a/file"), "fine").unwrap();
    std::os::unix::fs::symlink(root.join("other"), inside.join("b")).unwrap();
    let host = Host::with_folder(&inside, Access::ReadOnly).await;
    let done = AtomicBool::new(false);
    let (mut fine, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let (inside, done) = (&inside, &done);
        scope.spawn(move || {
            let at = |name: &str| inside.join(name);
            while !done.load(Ordering::Relaxed) {
                // The folder is `way` for a moment, then the link is.
                for name in ["a", "b"] {
                    std::fs::rename(at(name), at("way")).unwrap();
                    std::fs::rename(at("way"), at(name)).unwrap();
                }
            }
        });
        let path = inside.join("way/file").display().to_string();
        let work = async {
            // Until both were met, and no more often than a test may last.
            for _ in 0..20_000 {
                match host.text("read_often", &path).await {
                    Ok(text) => {
                        assert!(!text.contains("secret"), "{text}");
                        fine += text.matches("fine").count();
                        refused += text.matches("refused").count();
                    }
                    Err(code) => panic!("{code}"),
                }
                if fine > 100 && refused > 100 {
                    break;
                }
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work));
        done.store(true, Ordering::Relaxed);
    });
    assert!(fine > 0 && refused > 0, "{fine} {refused}");
}

/// P04: a folder that is replaced by a link after it was granted doesn't lead elsewhere.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_granted_folder_stays_the_one_that_was_granted() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (granted, other) = (root.join("granted"), root.join("other"));
    for path in [&granted, &other] {
        std::fs::create_dir(path).unwrap();
    }
    std::fs::write(granted.join("file"), "granted").unwrap();
    std::fs::write(other.join("file"), "other").unwrap();
    let host = Host::with_folder(&granted, Access::ReadOnly).await;
    std::fs::rename(&granted, root.join("moved")).unwrap();
    std::os::unix::fs::symlink(&other, &granted).unwrap();
    let file = granted.join("file").display().to_string();
    assert_eq!(host.text("read", &file).await, Ok("granted".into()));
}
