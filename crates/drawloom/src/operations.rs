//! The built-in operations, as commands use them: by name.

use std::sync::{Arc, LazyLock};

use drawloom_contract::suggest::closest;
use drawloom_server::{Card, Operations, Served};

use crate::{exit::CommandError, hints};

static BUILTIN: LazyLock<Operations> = LazyLock::new(Operations::builtin);

/// What surfaces know of each operation.
pub(crate) fn cards() -> impl Iterator<Item = &'static Card> {
    BUILTIN.iter().map(|served| served.card())
}

/// The operation of this name.
pub(crate) fn find(name: &str) -> Result<&'static Arc<Served>, CommandError> {
    BUILTIN.find(name).ok_or_else(|| unknown(name, &BUILTIN))
}

/// Unknown operation, with the nearest name.
pub(crate) fn unknown(name: &str, operations: &Operations) -> CommandError {
    let names: Vec<&str> = operations.iter().map(|served| served.card().name()).collect();
    let hint = match closest(name, names.iter().copied()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("there are {}", names.join(", ")),
    };
    CommandError::usage("unknown_operation", format!("unknown operation {name:?}")).with_hint(hint)
}

/// A hint of the server for a person at a terminal.
pub(crate) fn in_terminal(hint: &str) -> String {
    let names: Vec<&str> = cards().map(Card::name).collect();
    hints::for_terminal(hint, &names).into_owned()
}
