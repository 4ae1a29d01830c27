//! The same promises for an ordinary user: root has powers that hide what is missing.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use crate::support::{count, program};

/// Who runs the tests again. The number has no name and owns nothing.
const USER: &str = "64123";

#[test]
fn everything_holds_for_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return count("not repeated: this is an ordinary user already");
    }
    // A copy that the user may read, laid out as cargo does.
    let directory = tempfile::tempdir().expect("a directory");
    let own = std::env::current_exe().expect("this program");
    for (from, to) in [(own.as_path(), "deps/it"), (&program(), "examples/launcher")] {
        let to = directory.path().join(to);
        fs::create_dir_all(to.parent().expect("a parent")).expect("a directory");
        fs::copy(from, &to).expect("a copy");
    }
    fs::create_dir(directory.path().join("tmp")).expect("a directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    fs::set_permissions(directory.path().join("tmp"), fs::Permissions::from_mode(0o777)).expect("permissions");
    let output = Command::new("setpriv")
        .args(["--reuid", USER, "--regid", USER, "--clear-groups"])
        .arg(directory.path().join("deps/it"))
        .args([
            "escapes",
            "guards",
            "gone",
            "terminals",
            "nothing_that_a_command_starts",
            "counted_over_all_processes",
            "jobs",
        ])
        .current_dir(directory.path())
        .env("TMPDIR", directory.path().join("tmp"))
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("setpriv, which every Linux has");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    for line in text.lines().filter(|line| line.contains("got through")) {
        count(&format!("as an ordinary user: {line}"));
    }
}
