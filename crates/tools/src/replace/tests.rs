use std::sync::Arc;

use drawloom_contract::tool::{Mode, Place};

use super::*;

#[test]
fn a_link_leads_to_its_file_also_while_that_is_replaced() {
    let volume = tempfile::tempdir().expect("a directory");
    std::fs::write(volume.path().join("a"), "old").expect("a file");
    std::os::unix::fs::symlink("a", volume.path().join("link")).expect("a link");
    let root = Arc::new(std::fs::File::open(volume.path()).expect("the volume"));
    let dir = Dir::from_std_file(root.try_clone().expect("a handle"));
    let opened = Opened {
        dir,
        place: Place {
            volume: "v".into(),
            root,
            mode: Mode::ReadWrite,
            guarded: Arc::default(),
            beside: Arc::default(),
            path: "link".into(),
        },
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                std::fs::write(volume.path().join("b"), "new").expect("a file");
                std::fs::rename(volume.path().join("b"), volume.path().join("a")).expect("the same directory");
            }
        });
        let found: Vec<_> = (0..20_000).map(|_| real_path(&opened)).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        for real in found {
            assert_eq!(real.expect("a path"), Path::new("a"));
        }
    });
}

#[test]
fn what_others_changed_after_the_plan_is_not_overwritten() {
    let volume = tempfile::tempdir().expect("a directory");
    std::fs::write(volume.path().join("a"), "somebody else's").expect("a file");
    let root = Arc::new(std::fs::File::open(volume.path()).expect("the volume"));
    let dir = Dir::from_std_file(root.try_clone().expect("a handle"));
    let place = Place {
        volume: "v".into(),
        root,
        mode: Mode::ReadWrite,
        guarded: Arc::default(),
        beside: Arc::default(),
        path: "a".into(),
    };
    let opened = Opened { dir, place };
    for before in [None, Some(Digest::of(b"planned on"))] {
        let change = Change { path: "a".into(), before, content: b"ours".into(), said: String::new() };
        let error = change.make(&opened, &Staging::named("staged"), &AtomicBool::new(false)).expect_err("it changed");
        assert_eq!(error.to_string(), "a: the file changed in the meantime; read it again");
        assert_eq!(std::fs::read_to_string(volume.path().join("a")).expect("the file"), "somebody else's");
        assert_eq!(std::fs::read_dir(volume.path()).expect("the directory").count(), 1);
    }
}
