//! `drawloom memory change`.

use clap::{Args, ValueEnum};
use drawloom_wire::memory::{ChangeMemory, MemoryOp};
use serde_json::{Number, Value};

use crate::{
    cli::Look,
    commands::{
        Session, check_numbers, json_or_text,
        memory::{Fields, Whose, line_of},
    },
    connect::{self, Execution, Need},
    exit::{CommandError, Exit},
    output::Format,
};

/// Change a key by what it holds: add, merge or append
///
/// Changes that others make at the same time are kept. A value that parses as JSON is used as JSON, any other as text.
#[derive(Debug, Args)]
pub struct Change {
    /// Key
    #[arg(value_name = "KEY")]
    key: String,
    /// How to change it
    #[arg(value_name = "OP", value_enum)]
    op: Op,
    /// Number to add [default: 1], object to merge, or entry to append
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    value: Option<String>,
    /// Keep at most this many entries; the oldest go
    #[arg(long, value_name = "COUNT", required_if_eq("op", "bounded-list"))]
    limit: Option<u32>,
    #[command(flatten)]
    whose: Whose,
    /// Delete the key after this time, such as 30d, 12h or 90s
    #[arg(long, value_name = "AGE", value_parser = crate::commands::age)]
    ttl: Option<u64>,
    /// Change the key only if it is at this revision; 0 means that it must not exist
    #[arg(long, value_name = "REVISION")]
    if_revision: Option<u64>,
    #[command(flatten)]
    execution: Execution,
    /// The format of the output.
    #[command(flatten)]
    pub(crate) look: Look,
}

/// How a key is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Op {
    /// Add to a number
    Incr,
    /// Merge an object; null removes a field
    Merge,
    /// Append to a list unless it has an equal entry
    AppendDedupe,
    /// Append to a list and drop the oldest entries beyond --limit
    BoundedList,
}

impl From<Op> for MemoryOp {
    fn from(op: Op) -> Self {
        match op {
            Op::Incr => Self::Incr,
            Op::Merge => Self::Merge,
            Op::AppendDedupe => Self::AppendDedupe,
            Op::BoundedList => Self::BoundedList,
        }
    }
}

impl Change {
    pub(crate) async fn perform(self, session: &Session) -> Result<Exit, CommandError> {
        let (value, delta) = self.operand()?;
        let changed = connect::with(session, "memory change", Need::Engine(self.execution), async |it| {
            let Fields { scope, agent, run_id, user_id } = self.whose.fields(it).await?;
            it.backend
                .call(&ChangeMemory {
                    scope,
                    agent,
                    run_id,
                    user_id,
                    key: self.key.clone(),
                    op: self.op.into(),
                    value,
                    delta,
                    limit: self.limit,
                    ttl_seconds: self.ttl,
                    if_revision: self.if_revision,
                    idempotency_key: None,
                })
                .await
        })
        .await?;
        let output = &session.output;
        match output.format() {
            Format::Json => output.json(&changed),
            Format::Human => {
                output.line(line_of(&changed.value));
                super::warn(session, &changed.warnings);
            }
        }
        Ok(Exit::Done)
    }

    /// What the operation needs: a value or a number.
    fn operand(&self) -> Result<(Option<Value>, Option<Number>), CommandError> {
        let missing = || CommandError::usage("bad_value", format!("{:?} needs a value", self.op));
        match (self.op, &self.value) {
            (Op::Incr, None) => Ok((None, None)),
            (Op::Incr, Some(text)) => {
                check_numbers(text)?;
                let number = text.parse().map_err(|_| {
                    CommandError::usage("bad_value", format!("{text:?} is not a number (example: -2 or 0.5)"))
                })?;
                Ok((None, Some(number)))
            }
            (_, None) => Err(missing()),
            (_, Some(text)) => Ok((Some(json_or_text(text)?), None)),
        }
    }
}
