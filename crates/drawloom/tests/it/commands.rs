//! Every operation of channels and memory has a command.

use std::{fs, path::Path};

/// Operations without a command of their own, each with the reason.
const WITHOUT: &[(&str, &str)] =
    &[("channeldef", "it is create, update, delete and purge in one, which are commands by these names")];

macro_rules! listed {
    ($($resource:ident { $($file:ident :: $name:ident,)* })*) => {
        &[$($((stringify!($resource), stringify!($file), stringify!($name)),)*)*]
    };
}

/// The resource, the name and the request of every operation.
const OPERATIONS: &[(&str, &str, &str)] = drawloom_wire::operations!(listed);

/// The source of the commands of a resource.
fn source(resource: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands").join(resource);
    let files = fs::read_dir(&folder).expect("commands").map(|entry| entry.expect("an entry").path());
    files.map(|file| fs::read_to_string(file).expect("source")).collect()
}

#[test]
fn every_operation_of_channels_and_memory_has_a_command_or_a_reason() {
    let mut checked = 0;
    for resource in ["channels", "memory"] {
        let source = source(resource);
        for (_, name, request) in OPERATIONS.iter().filter(|(of, ..)| *of == resource) {
            let has_command = source.contains(&format!("{request} {{"));
            let is_listed = WITHOUT.iter().any(|(without, _)| without == name);
            assert_ne!(
                has_command, is_listed,
                "{name}: a command makes the request {request}, or WITHOUT says why not"
            );
            checked += 1;
        }
    }
    assert!(checked > 20, "{checked}");
}
