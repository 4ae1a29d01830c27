//! The server over real sockets, with a scripted engine behind it.

mod answers;
mod artifacts;
mod attacks;
mod browsers;
mod channel_users;
mod channel_waits;
mod channels;
mod definitions;
mod evaluations;
mod extra;
mod fake;
mod handles;
mod house;
mod idempotency;
mod identity;
mod limits;
mod mcp_limits;
mod memory;
mod no_goals;
mod operators;
mod routes;
mod setup;
mod streams;
mod walk;

#[test]
fn no_test_file_is_forgotten() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = include_str!("main.rs");
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_string_lossy();
        let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") else { continue };
        assert!(main.contains(&format!("\nmod {module};\n")), "{name} is not a module of main.rs");
    }
}
