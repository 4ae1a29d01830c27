//! Broken and hostile workers: what they leave in a checkout is not accepted, does no harm, and is reported with its reason.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::{
        fd::OwnedFd,
        unix::{fs::symlink, net::UnixListener},
    },
    path::{Path, PathBuf},
    process::Command,
};

use drawloom_checkout::{Checkpoint, Config, LeftOut, Reason};
use rustix::fs::{Mode, OFlags, mkdirat, openat};

use crate::support::{Room, SECRET, git, write, write_program};

/// What a checkpoint left out, by path.
fn left_out(checkpoint: &Checkpoint) -> BTreeMap<&str, Reason> {
    checkpoint.left_out.iter().map(|LeftOut { path, reason }| (path.as_str(), *reason)).collect()
}

/// The paths that a checkpoint changed.
fn changed(checkpoint: &Checkpoint) -> Vec<&str> {
    checkpoint.changed.iter().map(|change| change.path.as_str()).collect()
}

/// A script that leaves a mark when it is run.
fn trap(room: &Room) -> (PathBuf, PathBuf) {
    let (mark, program) = (room.directory.path().join("mark"), room.directory.path().join("trap.sh"));
    write_program(&program, &format!("#!/bin/sh\necho ran \"$0\" \"$@\" >> {}\ncat\nexit 0\n", mark.display()));
    (program, mark)
}

#[tokio::test]
async fn files_with_secrets_by_name_or_content_are_left_out_and_listed() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    let secrets =
        [".env", ".env.local", "deep/.env.production", "server.pem", "tls.key", "id_rsa", "id_ed25519.pub", "cert.p12"];
    for name in secrets {
        write(&path.join(name), "x\n");
    }
    write(&path.join("config.toml"), &format!("password = \"{SECRET}\"\n"));
    write(&path.join("src/lib.rs"), &format!("const KEY: &str = \"{SECRET}\";\n"));
    write(&path.join("token.txt"), &format!("ghp_{}\n", "a1".repeat(18)));
    write(&path.join(".env.example"), "NAME=\n");
    write(&path.join("fine.txt"), "fine\n");
    let checkpoint = room.checkpoint("a", "k1").await;
    let mut expected: BTreeMap<&str, Reason> = secrets.iter().map(|name| (*name, Reason::SecretName)).collect();
    expected.extend([("config.toml", Reason::Secret), ("src/lib.rs", Reason::Secret), ("token.txt", Reason::Secret)]);
    assert_eq!(left_out(&checkpoint), expected);
    assert_eq!(changed(&checkpoint), [".env.example", "fine.txt"]);
    let commit = checkpoint.commit.expect("a commit");
    assert_eq!(room.show(&commit, "src/lib.rs"), "pub fn one() -> u32 {\n    1\n}");
    let objects =
        git(&room.repository, &["cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"]);
    for blob in objects.lines().filter_map(|line| line.strip_suffix(" blob")) {
        assert!(!git(&room.repository, &["cat-file", "blob", blob]).contains(SECRET), "{blob} has the secret");
    }
}

#[tokio::test]
async fn a_sparse_file_of_two_gigabytes_is_left_out_without_being_read() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    File::create(path.join("huge.bin")).and_then(|file| file.set_len(2 << 30)).expect("a sparse file");
    // A tracked file too.
    File::options().write(true).open(path.join("README.md")).and_then(|file| file.set_len(2 << 30)).expect("grown");
    write(&path.join("just.bin"), &"x".repeat(5_000_000));
    write(&path.join("over.bin"), &"x".repeat(5_000_001));
    let checkpoint = room.checkpoint("a", "k1").await;
    let large = [("README.md", Reason::TooLarge), ("huge.bin", Reason::TooLarge), ("over.bin", Reason::TooLarge)];
    assert_eq!(left_out(&checkpoint), large.into());
    assert_eq!(changed(&checkpoint), ["just.bin"]);
    assert_eq!(room.show(&checkpoint.commit.expect("a commit"), "README.md"), "# Project\n\nText.");
    let used = room.checkouts.usage(crate::support::GOAL).await.expect("usage").bytes;
    assert!(used < 1 << 30, "sparse files take no space: {used}");
}

#[tokio::test]
async fn a_file_below_thousands_of_folders_is_left_out_and_listed() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    // No path leads there: each folder is made in the one before.
    let mut folder: OwnedFd = File::open(&path).expect("the checkout").into();
    for _ in 0..3_000 {
        mkdirat(&folder, "d", Mode::RWXU).expect("a folder");
        folder = openat(&folder, "d", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).expect("opened");
    }
    openat(&folder, "file", OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR).expect("a file");
    write(&path.join("fine.txt"), "fine\n");
    let checkpoint = room.checkpoint("a", "k1").await;
    assert_eq!(changed(&checkpoint), ["fine.txt"]);
    let left = &checkpoint.left_out;
    assert_eq!(left.iter().map(|left| left.reason).collect::<Vec<_>>(), [Reason::PathTooLong]);
    assert!(left[0].path.starts_with("d/d/d/") && left[0].path.ends_with("d/"), "{}", left[0].path);
    let kept =
        room.checkouts.clean(crate::support::GOAL, drawloom_checkout::Cleanup::Auto, 1).await.expect("cleaned").kept;
    assert_eq!(kept.len(), 1, "what is in no commit is not removed");
    room.checkouts.clean(crate::support::GOAL, drawloom_checkout::Cleanup::Always, 1).await.expect("cleaned");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_huge_number_of_new_files_is_left_out_and_counted() {
    let room = Room::with_config(Config { max_new_files: 100, ..Config::default() });
    let (_, path) = room.one_writer().await;
    for number in 0..3000 {
        write(&path.join(format!("junk/{number}")), "x");
    }
    write(&path.join("README.md"), "changed\n");
    let checkpoint = room.checkpoint("a", "k1").await;
    assert_eq!(checkpoint.left_out_counts, [(Reason::TooMany, 3000)].into());
    assert_eq!(checkpoint.left_out.len(), 50);
    assert_eq!(changed(&checkpoint), ["README.md"]);
}

#[tokio::test]
async fn links_out_of_the_checkout_and_special_files_are_left_out() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    let outside = room.directory.path().join("outside");
    write(&outside.join("private"), "private\n");
    for (name, target) in [
        ("absolute", outside.join("private")),
        ("relative", "../../../../outside/private".into()),
        ("directory", outside.clone()),
        ("config", ".git/config".into()),
        ("good", "README.md".into()),
        ("dangling", "nowhere".into()),
        ("src/up", "../README.md".into()),
    ] {
        symlink(&target, path.join(name)).expect("a link");
    }
    // Over a link that stays inside, and then out of it.
    fs::create_dir_all(path.join("one/two")).expect("a directory");
    symlink("one/two", path.join("deep")).expect("a link");
    symlink("deep/../../../../../outside/private", path.join("chained")).expect("a link");
    // A directory of tracked files becomes a link to elsewhere.
    fs::remove_dir_all(path.join("tests")).expect("removed");
    write(&outside.join("check.sh"), "exit 0\n");
    symlink(&outside, path.join("tests")).expect("a link");
    rustix::fs::mkfifoat(rustix::fs::CWD, path.join("pipe"), rustix::fs::Mode::RUSR).expect("a pipe");
    fs::remove_file(path.join("src/main.rs")).expect("removed");
    rustix::fs::mkfifoat(rustix::fs::CWD, path.join("src/main.rs"), rustix::fs::Mode::RUSR).expect("a pipe");
    let _socket = UnixListener::bind(path.join("socket")).expect("a socket");
    let checkpoint = room.checkpoint("a", "k1").await;
    let (out, special) = (Reason::LeadsOut, Reason::SpecialFile);
    let expected = [
        ("absolute", out),
        ("relative", out),
        ("directory", out),
        ("config", out),
        ("chained", out),
        ("tests", out),
        ("pipe", special),
        ("src/main.rs", special),
        ("socket", special),
    ];
    assert_eq!(left_out(&checkpoint), expected.into());
    assert_eq!(changed(&checkpoint), ["dangling", "deep", "good", "src/up", "tests/check.sh"]);
    let commit = checkpoint.commit.expect("a commit");
    assert_eq!(room.show(&commit, "src/main.rs"), "fn main() {}");
    assert!(!room.paths(&commit).contains(&"tests/check.sh".to_owned()), "it is deleted, not read through the link");
}

#[tokio::test]
async fn names_of_the_git_directory_and_nested_repositories_are_left_out() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    for name in [".GIT/config", "a/.Git/hooks/pre-commit", "git~1", ".g\u{200c}it/config", ".git /x"] {
        write(&path.join(name), "x\n");
    }
    write(&path.join("vendor/nested/file"), "x\n");
    git(&path.join("vendor/nested"), &["init", "-q"]);
    git(&path.join("vendor/nested"), &["add", "."]);
    git(&path.join("vendor/nested"), &["commit", "-qm", "nested"]);
    write(&path.join("good"), "x\n");
    let checkpoint = room.checkpoint("a", "k1").await;
    let name = Reason::GitName;
    let expected = [
        (".GIT/config", name),
        ("a/.Git/hooks/pre-commit", name),
        ("git~1", name),
        (".g\u{200c}it/config", name),
        (".git /x", name),
        ("vendor/nested/", Reason::NestedRepository),
    ];
    assert_eq!(left_out(&checkpoint), expected.into());
    assert_eq!(changed(&checkpoint), ["good"]);
}

#[tokio::test]
async fn submodules_stay_as_they_are() {
    let room = Room::new();
    let library = room.directory.path().join("library");
    fs::create_dir(&library).expect("a directory");
    git(&library, &["init", "-q"]);
    git(&library, &["commit", "-q", "--allow-empty", "-m", "library"]);
    git(&room.repository, &["submodule", "add", "-q", library.to_str().expect("text"), "lib"]);
    room.commit("a submodule");
    let (prepared, path) = room.one_writer().await;
    assert!(prepared.warnings[0].starts_with("submodules are not checked out (lib)"), "{:?}", prepared.warnings);
    // The worker makes a repository with a hostile setting where the submodule is, and one more commit.
    let (program, mark) = trap(&room);
    let nested = path.join("lib");
    git(&nested, &["init", "-q"]);
    write(&nested.join("file"), "x\n");
    git(&nested, &["add", "."]);
    git(&nested, &["commit", "-qm", "other"]);
    git(&nested, &["config", "core.fsmonitor", program.to_str().expect("text")]);
    write(&path.join("good"), "x\n");
    let checkpoint = room.checkpoint("a", "k1").await;
    assert_eq!(left_out(&checkpoint), [("lib", Reason::Submodule)].into());
    assert_eq!(changed(&checkpoint), ["good"]);
    let tree = git(&room.repository, &["ls-tree", checkpoint.tree.as_str(), "lib"]);
    assert_eq!(tree, git(&room.repository, &["ls-tree", "HEAD", "lib"]));
    assert!(!mark.exists(), "{}", fs::read_to_string(mark).unwrap_or_default());
}

#[tokio::test]
async fn hooks_config_filters_and_excludes_of_the_worker_are_never_run_or_read() {
    let room = Room::new();
    let before = room.fingerprint();
    let (prepared, path) = room.one_writer().await;
    let (program, mark) = trap(&room);
    let run = program.to_str().expect("text");
    for hook in
        ["pre-commit", "post-commit", "post-checkout", "reference-transaction", "post-index-change", "post-merge"]
    {
        write_program(&path.join(".git/hooks").join(hook), &format!("#!/bin/sh\nexec {run} {hook}\n"));
    }
    for (name, value) in [
        ("core.fsmonitor", run),
        ("core.hooksPath", path.join(".git/hooks").to_str().expect("text")),
        ("core.sshCommand", run),
        ("core.pager", run),
        ("core.editor", run),
        ("core.excludesFile", "/dev/null"),
        ("diff.external", run),
        ("filter.evil.clean", run),
        ("filter.evil.smudge", run),
        ("filter.evil.process", run),
        ("filter.evil.required", "true"),
        ("diff.evil.textconv", run),
        ("diff.evil.command", run),
        ("merge.evil.driver", run),
        ("gpg.program", run),
        ("commit.gpgSign", "true"),
        ("credential.helper", run),
        ("core.worktree", room.repository.to_str().expect("text")),
        ("core.bare", "true"),
    ] {
        git(&path, &["config", "-f", ".git/config", name, value]);
    }
    write(&path.join(".gitattributes"), "* filter=evil diff=evil merge=evil\n");
    write(&path.join(".git/info/attributes"), "* filter=evil\n");
    write(&path.join(".git/info/exclude"), "*\n");
    write(&path.join("src/new.rs"), "new\n");
    write(&path.join("README.md"), "changed\n");
    let checkpoint = room.checkpoint("a", "k1").await;
    assert_eq!(changed(&checkpoint), [".gitattributes", "README.md", "src/new.rs"]);
    let commit = checkpoint.commit.expect("a commit");
    room.checkouts.merge(crate::support::GOAL, &prepared.base, &commit, "m", 0).await.expect("a merge");
    room.checkouts.diff(crate::support::GOAL, &prepared.base, &commit, 10_000).await.expect("a diff");
    room.checkouts
        .verify(crate::support::GOAL, &crate::support::verify(&commit, "git status"))
        .await
        .expect("verified");
    room.checkouts.reset(crate::support::GOAL, "a", &commit).await.expect("reset");
    assert!(!mark.exists(), "{}", fs::read_to_string(mark).unwrap_or_default());
    assert!(!path.join(".git/hooks/pre-commit").exists(), "a reset makes a new clone");
    assert_eq!(git(&path, &["status", "--porcelain"]), "");
    assert_eq!(room.fingerprint(), before);
}

/// What a worker does to its `.git`.
type Damage = fn(&Room, &Path);

#[tokio::test]
async fn a_worker_may_do_anything_to_its_clone_and_only_the_files_count() {
    let damages: [(&str, Damage); 8] = [
        ("deletes .git", |_, path| fs::remove_dir_all(path.join(".git")).expect("removed")),
        ("points .git at the user's repository", |room, path| {
            fs::remove_dir_all(path.join(".git")).expect("removed");
            write(&path.join(".git"), &format!("gitdir: {}\n", room.repository.join(".git").display()));
        }),
        ("links .git to the user's repository", |room, path| {
            fs::remove_dir_all(path.join(".git")).expect("removed");
            symlink(room.repository.join(".git"), path.join(".git")).expect("a link");
        }),
        ("plants alternates", |room, path| {
            write(&path.join(".git/objects/info/alternates"), &format!("{}\n", room.directory.path().display()));
        }),
        ("moves its refs and commits", |_, path| {
            git(path, &["commit", "-q", "--allow-empty", "-m", "mine"]);
            git(path, &["branch", "-f", "main"]);
            git(path, &["checkout", "-q", "--orphan", "else"]);
        }),
        ("corrupts its objects and its index", |_, path| {
            write(&path.join("more"), "x\n");
            git(path, &["add", "-A"]);
            fs::remove_file(path.join("more")).expect("removed");
            let objects =
                Command::new("find").arg(path.join(".git/objects")).args(["-type", "f"]).output().expect("find");
            for object in String::from_utf8_lossy(&objects.stdout).lines() {
                fs::remove_file(object).expect("removed");
                fs::write(object, "garbage").expect("written");
            }
            write(&path.join(".git/index"), "garbage");
        }),
        ("locks its index", |_, path| write(&path.join(".git/index.lock"), "")),
        ("hides a change from git", |_, path| {
            git(path, &["update-index", "--assume-unchanged", "README.md"]);
            git(path, &["update-index", "--skip-worktree", "src/lib.rs"]);
        }),
    ];
    let mut trees = Vec::new();
    for (what, damage) in damages {
        let room = Room::new();
        let before = room.fingerprint();
        let (prepared, path) = room.one_writer().await;
        damage(&room, &path);
        write(&path.join("README.md"), "changed\n");
        let checkpoint = room.checkpoint("a", "k1").await;
        assert_eq!(changed(&checkpoint), ["README.md"], "{what}");
        assert_eq!(checkpoint.left_out, [], "{what}");
        room.checkouts.reset(crate::support::GOAL, "a", &prepared.base).await.expect(what);
        assert_eq!(git(&path, &["status", "--porcelain"]), "", "{what}");
        assert_eq!(room.fingerprint(), before, "{what}");
        git(&room.repository, &["fsck", "--strict"]);
        trees.push(checkpoint.tree);
    }
    trees.dedup();
    assert_eq!(trees.len(), 1);
}

#[tokio::test]
async fn a_file_whose_times_were_set_back_is_still_found() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    let file = path.join("src/main.rs");
    let times = fs::metadata(&file).and_then(|metadata| metadata.modified()).expect("a time");
    // As long as before.
    fs::write(&file, "fn evil() {}\n").expect("written");
    File::options().write(true).open(&file).and_then(|file| file.set_modified(times)).expect("set back");
    assert_eq!(changed(&room.checkpoint("a", "k1").await), ["src/main.rs"]);
}

/// Git compares times by the second. A change in the second of the checkout is found although the checkpoint comes later.
#[tokio::test]
async fn a_change_in_the_second_of_the_checkout_is_found() {
    use std::os::unix::fs::MetadataExt as _;
    let room = Room::new();
    let prepared = room.prepare().await;
    let second = |path: &Path| fs::metadata(path).expect("a file").mtime();
    for attempt in 0..20 {
        let name = format!("w{attempt}");
        let file = room.writer(&name, &prepared.base).await.path.join("src/main.rs");
        let before = second(&file);
        // As long as before, and in place.
        fs::write(&file, "fn evil() {}\n").expect("written");
        if second(&file) != before {
            continue;
        }
        let probe = room.directory.path().join("probe");
        while {
            write(&probe, "x");
            second(&probe) == before
        } {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(changed(&room.checkpoint(&name, "k1").await), ["src/main.rs"]);
        return;
    }
    panic!("no checkout and change were in the same second");
}

#[tokio::test]
async fn the_checkout_replaced_by_a_link_to_the_users_repository_is_refused() {
    let room = Room::new();
    let before = room.fingerprint();
    let (prepared, path) = room.one_writer().await;
    fs::rename(&path, path.with_extension("away")).expect("moved");
    symlink(&room.repository, &path).expect("a link");
    let step = drawloom_checkout::Step { message: "m", at: 0, key: "k" };
    let error = room.checkouts.checkpoint(crate::support::GOAL, "a", &step).await.expect_err("refused");
    assert!(error.to_string().ends_with("is not a directory of ours any more: it is a link or a file"), "{error}");
    room.checkouts.reset(crate::support::GOAL, "a", &prepared.base).await.expect_err("refused");
    let again = room.writer("a", &prepared.base).await;
    assert!(again.path.symlink_metadata().expect("there").is_dir());
    assert_eq!(room.fingerprint(), before);
}

#[tokio::test]
async fn names_with_spaces_line_ends_and_bytes_that_are_no_text_are_kept() {
    use std::os::unix::ffi::OsStrExt as _;
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    for name in [&b"a b"[..], b"line\nend", b"\xff\xfe", b"tab\there", b"\"quoted\"", b"-n", b":(glob)x", b"\\back"] {
        fs::write(path.join(std::ffi::OsStr::from_bytes(name)), "x\n").expect("written");
    }
    let checkpoint = room.checkpoint("a", "k1").await;
    let mut names = changed(&checkpoint);
    names.sort_unstable();
    let expected = [
        "\"\\\"quoted\\\"\"",
        "\"\\377\\376\"",
        "\"\\\\back\"",
        "\"line\\nend\"",
        "\"tab\\there\"",
        "-n",
        ":(glob)x",
        "a b",
    ];
    assert_eq!(names, expected);
    assert_eq!(checkpoint.left_out, []);
    assert_eq!(room.checkpoint("a", "k2").await.commit, None);
}
