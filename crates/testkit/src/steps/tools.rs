//! The tools of the executor `steps`. Each effect on the store has a key, so it happens once.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use drawloom_contract::{
    ids::AgentName,
    journal::StoreError,
    log::{LogChange, NewMessage},
    money::Cost,
    record::Collect,
    runs::Start,
    tool::{CallResult, Repeat, Step, Tool, ToolCard, ToolContext, ToolError, Woken},
    usage::Usage,
    values::{ChangeError, Expect, NewValue, ValueChange},
    wait::{Cause, Wait},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::store::{LateStore, StoreHandles, log, value};

/// Every tool of the executor `steps`.
pub fn step_tools(store: &Arc<LateStore>) -> Vec<Arc<dyn Tool>> {
    let kinds = [Kind::Count, Kind::Post, Kind::Transfer, Kind::Pay, Kind::Start, Kind::Await];
    kinds.into_iter().map(|kind| Arc::new(StepTool { kind, store: store.clone() }) as Arc<dyn Tool>).collect()
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Adds to a number: one compare-and-swap.
    Count,
    /// Appends to a log that keeps some messages.
    Post,
    /// Moves from one number to another, then appends to a log: two effects of one call.
    Transfer,
    /// Counts a payment that costs money.
    Pay,
    /// Starts children with whole requests.
    Start,
    /// Waits for a log, a value or a time.
    Await,
}

struct StepTool {
    kind: Kind,
    store: Arc<LateStore>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Count {
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Post {
    log: String,
    text: String,
    keep: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Transfer {
    from: String,
    to: String,
    log: String,
}

/// `most` beside these is the most that it may cost.
#[derive(Deserialize)]
struct Pay {
    value: String,
    cost: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Child {
    agent: AgentName,
    prompt: String,
    input: Value,
    budget_cost: u64,
    timeout_ms: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Await {
    Log(String),
    Value(String),
    Ms(u64),
}

#[async_trait]
impl Tool for StepTool {
    fn card(&self) -> ToolCard {
        let description = "A step of a script.".to_owned();
        ToolCard { name: format!("{:?}", self.kind), description, input_schema: json!({ "type": "object" }).into() }
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Keyed
    }

    fn most_cost(&self, _: &ToolContext, input: &Value) -> Option<Cost> {
        input["most"].as_u64().map(Cost)
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let store = self.store.get();
        match self.kind {
            Kind::Count => {
                let Count { value } = serde_json::from_value(input)?;
                let number = store.add(context, 0, &[(&value, 1)]).await?;
                Ok(Step::done(format!("{value} is {number}")))
            }
            Kind::Post => {
                let Post { log, text, keep } = serde_json::from_value(input)?;
                let dropped = store.post(context, 0, &log, text, keep).await?;
                Ok(Step::done(format!("{log} dropped {dropped}")))
            }
            Kind::Transfer => {
                let Transfer { from, to, log } = serde_json::from_value(input)?;
                let left = store.add(context, 0, &[(&from, -1), (&to, 1)]).await?;
                let dropped = store.post(context, 1, &log, format!("{from} to {to}"), None).await?;
                Ok(Step::done(format!("{from} is {left}, {log} dropped {dropped}")))
            }
            Kind::Pay => {
                let Pay { value, cost } = serde_json::from_value(input)?;
                let number = store.add(context, 0, &[(&value, 1)]).await?;
                Ok(Step::Done(CallResult {
                    text: format!("payment {number}"),
                    cost: Some(Cost(cost)),
                    usage: Usage::default(),
                }))
            }
            Kind::Start => {
                let children: Vec<Child> = serde_json::from_value(input)?;
                let starts = children.into_iter().map(Child::into_start).collect();
                Ok(Step::Spawn { starts, collect: Collect::Many })
            }
            Kind::Await => store.wait(context, serde_json::from_value(input)?).await,
        }
    }
}

impl Child {
    fn into_start(self) -> Start {
        Start {
            input: Some(self.input),
            tools: Some(Vec::new()),
            volumes: Some(Vec::new()),
            hosts: Some(Vec::new()),
            budget_cost: Some(Cost(self.budget_cost)),
            timeout_ms: Some(self.timeout_ms),
            max_iterations: Some(3),
            ..Start::new(self.agent, self.prompt)
        }
    }
}

fn failed(error: StoreError) -> ToolError {
    ToolError::Failed(error.to_string())
}

impl StoreHandles {
    /// Adds to numbers, all or none. Gives what the first one is then; a repeat gives what it was the first time.
    async fn add(&self, context: &ToolContext, part: u32, numbers: &[(&str, i64)]) -> Result<Value, ToolError> {
        loop {
            let now = self.clock.wall();
            let (mut changes, mut first) = (Vec::new(), Value::Null);
            for (name, by) in numbers {
                let found = self.values.find_value(&value(name), now).await.map_err(failed)?;
                let next = found.as_ref().and_then(|kept| kept.value.as_i64()).unwrap_or_default() + by;
                if changes.is_empty() {
                    first = json!(next);
                }
                changes.push(ValueChange {
                    key: value(name),
                    expect: found.map_or(Expect::Absent, |kept| Expect::Revision(kept.revision)),
                    to: Some(NewValue {
                        value: context.redactor.clean(json!(next)),
                        expires_at: None,
                        quota: None,
                        searched: None,
                    }),
                    at: now,
                });
            }
            match self.values.change(changes, Some(context.once(part, first))).await {
                Ok(applied) => return Ok(applied.answer),
                Err(ChangeError::Stale { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Appends a message. Gives how many old ones were dropped for it.
    async fn post(
        &self,
        context: &ToolContext,
        part: u32,
        name: &str,
        text: String,
        keep: Option<u64>,
    ) -> Result<u64, ToolError> {
        let at = self.clock.wall();
        // The id is new each time: only the effect's key keeps the message from being appended again.
        let id = format!("{}-{at:?}-{}", context.call, std::process::id());
        let messages = vec![NewMessage { id, at, body: context.redactor.clean(json!(text)) }];
        let append = LogChange::Append { log: log(name), messages, since: 0, keep };
        let applied = self.logs.change_log(append, Some(context.once(part, Value::Null))).await?;
        Ok(applied.result.dropped)
    }

    /// Waits at first, without a look: the engine must look. When asked again, it says what came.
    async fn wait(&self, context: &ToolContext, what: Await) -> Result<Step, ToolError> {
        let now = self.clock.wall();
        let (came, wait) = match &what {
            Await::Log(name) => {
                let page = self.logs.read_log(&log(name), 0, 1).await.map_err(failed)?;
                let came = page.messages.first().map(|message| format!("{name} has {}", message.body));
                (came, Wait::on(Cause::Log { log: log(name), after: 0 }))
            }
            Await::Value(name) => {
                let found = self.values.find_value(&value(name), now).await.map_err(failed)?;
                let came = found.map(|kept| format!("{name} has {}", kept.value));
                (came, Wait::on(Cause::Value { key: value(name), revision: 0 }))
            }
            Await::Ms(ms) => {
                let came = (context.woken == Some(Woken::ByTime)).then(|| format!("{ms} ms are over"));
                (came, Wait::until(now.after(Duration::from_millis(*ms))))
            }
        };
        Ok(match (context.woken, came) {
            (Some(_), Some(text)) => Step::done(text),
            _ => Step::Wait(wait),
        })
    }
}
