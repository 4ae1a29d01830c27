//! The promises of the reference, P1 to P27, each in a test that names it. `docs/design/agentloop.md` lists them, each with its test.

mod iterations;
mod surfaces;
mod workers;

use std::{fs, path::Path};

use super::{Project, TWO};

#[test]
fn every_promise_in_the_documentation_names_its_test() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_to_string(crate_root.join("../../docs/design/agentloop.md")).expect("the documentation");
    for number in 1..=27 {
        let row = docs.lines().find(|line| line.starts_with(&format!("| P{number} |")));
        let row = row.unwrap_or_else(|| panic!("P{number} has no row in docs/design/agentloop.md"));
        let shown_by = row.trim_end_matches(" |").rsplit(" | ").next().expect("a cell");
        let names = shown_by.split('`').filter_map(|word| word.strip_prefix("goal::promises::"));
        let found = names.filter_map(|name| name.split_once("::")).any(|(module, test)| {
            let file = crate_root.join(format!("tests/it/goal/promises/{module}.rs"));
            let source = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let is_there = ["fn", "async fn"].iter().any(|word| source.contains(&format!("\n{word} {test}(")));
            test.starts_with(&format!("p{number}_")) && is_there
        });
        assert!(found, "P{number} names no test `goal::promises::…::p{number}_…` that exists: {shown_by}");
    }
}
