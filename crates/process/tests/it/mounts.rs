//! What is mounted for a command stays with the command, also where the machine shares its mounts, as systemd does.

use std::{fs, process::Command};

use drawloom_process::{Access, End, Guard, Guarded};

use crate::support::{Room, count};

fn mounts() -> Vec<String> {
    fs::read_to_string("/proc/self/mountinfo").expect("a list").lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn nothing_stays_mounted_and_the_volume_stays_whole() {
    let room = Room::new();
    for name in ["config", ".env", "kept"] {
        fs::write(room.volume.path().join(name), name).expect("a file");
    }
    let volume = room.volume.path().canonicalize().expect("a path");
    let before = mounts();
    let mut command = room.command("cat kept");
    command.guarded = vec![
        Guarded { path: volume.join("config"), rule: Guard::ReadOnly },
        Guarded { path: volume.join(".env"), rule: Guard::Hidden },
    ];
    let finished = room.run(&command).await.expect("it runs");
    assert_eq!((finished.end, finished.trouble), (End::Exited(0), None));
    assert_eq!(mounts(), before, "nothing stays mounted");
    for name in ["config", ".env", "kept"] {
        assert_eq!(fs::read_to_string(volume.join(name)).expect("still there"), name);
    }
    assert!(!room.private().exists());
}

#[test]
fn the_same_where_mounts_are_shared() {
    if !rustix::process::geteuid().is_root() {
        return count("not tried: only root can share mounts");
    }
    let own = std::env::current_exe().expect("this program");
    let output = Command::new("unshare")
        .args(["-m", "--propagation", "shared"])
        .arg(own)
        .args(["nothing_stays_mounted", "guarded_file", "it_runs_in_its_directory"])
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("unshare, which every Linux has");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// Paths that something of the new root lies on too, or that are written in an odd way.
#[tokio::test]
async fn a_volume_can_be_anywhere() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"od d\\ \t\xff$");
    for parent in [tempfile::tempdir_in("/dev/shm"), tempfile::tempdir_in("/var/tmp"), tempfile::tempdir()] {
        let parent = parent.expect("a directory");
        let volume = parent.path().join(odd);
        fs::create_dir(&volume).expect("a directory");
        let room = Room::new();
        let mut command = room.command("echo x > made && cat made");
        command.directory = std::sync::Arc::new(fs::File::open(&volume).expect("the volume"));
        let finished = room.run(&command).await.expect("it runs");
        assert_eq!((finished.end, finished.output.into_text().as_str()), (End::Exited(0), "x\n"), "{parent:?}");
        assert!(volume.join("made").exists());
        command.access = Access::ReadOnly;
        assert!(matches!(room.run(&command).await.expect("it runs").end, End::Exited(1..)), "{parent:?}");
    }
}
