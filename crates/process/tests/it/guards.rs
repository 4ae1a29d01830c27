//! Files that a command must not change or see, although it may change the directory that they are in.

use drawloom_process::{End, Error, Exceeded, Guard, Guarded, Layer, ListedPath, Resource};

use crate::support::{Room, count, launcher};

/// Ways to change `sub/config` or to put another file in its place; each must fail.
const CHANGES: &[&str] = &[
    "echo x > sub/config",
    "echo x >> sub/config",
    "truncate -s 0 sub/config",
    "rm sub/config",
    "rm -rf sub && ! test -e sub/config",
    "mv sub/config sub/other",
    "echo x > new && mv new sub/config",
    "mv sub elsewhere",
    "mkdir new && mv -T new sub",
    "ln sub/config second && echo x > second",
    "ln -s sub/config link && echo x > link",
    "ln -sf /dev/null sub/config",
    "chmod 666 sub/config",
    "touch -d @1 sub/config",
    "mount --bind /dev/null sub/config",
    "umount sub/config",
    "umount -l sub && echo x > sub/config",
    "sed -i s/k/x/ sub/config",
    "cp /dev/null sub/config",
    "dd if=/dev/zero of=sub/config count=1",
    "perl -e 'open(F, q(+<), q(sub/config)) or exit 1; print F q(x)'",
    "unshare -Um umount sub/config",
];

/// Ways to read `sub/.env`; none may show it.
const LOOKS: &[&str] = &[
    "cat sub/.env",
    "cat /proc/self/cwd/sub/.env",
    "ln sub/.env second && cat second",
    "cp -r sub copy && cat copy/.env",
    "mv sub/.env seen; cat seen",
    "tar c sub | cat",
    "umount sub/.env; cat sub/.env",
    "grep -r s3cret .",
];

fn project(room: &Room) -> Vec<Guarded> {
    let sub = room.volume.path().canonicalize().expect("a path").join("sub");
    std::fs::create_dir(&sub).expect("a directory");
    std::fs::write(sub.join("config"), "kept").expect("a file");
    std::fs::write(sub.join(".env"), "s3cret").expect("a file");
    vec![
        Guarded { path: sub.join("config"), rule: Guard::ReadOnly },
        Guarded { path: sub.join(".env"), rule: Guard::Hidden },
    ]
}

#[tokio::test]
async fn a_guarded_file_cannot_be_changed_replaced_or_read() {
    for off in [&[][..], &[Layer::Landlock], &[Layer::Seccomp]] {
        let launcher = launcher().without(off);
        if !launcher.confinement().expect("a probe").namespaces.is_on() {
            return count("not tried: this machine has no namespaces");
        }
        for script in CHANGES.iter().chain(LOOKS) {
            let room = Room::new();
            let mut command = room.command(script);
            command.guarded = project(&room);
            let finished = room.run_by(&launcher, &command).await.expect("it runs");
            let output = finished.output.into_text();
            if CHANGES.contains(script) {
                assert!(
                    matches!(finished.end, End::Exited(1..)),
                    "{script} without {off:?}: {:?} {output}",
                    finished.end
                );
            }
            assert!(!output.contains("s3cret"), "{script} without {off:?}: {output}");
            for (name, content) in [("sub/config", "kept"), ("sub/.env", "s3cret")] {
                let now = std::fs::read_to_string(room.volume.path().join(name));
                assert_eq!(now.ok().as_deref(), Some(content), "{script} without {off:?}: {name}");
            }
        }
    }
    count(&format!("{} ways to a guarded file tried on 3 machines, 0 got through", CHANGES.len() + LOOKS.len()));
}

#[tokio::test]
async fn the_rest_of_the_directory_can_be_used_and_the_config_read() {
    let room = Room::new();
    let mut command = room.command(
        "cat sub/config && echo new > sub/file && mkdir -p sub/deeper && mv sub/file sub/deeper && cat sub/deeper/file",
    );
    command.guarded = project(&room);
    let finished = room.run(&command).await.expect("it runs");
    assert_eq!((finished.end, finished.output.into_text().as_str()), (End::Exited(0), "keptnew\n"));
}

#[tokio::test]
async fn a_command_is_refused_where_a_file_cannot_be_guarded() {
    let room = Room::new();
    let mut command = room.command("true");
    command.guarded = project(&room);
    let refused = async |launcher| match room.run_by(&launcher, &command).await {
        Err(Error::Refused { reason }) => reason,
        other => panic!("{other:?}"),
    };
    let reason = refused(launcher().without(&[Layer::Namespaces])).await;
    assert!(reason.contains("config") && reason.contains("move the config out of the volume"), "{reason}");
    std::fs::hard_link(room.volume.path().join("sub/config"), room.volume.path().join("second")).expect("a link");
    let reason = refused(launcher()).await;
    assert!(reason.contains("another hard link"), "{reason}");
    std::fs::remove_file(room.volume.path().join("second")).expect("removed");
    std::fs::remove_file(room.volume.path().join("sub/config")).expect("removed");
    let reason = refused(launcher()).await;
    assert!(reason.contains("no longer exists"), "{reason}");
}

/// A rename outside takes the mount off the file, in every namespace: the command is ended before it can use that for long.
#[tokio::test]
async fn a_command_is_ended_when_a_guarded_file_is_replaced_while_it_runs() {
    for name in ["config", ".env"] {
        let room = Room::new();
        let mut command = room.command("echo up > started; sleep 1000");
        command.guarded = project(&room);
        let replace = async {
            let started = room.volume.path().join("started");
            while !started.exists() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            let sub = room.volume.path().join("sub");
            std::fs::write(sub.join("new"), "new").expect("a file");
            std::fs::rename(sub.join("new"), sub.join(name)).expect("replaced");
        };
        let (finished, ()) = tokio::join!(room.run(&command), replace);
        let end = finished.expect("it runs").end;
        assert!(matches!(end, End::Exceeded(Exceeded { resource: Resource::Guard, .. })), "{name}: {end:?}");
    }
}

/// A config that is known by another path is guarded there too.
#[tokio::test]
async fn a_guarded_file_is_guarded_under_every_path() {
    let room = Room::new();
    let guarded = project(&room);
    let alias = room.temporary.path().join("alias");
    std::os::unix::fs::symlink(room.volume.path().join("sub"), &alias).expect("a link");
    let elsewhere = tempfile::tempdir().expect("a directory");
    let mut command = room.command("");
    command.directory = std::sync::Arc::new(std::fs::File::open(elsewhere.path()).expect("a directory"));
    command.args = vec!["-c".into(), format!("cat {0}/.env; echo x >> {0}/config", alias.display())];
    command.writable = vec![ListedPath::resolve(alias)];
    command.guarded = guarded;
    let finished = room.run(&command).await.expect("it runs");
    assert!(matches!(finished.end, End::Exited(1..)) && !finished.output.into_text().contains("s3cret"));
    assert_eq!(std::fs::read_to_string(room.volume.path().join("sub/config")).expect("a file"), "kept");
}

/// Ways to make the link `dotfiles` lead elsewhere; each must fail.
const REPLACEMENTS: &[&str] = &[
    "rm dotfiles",
    "mv dotfiles elsewhere",
    "mkdir new && ln -sfn new dotfiles",
    "mkdir new && ln -s new link && mv -T link dotfiles",
    "rm -rf dotfiles; test ! -L dotfiles",
    "umount dotfiles",
];

#[tokio::test]
async fn a_guarded_link_leads_where_it_did_and_cannot_be_replaced() {
    for target in ["sub", "../nowhere-in-sight"] {
        for script in REPLACEMENTS {
            let room = Room::new();
            let mut command = room.command(&format!("cat dotfiles/config; {script}"));
            command.guarded = project(&room);
            let volume = room.volume.path().canonicalize().expect("a path");
            std::os::unix::fs::symlink(target, volume.join("dotfiles")).expect("a link");
            command.guarded.push(Guarded { path: volume.join("dotfiles"), rule: Guard::ReadOnly });
            if target == "sub" {
                command.guarded.push(Guarded { path: volume.join("sub"), rule: Guard::ReadOnly });
            }
            let finished = room.run(&command).await.expect("it runs");
            let output = finished.output.into_text();
            assert!(matches!(finished.end, End::Exited(1..)), "{script} to {target}: {:?} {output}", finished.end);
            assert_eq!(output.contains("kept"), target == "sub", "it is read through the link: {output}");
            let leads = std::fs::read_link(volume.join("dotfiles")).expect("still a link");
            assert_eq!(leads, std::path::Path::new(target), "{script}");
        }
    }
}

#[tokio::test]
async fn a_guarded_link_to_something_that_the_command_could_change_is_refused() {
    let room = Room::new();
    let mut command = room.command("true");
    let volume = room.volume.path().canonicalize().expect("a path");
    std::fs::create_dir(volume.join("open")).expect("a directory");
    std::os::unix::fs::symlink("open", volume.join("dotfiles")).expect("a link");
    command.guarded = vec![Guarded { path: volume.join("dotfiles"), rule: Guard::ReadOnly }];
    match room.run(&command).await {
        Err(Error::Refused { reason }) => assert!(reason.contains("open, which is not protected"), "{reason}"),
        other => panic!("{other:?}"),
    }
}
