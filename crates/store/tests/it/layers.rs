//! Which part of the crate may know what.

use std::{fs, path::Path};

fn files(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            let name = path.strip_prefix(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).expect("below src");
            found.push((name.display().to_string(), fs::read_to_string(&path).expect("a readable file")));
        }
    }
}

fn source() -> Vec<(String, String)> {
    let mut found = Vec::new();
    files(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut found);
    assert!(found.len() > 20, "the source was not found");
    found
}

#[test]
fn only_the_sqlite_module_names_rusqlite() {
    for (name, text) in source() {
        let is_home = name.starts_with("sqlite/") || name == "sqlite.rs";
        assert!(is_home || !text.contains("rusqlite"), "{name} names rusqlite; only files in sqlite/ may");
    }
}

#[test]
fn conflicts_are_written_as_every_database_knows_them() {
    for (name, text) in source() {
        assert!(!text.contains("INSERT OR "), "{name}: write INSERT … ON CONFLICT");
    }
}
