//! Protected files have the bytes of the base before and after every command, whatever workers and commands do.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::{PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
    process::Command,
};

use drawloom_checkout::{Config, Oid, Verified, Verify, VerifyCommand};
use drawloom_process::Confined;
use proptest::{
    prelude::*,
    test_runner::{Config as Cases, RngAlgorithm, TestRng, TestRunner},
};

use crate::support::{AT, GOAL, Room, git, shell, verify, write};

/// Lists kind, mode, content and name of everything in `tests`.
const LIST: &str = "find tests -type f -perm -u+x -print0 | sort -z | xargs -0r -n1 echo executable; \
                    find tests -type f -print0 | sort -z | xargs -0r sha256sum; \
                    find tests -type l -print0 | sort -z | xargs -0r -n1 readlink";

fn protect(commit: &Oid, globs: &[&str], scripts: &[&str]) -> Verify {
    let commands: Vec<VerifyCommand> =
        scripts.iter().map(|script| VerifyCommand { name: (*script).into(), ..shell(script) }).collect();
    Verify { protect: globs.iter().map(|glob| (*glob).to_owned()).collect(), commands, ..verify(commit, "") }
}

async fn verified(room: &Room, asked: &Verify) -> Verified {
    room.checkouts.verify(GOAL, asked).await.expect("verified")
}

/// What `LIST` says of exactly the blobs of a commit.
fn listed(room: &Room, commit: &str) -> String {
    let place = tempfile::tempdir_in(room.directory.path()).expect("a directory");
    let asked = ["ls-tree", "-r", "-z", commit, "tests"];
    let entries = run(entries_of(Command::new("git").args(asked).current_dir(&room.repository)));
    for entry in entries.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let at = entry.iter().position(|byte| *byte == b'\t').expect("a path");
        let fields = String::from_utf8_lossy(&entry[..at]).into_owned();
        let fields: Vec<&str> = fields.split(' ').collect();
        let path = place.path().join(OsStr::from_bytes(&entry[at + 1..]));
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        if fields[0] == "160000" {
            continue;
        }
        let content =
            run(entries_of(Command::new("git").args(["cat-file", "blob", fields[2]]).current_dir(&room.repository)));
        if fields[0] == "120000" {
            symlink(OsString::from_vec(content), &path).expect("a link");
        } else {
            fs::write(&path, content).expect("written");
            let mode = if fields[0] == "100755" { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        }
    }
    let said = run(entries_of(Command::new("sh").args(["-c", LIST]).current_dir(place.path())));
    String::from_utf8_lossy(&said).into_owned()
}

fn entries_of(command: &mut Command) -> &mut Command {
    command.env("LC_ALL", "C").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null")
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A room with bytes in its tests that every conversion would change.
fn room() -> Room {
    let room = Room::new();
    room.write("tests/unix.txt", "one\ntwo $Id$\n");
    room.write("tests/dos.txt", "one\r\ntwo\r\n");
    room.write("tests/deep/er/check.sh", "exit 0 # \u{e4}\n");
    git(&room.repository, &["config", "core.autocrlf", "false"]);
    room.commit("tests");
    room
}

#[tokio::test]
async fn attributes_of_a_worker_change_no_protected_byte() {
    let mut refused = Vec::new();
    for (place, attributes) in [
        (".gitattributes", "* working-tree-encoding=UTF-16\n"),
        (".gitattributes", "* working-tree-encoding=UTF-16LE-BOM\n"),
        (".gitattributes", "*.txt text eol=crlf\n"),
        (".gitattributes", "tests/** text=auto eol=crlf ident\n"),
        ("tests/deep/.gitattributes", "* eol=crlf text\n"),
        (".gitattributes", "* ident\n"),
        (".gitattributes", "[attr]evil working-tree-encoding=UTF-32\n* evil\n"),
        (".gitattributes", "* working-tree-encoding\n"),
        (".gitattributes", "* filter=evil -text\n"),
    ] {
        let room = room();
        let (prepared, path) = room.one_writer().await;
        write(&path.join(place), attributes);
        write(&path.join("src/new.txt"), "one\ntwo\n");
        let clone =
            ["config core.autocrlf true", "config filter.evil.smudge 'echo evil'", "config core.attributesFile a"];
        for setting in clone {
            run(entries_of(Command::new("sh").args(["-c", &format!("git {setting}")]).current_dir(&path)));
        }
        write(&path.join(".git/info/attributes"), attributes);
        let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
        assert_eq!(room.show(&commit, place), attributes.trim_end());
        assert_eq!(room.show(&commit, "src/new.txt"), "one\ntwo", "{attributes}");
        let asked = protect(
            &commit,
            &["tests/*.txt", "tests/deep/er/**"],
            &[LIST, "grep -c . src/new.txt", "git status || true"],
        );
        let verified = verified(&room, &asked).await;
        if place.starts_with("tests") {
            continue;
        }
        assert!(verified.passed, "{attributes}: {verified:?}");
        let expected = listed(&room, prepared.base.as_str());
        if verified.results[0].output_tail != expected {
            refused.push((attributes, verified.results[0].output_tail.clone(), expected));
        }
        // Its own attributes are in the checkout, and no conversion was made.
        assert!(verified.changed_by_commands.is_empty(), "{attributes}: {verified:?}");
    }
    assert!(refused.is_empty(), "{refused:#?}");
}

#[tokio::test]
async fn attributes_of_the_base_hold_for_files_that_are_not_protected() {
    let room = Room::new();
    room.write(".gitattributes", "*.bat text eol=crlf\n");
    room.write("run.bat", "one\r\n");
    room.write("tests/run.bat", "one\r\n");
    room.commit("attributes");
    let (_, path) = room.one_writer().await;
    fs::remove_file(path.join(".gitattributes")).expect("removed");
    write(&path.join("more.bat"), "one\r\n");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    assert_eq!(git(&room.repository, &["cat-file", "-s", &format!("{commit}:more.bat")]), "4");
    let script = "test ! -e .gitattributes && cat run.bat tests/run.bat | od -An -c";
    let asked = protect(&commit, &["tests/**"], &[script]);
    let verified = verified(&room, &asked).await;
    // As the base checks it out, and as it is committed.
    assert_eq!(
        verified.results[0].output_tail.split_whitespace().collect::<String>(),
        "one\\r\\none\\n",
        "{verified:?}"
    );
}

#[tokio::test]
async fn a_secret_in_another_encoding_is_not_committed_in_plain_text() {
    let room = Room::new();
    let (_, path) = room.one_writer().await;
    write(&path.join(".gitattributes"), "*.txt working-tree-encoding=UTF-16LE\n");
    let secret: Vec<u8> = crate::support::SECRET.encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(path.join("hidden.txt"), secret).expect("written");
    let commit = room.checkpoint("a", "k1").await.commit.expect("a commit");
    assert!(!room.show(&commit, "hidden.txt").contains(crate::support::SECRET));
}

/// Ways of a command to change protected files, or to look as if it did not.
const ATTACKS: &[&str] = &[
    "echo 'exit 0' > tests/check.sh",
    "chmod u+w tests/check.sh && echo 'exit 0' >> tests/check.sh",
    "rm tests/check.sh",
    "rm -f tests/check.sh && echo 'exit 0' > tests/check.sh",
    "echo 'exit 0' > other && mv -f other tests/check.sh",
    "ln -sf ../README.md tests/check.sh",
    "mv tests away && mkdir tests && echo 'exit 0' > tests/check.sh",
    "mv tests away && ln -s away tests && echo 'exit 0' > away/check.sh",
    "rm -rf tests",
    "chmod 777 tests/check.sh",
    "truncate -s 0 tests/check.sh",
    "git rm -q -f tests/check.sh",
    "sed -i s/grep/true/ tests/check.sh",
    "cp README.md tests/check.sh",
    "ln tests/check.sh hard && echo 'exit 0' > hard",
    "touch -d 1970-01-01 tests/check.sh && echo x > tests/check.sh",
];

#[tokio::test]
async fn no_command_changes_a_protected_file_for_those_after_it() {
    let room = Room::new();
    let prepared = room.prepare().await;
    let base = fs::read(room.repository.join("tests/check.sh")).expect("a file");
    for (number, attack) in ATTACKS.iter().enumerate() {
        let attack = format!("{{ {attack}; }} 2>/dev/null; cat tests/check.sh");
        let key = format!("v{number}");
        let asked = Verify { key, ..protect(&prepared.base, &["tests/**"], &[&attack, "cat tests/check.sh"]) };
        let verified = verified(&room, &asked).await;
        for result in &verified.results {
            assert_eq!(result.output_tail.as_bytes(), base, "{attack}: {verified:?}");
        }
        assert!(verified.passed && verified.results.len() == 2, "{attack}: {verified:?}");
    }
}

#[tokio::test]
async fn a_command_that_changes_a_protected_file_fails_where_nothing_is_mounted() {
    let room = Room::with_sandbox(Confined::No);
    let prepared = room.prepare().await;
    for (number, attack) in ATTACKS.iter().enumerate() {
        let key = format!("v{number}");
        let scripts = [*attack, "echo later"];
        let asked = Verify { key, ..protect(&prepared.base, &["tests/**"], &scripts) };
        let verified = verified(&room, &asked).await;
        assert!(!verified.passed, "{attack}: {verified:?}");
        assert_eq!(verified.results.len(), 1, "nothing runs after it: {verified:?}");
        let reason = format!("the command {attack:?} failed: it changed the protected file tests/check.sh");
        assert_eq!(verified.reasons[0], reason);
    }
}

#[tokio::test]
async fn a_setup_command_that_changes_a_protected_file_fails_the_verification() {
    let setup = Some("echo x > tests/check.sh || rm tests/check.sh".to_owned());
    let room = Room::with_sandbox_and(Confined::No, Config { setup, ..Config::default() });
    let prepared = room.prepare().await;
    let verified = verified(&room, &protect(&prepared.base, &["tests/**"], &["true"])).await;
    assert!(!verified.passed && verified.results.len() == 1, "{verified:?}");
    assert!(verified.reasons[0].ends_with("it changed the protected file tests/check.sh"), "{:?}", verified.reasons);
}

/// What a command that runs code of a worker could do so that the next command judges another work.
const DISGUISES: &[&str] = &[
    "echo right > README.md",
    "rm README.md",
    "rm README.md && mkdir README.md && echo x > README.md/x",
    "rm README.md && ln -s /etc/hostname README.md",
    "mv src away && ln -s away src && echo right > src/main.rs",
    "rm -r src && echo x > src",
    "chmod 777 src/main.rs",
    "echo right > README.md && touch -d 1970-01-01 README.md && git update-index --assume-unchanged README.md",
];

#[tokio::test]
async fn each_command_judges_the_files_of_the_commit() {
    let room = Room::new();
    let prepared = room.prepare().await;
    let whole =
        "test -f README.md -a ! -L README.md -a -d src -a ! -L src -a ! -x src/main.rs && cat README.md src/main.rs";
    for (number, disguise) in DISGUISES.iter().enumerate() {
        let disguise = format!("{{ {disguise}; }} 2>/dev/null; true");
        let asked =
            Verify { key: format!("v{number}"), ..protect(&prepared.base, &["tests/**"], &[whole, &disguise, whole]) };
        let verified = verified(&room, &asked).await;
        let seen: Vec<&str> = verified.results.iter().map(|result| result.output_tail.as_str()).collect();
        assert!(verified.passed && seen.len() == 3 && seen[0] == seen[2], "{disguise}: {verified:?}");
    }
}

#[tokio::test]
async fn commands_write_beside_protected_files() {
    let room = Room::new();
    let prepared = room.prepare().await;
    let script = "mkdir tests/cache && echo x > tests/cache/x && echo y > tests/new && rm -r tests/cache tests/new";
    let verified = verified(&room, &protect(&prepared.base, &["tests/**", "src/main.rs"], &[script])).await;
    assert!(verified.passed, "{verified:?}");
}

#[tokio::test]
async fn a_thousand_protected_files_are_mounted() {
    let room = Room::new();
    for number in 0..1000 {
        room.write(&format!("tests/d{}/f{number}", number % 10), "x\n");
    }
    room.commit("many");
    let prepared = room.prepare().await;
    let script = "for f in tests/d*/f*; do { echo y > $f; } 2>/dev/null; done; cat tests/d*/f* | sort | uniq -c";
    let verified = verified(&room, &protect(&prepared.base, &["tests/**"], &[script])).await;
    assert_eq!(verified.results[0].output_tail.trim(), "1000 x", "{verified:?}");
    assert!(verified.passed, "{verified:?}");
}

/// A file of the base below `tests`.
#[derive(Debug, Clone)]
enum Made {
    Text(Vec<u8>),
    Executable(Vec<u8>),
    Link(&'static str),
}

/// What a worker does.
#[derive(Debug, Clone)]
enum Deed {
    Attributes(&'static str, String),
    Ignore(&'static str, &'static str),
    Write(String, Vec<u8>),
    Remove(String),
    Directory(String),
    Link(String, &'static str),
    MoveTests,
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "tests/a",
        "tests/A",
        "tests/a b",
        "tests/new\nline",
        "tests/quote\"d",
        "tests/back\\slash",
        "tests/star*",
        "tests/[x]",
        "tests/deep/er/a",
        "tests/deep/b.txt",
        "tests/\u{e4}",
        "tests/-dash",
        "tests/#x",
        "tests/!x",
        "tests/trailing ",
        "Tests/a",
        "src/x.txt",
    ])
    .prop_map(str::to_owned)
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"one\ntwo\n".to_vec()),
        Just(b"one\r\ntwo\r\n".to_vec()),
        Just(b"$Id$\n$Id: x $\n".to_vec()),
        Just("\u{e4}\u{20ac}\n".as_bytes().to_vec()),
        Just(b"\xff\xfeo\0n\0".to_vec()),
        Just(Vec::new()),
        "[a-z\r\n]{1,20}".prop_map(String::into_bytes),
    ]
}

fn attributes() -> impl Strategy<Value = String> {
    let pattern = prop::sample::select(vec!["*", "*.txt", "tests/**", "a", "/tests/*", "\"tests/new\\nline\"", "**/a"]);
    let value = prop::sample::select(vec![
        "text",
        "-text",
        "text=auto",
        "eol=crlf",
        "eol=lf",
        "ident",
        "filter=lfs",
        "filter=evil",
        "working-tree-encoding=UTF-16",
        "working-tree-encoding=UTF-16LE-BOM",
        "working-tree-encoding=nonsense",
        "working-tree-encoding",
        "binary",
        "merge=union diff=evil",
        "crlf=input",
        "export-ignore",
        "!text",
    ]);
    prop::collection::vec((pattern, prop::collection::vec(value, 1..4)), 1..4).prop_map(|lines| {
        lines.iter().map(|(pattern, values)| format!("{pattern} {}\n", values.join(" "))).collect::<String>()
    })
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![
        5 => content().prop_map(Made::Text),
        1 => content().prop_map(Made::Executable),
        1 => prop::sample::select(vec!["a", "../src", "../README.md", "nowhere"]).prop_map(Made::Link),
    ]
}

fn deed() -> impl Strategy<Value = Deed> {
    let place = prop::sample::select(vec!["", "tests/", "tests/deep/", "tests/deep/er/", "src/"]);
    let rule = prop::sample::select(vec!["*\n", ".gitattributes\n", "tests\n", "!*\n", "/tests/deep/\n", "a\n"]);
    prop_oneof![
        4 => (place.clone(), attributes()).prop_map(|(place, text)| Deed::Attributes(place, text)),
        1 => (place, rule).prop_map(|(place, rule)| Deed::Ignore(place, rule)),
        3 => (name(), content()).prop_map(|(name, content)| Deed::Write(name, content)),
        1 => name().prop_map(Deed::Remove),
        1 => name().prop_map(Deed::Directory),
        1 => (name(), prop::sample::select(vec!["../src", "a", ".."])).prop_map(|(name, to)| Deed::Link(name, to)),
        1 => Just(Deed::MoveTests),
    ]
}

/// Removes whatever is at a path. False when its directory is not there.
fn clear(path: &Path) -> bool {
    if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        fs::remove_dir_all(path).expect("removed");
    } else {
        let _ = fs::remove_file(path);
    }
    path.parent().is_some_and(|parent| fs::create_dir_all(parent).is_ok())
}

/// Puts something at a path, where that can be done.
fn put(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) {
    if clear(path) {
        let _ = make(path);
    }
}

fn perform(checkout: &Path, deed: &Deed) {
    let at = |name: &str| checkout.join(name);
    match deed {
        Deed::Attributes(place, text) => put(&at(place).join(".gitattributes"), |path| fs::write(path, text)),
        Deed::Ignore(place, rule) => put(&at(place).join(".gitignore"), |path| fs::write(path, rule)),
        Deed::Write(name, content) => put(&at(name), |path| fs::write(path, content)),
        Deed::Remove(name) => put(&at(name), |_| Ok(())),
        Deed::Directory(name) => {
            put(&at(name), |path| fs::create_dir(path).and_then(|()| fs::write(path.join("inside"), "x\n")));
        }
        Deed::Link(name, to) => put(&at(name), |path| symlink(to, path)),
        Deed::MoveTests => {
            let _ = fs::rename(at("tests"), at("moved")).and_then(|()| symlink("moved", at("tests")));
        }
    }
}

async fn protected_is_the_base(
    base: &BTreeMap<String, Made>,
    attributes: Option<&String>,
    autocrlf: &str,
    deeds: &[Deed],
) {
    let room = Room::new();
    for (name, made) in base {
        let path = room.repository.join(name);
        if !clear(&path) {
            continue;
        }
        match made {
            Made::Text(content) => fs::write(&path, content).expect("written"),
            Made::Executable(content) => {
                fs::write(&path, content).expect("written");
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
            }
            Made::Link(to) => symlink(to, &path).expect("a link"),
        }
    }
    // The bytes of the base are what was written, and its attributes come after.
    git(
        &room.repository,
        &["update-index", "--add", "--cacheinfo", &format!("160000,{},tests/module", "1".repeat(40))],
    );
    room.commit("base");
    if let Some(attributes) = attributes {
        room.write(".gitattributes", attributes);
        git(&room.repository, &["add", ".gitattributes"]);
        git(&room.repository, &["commit", "-q", "-m", "attributes"]);
    }
    git(&room.repository, &["config", "core.autocrlf", autocrlf]);
    let (prepared, path) = room.one_writer().await;
    deeds.iter().for_each(|deed| perform(&path, deed));
    let made = room.checkpoint("a", "k1").await;
    let commit = made.commit.unwrap_or(prepared.base.clone());
    let asked =
        protect(&commit, &["tests/**"], &[LIST, "git status >&2; git checkout -q -- . >&2; git diff >&2; true", LIST]);
    let verified = verified(&room, &asked).await;
    let expected = listed(&room, prepared.base.as_str());
    assert_eq!(verified.results.len(), 3, "{verified:?}");
    assert_eq!(verified.results[0].output_tail, expected, "{deeds:?}");
    assert_eq!(verified.results[2].output_tail, expected, "{deeds:?}");
    // A second worker begins with the first one's attributes, and the reader's checkout too.
    let head = room.checkouts.merge(GOAL, &prepared.base, &commit, "m", AT).await.expect("a merge");
    if let drawloom_checkout::Merge::Merged { commit, .. } = head {
        let second: PathBuf = room.writer("b", &commit).await.path;
        write(&second.join("src/second.txt"), "second\n");
        let second = room.checkpoint("b", "k2").await.commit.expect("a commit");
        assert_eq!(room.show(&second, "src/second.txt"), "second");
    }
}

#[test]
fn generated_attributes_and_trees_change_no_protected_byte() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let config = Cases { cases: 24, failure_persistence: None, max_shrink_iters: 60, ..Cases::default() };
    // The same cases each time.
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let cases = (
        prop::collection::btree_map(name().prop_filter("protected", |name| name.starts_with("tests/")), made(), 1..6),
        prop::option::of(attributes().prop_filter("git refuses it", |text| !text.contains("encoding"))),
        prop::sample::select(vec!["false", "true", "input"]),
        prop::collection::vec(deed(), 1..6),
    );
    let checked = runner.run(&cases, |(base, attributes, autocrlf, deeds)| {
        runtime.block_on(protected_is_the_base(&base, attributes.as_ref(), autocrlf, &deeds));
        Ok(())
    });
    checked.expect("each case holds");
}
