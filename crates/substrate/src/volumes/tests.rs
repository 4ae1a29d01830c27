//! The same place in each spelling, and nothing outside.

use std::sync::LazyLock;

use drawloom_contract::{
    ids::{RunId, Tenant},
    tool::Guard,
};
use tempfile::TempDir;

use super::*;

struct Fixture {
    directory: TempDir,
    table: VolumeTable,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for name in ["notes", "books", "private"] {
        std::fs::create_dir(directory.path().join(name)).expect("a directory");
    }
    let config = |name: &str, mode, default| VolumeConfig {
        path: directory.path().join(name).to_string_lossy().into_owned(),
        mode,
        default,
    };
    let table = VolumeTable::open(&BTreeMap::from([
        ("notes".to_owned(), config("notes", Some(VolumeMode::Rw), true)),
        ("books".to_owned(), config("books", None, false)),
        ("private".to_owned(), config("private", Some(VolumeMode::Rw), false)),
    ]))
    .expect("directories that exist");
    Fixture { directory, table }
}

fn agent(volumes: &[&str]) -> Definition {
    Definition {
        volumes: volumes.iter().map(|name| (*name).to_owned()).collect(),
        ..drawloom_testkit::definition("reader", "p", "m")
    }
}

fn holder(definition: &Definition) -> Holder<'_> {
    static TENANT: LazyLock<Tenant> = LazyLock::new(Tenant::default_tenant);
    Holder { tenant: &TENANT, root: RunId::from_bytes([0; 16]), definition }
}

impl Fixture {
    /// Volume, mode and path, or what the error says.
    fn locate(&self, volumes: &[&str], volume: Option<&str>, path: &str) -> Result<(String, Mode, String), String> {
        self.table
            .locate(holder(&agent(volumes)), volume, path)
            .map(|place| (place.volume, place.mode, place.path.to_string_lossy().into_owned()))
            .map_err(|error| error.to_string().replace(&*self.directory.path().to_string_lossy(), "<dir>"))
    }

    fn absolute(&self, path: &str) -> String {
        self.directory.path().join(path).to_string_lossy().into_owned()
    }
}

#[test]
fn every_spelling_of_a_path_is_the_same_place() {
    let fixture = fixture();
    let here = Ok(("books".to_owned(), Mode::ReadOnly, "a/b.txt".to_owned()));
    let both = ["notes", "books"];
    assert_eq!(fixture.locate(&["books"], None, "a/b.txt"), here);
    assert_eq!(fixture.locate(&both, Some("books"), "./a/../a//b.txt"), here);
    assert_eq!(fixture.locate(&both, None, &fixture.absolute("books/a/b.txt")), here);
    assert_eq!(fixture.locate(&both, None, &fixture.absolute("notes/../books/a/./b.txt")), here);
    assert_eq!(fixture.locate(&both, Some("books"), &fixture.absolute("books/a/b.txt")), here);
    assert_eq!(fixture.locate(&both, None, "x"), Ok(("notes".into(), Mode::ReadWrite, "x".into())));
    for root in ["", ".", "a/.."] {
        assert_eq!(fixture.locate(&["books"], None, root), Ok(("books".into(), Mode::ReadOnly, String::new())));
    }
}

#[test]
fn a_volume_reached_through_a_link_answers_to_both_of_its_paths() {
    let fixture = fixture();
    let link = fixture.directory.path().join("link");
    std::os::unix::fs::symlink(fixture.directory.path().join("books"), &link).expect("a link");
    let config = VolumeConfig { path: link.to_string_lossy().into_owned(), mode: Some(VolumeMode::Ro), default: true };
    let table = VolumeTable::open(&BTreeMap::from([("books".to_owned(), config)])).expect("a directory");
    for path in ["link/x", "books/x"] {
        let place = table.locate(holder(&agent(&["books"])), None, &fixture.absolute(path)).expect("inside");
        assert_eq!((place.volume.as_str(), place.path.as_path()), ("books", Path::new("x")), "{path}");
    }
}

#[test]
fn what_is_outside_is_an_error_that_says_so() {
    let fixture = fixture();
    let error = |volumes: &[&str], volume, path: &str| fixture.locate(volumes, volume, path).expect_err(path);
    assert_eq!(
        error(&["books"], None, "a/../../notes/x"),
        "\"a/../../notes/x\" leaves volume \"books\" through \"..\"; allowed volumes: books (read-only)"
    );
    assert_eq!(
        error(&["notes", "books"], None, "/etc/passwd"),
        "\"/etc/passwd\" is outside every volume of agent reader; allowed volumes: notes (read-write), \
         books (read-only)"
    );
    assert_eq!(
        error(&["books"], None, &fixture.absolute("private/x")),
        "\"<dir>/private/x\" is outside every volume of agent reader; allowed volumes: books (read-only)"
    );
    assert_eq!(
        error(&["notes", "books"], Some("books"), &fixture.absolute("notes/x")),
        "\"<dir>/notes/x\" is outside volume \"books\"; allowed volumes: notes (read-write), books (read-only)"
    );
    assert_eq!(
        error(&["books"], None, &fixture.absolute("bookshelf")),
        "\"<dir>/bookshelf\" is outside every volume of agent reader; allowed volumes: books (read-only)"
    );
    assert_eq!(error(&["books"], None, "a\0b"), "the path contains a NUL byte");
}

#[test]
fn the_gate_decides_which_volumes_there_are() {
    let fixture = fixture();
    let error = |volumes: &[&str], volume, path: &str| fixture.locate(volumes, volume, path).expect_err(path);
    assert_eq!(
        error(&["books"], Some("private"), "x"),
        "agent reader is not allowed to use volume \"private\"; allowed volumes: books (read-only)"
    );
    assert_eq!(
        error(&["books"], Some("boks"), "x"),
        "unknown volume \"boks\"; did you mean \"books\"? allowed volumes: books (read-only)"
    );
    assert_eq!(error(&[], None, "x"), "cannot access \"x\": agent reader has no volumes");
    assert_eq!(
        error(&["books", "private"], None, "x"),
        "\"x\" is relative and ambiguous; set `volume` (allowed volumes: books (read-only), private \
         (read-write))"
    );
}

#[test]
fn what_cannot_be_a_volume_is_reported_all_at_once() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let config = |path: &Path, default| VolumeConfig {
        path: path.to_string_lossy().into_owned(),
        mode: Some(VolumeMode::Rw),
        default,
    };
    let problems = VolumeTable::open(&BTreeMap::from([
        ("a".to_owned(), config(&file, true)),
        ("b".to_owned(), config(&directory.path().join("missing"), false)),
        ("c".to_owned(), config(directory.path(), true)),
    ]))
    .expect_err("three mistakes");
    let texts: Vec<String> = problems
        .iter()
        .map(|problem| problem.to_string().replace(&*directory.path().to_string_lossy(), "<dir>"))
        .collect();
    assert_eq!(
        texts,
        [
            "volumes.a.path: \"<dir>/file\" is not a directory",
            "volumes.b.path: cannot open the directory \"<dir>/missing\": No such file or directory (os error 2)",
            "volumes.c.default: volume \"a\" is the default volume already",
        ]
    );
}

#[test]
fn config_files_are_guarded_under_every_name_that_leads_to_them() {
    let Fixture { directory, mut table } = fixture();
    let (root, notes) = (directory.path(), directory.path().join("notes"));
    std::fs::create_dir(notes.join("real")).expect("a directory");
    std::fs::write(notes.join("real/config.yaml"), "").expect("a file");
    std::os::unix::fs::symlink("../notes/real/config.yaml", root.join("books/second.yaml")).expect("a link");
    std::os::unix::fs::symlink("books/second.yaml", root.join("first.yaml")).expect("a link");
    let files = [root.join("first.yaml"), root.join("nowhere/config.yaml")];
    table.guard(Protect { files: &files, ..Protect::default() }).expect("directories that can be opened");
    let guarded = |volume: &str| {
        let place = table.locate(holder(&agent(&[volume])), None, "x").expect("a place");
        let paths = place.guarded.iter().filter_map(|guarded| Some((guarded.path.clone()?, guarded.rule)));
        assert_eq!(place.guarded.len(), 6, "every volume knows all of them, because a hard link may lead to any");
        paths.map(|(path, rule)| (path.to_string_lossy().into_owned(), rule)).collect::<Vec<_>>()
    };
    let [read_only, hidden] = [Guard::ReadOnly, Guard::Hidden];
    assert_eq!(guarded("notes"), [("real/config.yaml".into(), read_only), ("real/.env".into(), hidden)]);
    assert_eq!(guarded("books"), [("second.yaml".into(), read_only), (".env".into(), hidden)]);
    assert_eq!(guarded("private"), []);
}
