//! The server's list of operations, as commands use it: by name, with a validator each.

use schemars::SchemaGenerator;
use serde_json::Value;

use drawloom_contract::suggest::closest;
use drawloom_server::{AnyOperation, Card, OPERATIONS};
use drawloom_wire::validate::Validator;

use crate::exit::CommandError;

/// An operation, ready to be called.
pub(crate) struct Known {
    /// The operation.
    pub(crate) operation: &'static dyn AnyOperation,
    /// What checks its input.
    pub(crate) validator: Validator,
}

/// What surfaces know of each operation.
pub(crate) fn cards() -> impl Iterator<Item = Card> {
    OPERATIONS.iter().map(|operation| operation.entry().card)
}

/// The operation of this name.
pub(crate) fn find(name: &str) -> Result<Known, CommandError> {
    let known = OPERATIONS.iter().find(|operation| operation.entry().card.name == name);
    let Some(operation) = known else {
        let names: Vec<&str> = cards().map(|card| card.name).collect();
        let hint = match closest(name, names.iter().copied()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("there are {}", names.join(", ")),
        };
        let message = format!("there is no operation {name:?}");
        return Err(CommandError::usage("unknown_operation", message).with_hint(hint));
    };
    let mut generator = SchemaGenerator::default();
    let mut schema = (operation.entry().input)(&mut generator).to_value();
    if let Value::Object(fields) = &mut schema {
        fields.insert("$defs".into(), generator.take_definitions(true).into());
    }
    let validator = Validator::new(&schema).expect("operations use only keywords that the validator knows");
    Ok(Known { operation: *operation, validator })
}
