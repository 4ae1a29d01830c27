//! One validator for everything that people write: request bodies, query parameters, config files.
//!
//! It walks a JSON Schema (as schemars makes it) over a JSON value, renames aliases (`x-aliases`) to the names that serde
//! knows, and collects every problem it finds. Schema keywords that it does not know are an error when it is made, so no
//! rule is skipped in silence.

mod check;
mod compile;
mod guess;
mod pattern;
mod problem;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use compile::BadSchema;
use compile::{Kind, Kinds, Tree};
pub use problem::{MAX_PROBLEMS, Problem, Step};

/// A schema, made ready to check values.
#[derive(Debug)]
pub struct Validator {
    tree: Tree,
}

impl Validator {
    /// Makes `schema` ready. It fails on a keyword that would be skipped.
    pub fn new(schema: &Value) -> Result<Self, BadSchema> {
        Tree::compile(schema).map(|tree| Self { tree })
    }

    /// A validator for a type's schema.
    ///
    /// # Panics
    /// When the type's schema has a keyword that would be skipped: a mistake of ours, and of every value of it alike.
    pub fn of<T: schemars::JsonSchema>() -> Self {
        let schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>().to_value();
        Self::new(&schema).expect("our types use only keywords that the validator knows")
    }

    /// Checks `value` and renames aliases in it. All problems are returned, up to `MAX_PROBLEMS`.
    pub fn check(&self, value: &mut Value) -> Result<(), Vec<Problem>> {
        let problems = check::run(&self.tree, value, MAX_PROBLEMS);
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// The same without a limit on the number of problems, for files of the operator.
    pub fn check_whole(&self, value: &mut Value) -> Result<(), Vec<Problem>> {
        let problems = check::run(&self.tree, value, usize::MAX);
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// The value that `text` stands for as field `key` of an object: numbers, booleans and lists, with commas or as JSON, as the
    /// schema says. For a field of any type it is JSON if it can be read as JSON. Text that does not fit stays text, for `check`
    /// to complain about.
    pub fn read_text(&self, key: &str, text: &str) -> Value {
        match self.tree.find_field(key) {
            Some(node) => self.read_as(node, text),
            None => Value::String(text.into()),
        }
    }

    fn read_as(&self, node: usize, text: &str) -> Value {
        let kinds = self.tree.kinds(node);
        let json = || serde_json::from_str::<Value>(text).ok();
        let parsed = if kinds == Kinds::ALL {
            json()
        } else if kinds.has(Kind::Text) {
            None
        } else if kinds.has(Kind::List) {
            let item = self.tree.find_item(node);
            let read = |part: &str| item.map_or_else(|| Value::String(part.into()), |item| self.read_as(item, part));
            let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
            json().filter(Value::is_array).or_else(|| Some(Value::Array(parts().map(read).collect())))
        } else if kinds.has(Kind::Integer) || kinds.has(Kind::Number) {
            json().filter(Value::is_number)
        } else if kinds.has(Kind::Bool) {
            text.parse().ok().map(Value::Bool)
        } else {
            json()
        };
        parsed.unwrap_or_else(|| Value::String(text.into()))
    }
}
