//! Paths that the operator lists: they stay what they were when they were resolved.

use std::{fs, os::unix::fs::symlink};

use drawloom_process::{Error, Layer, ListedPath};

use crate::support::{Room, launcher};

#[tokio::test]
async fn a_listed_path_that_became_a_link_is_refused_with_each_layer_off() {
    for off in [&[][..], &[Layer::Namespaces], &[Layer::Landlock], &[Layer::Seccomp]] {
        let room = Room::new();
        let outside = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let listed = room.volume.path().join("cache");
        fs::create_dir(&listed).expect("a directory");
        let listed = ListedPath::resolve(listed);
        let mut command = room.command(&format!("ls {0}; echo x > {0}/new", outside.path().display()));
        command.writable = vec![listed.clone()];
        fs::remove_dir(listed.real()).expect("removed");
        symlink(outside.path(), listed.real()).expect("a link");
        let refused = room.run_by(&launcher().without(off), &command).await;
        assert!(
            matches!(&refused, Err(Error::Refused { reason }) if reason.contains("replaced by a symlink")),
            "{refused:?}"
        );
        assert!(!outside.path().join("new").exists(), "without {off:?}");
    }
}

/// What the operator lists may be a link, also one inside the volume: it is followed once.
#[tokio::test]
async fn a_link_that_the_operator_lists_shows_what_it_led_to() {
    for off in [&[][..], &[Layer::Namespaces], &[Layer::Landlock]] {
        let room = Room::new();
        let outside = tempfile::tempdir_in("/var/tmp").expect("a directory");
        fs::write(outside.path().join("lib"), "library").expect("a file");
        let elsewhere = room.temporary.path().join("alias");
        for link in [room.volume.path().join("link"), elsewhere] {
            symlink(outside.path(), &link).expect("a link");
            let mut command = room.command(&format!("cat {}/lib", link.display()));
            command.readable = vec![ListedPath::resolve(link.clone())];
            let finished = room.run_by(&launcher().without(off), &command).await.expect("it runs");
            assert_eq!(finished.output.into_text(), "library", "{} without {off:?}", link.display());
        }
    }
}
