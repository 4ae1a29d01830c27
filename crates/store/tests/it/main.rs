//! The store on real files.

mod backup;
mod blobs;
mod commits;
mod conformance;
mod damage;
mod fixtures;
mod full_disk;
mod gone;
mod groups;
mod history;
mod index;
mod layers;
mod log;
mod lost;
mod ownership;
mod prune;
mod stored_answers;
mod upgrade;
mod values;
mod words;

#[test]
fn every_file_beside_this_one_is_part_of_it() {
    let this = include_str!("main.rs");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    for file in std::fs::read_dir(folder).expect("the folder of this file") {
        let name = file.expect("a readable folder").file_name();
        let name = name.to_string_lossy();
        let module = name.strip_suffix(".rs").expect("only Rust files");
        assert!(module == "main" || this.contains(&format!("mod {module};")), "{name} is not in main.rs");
    }
}
