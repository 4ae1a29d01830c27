//! What happens to a run, as events.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use drawloom_contract::{
    activity::{Activity, RunActivity},
    failure::RunError,
    ids::{AgentId, AgentName, BatchId, RunId, SessionId},
    message::{Block, Role, Segment},
    model::DeltaKind,
    record::{Accepted, BatchPlace, Body, Parent, Record, Seq, Status, StopReason, TurnDone, TurnFailed},
    runs::{Delta, Item},
    time::Timestamp,
    usage::Usage,
    view::RunView,
    wait::Cause,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    events::{Event, TREE_DONE},
    runs::Amount,
};

/// Bytes of a prompt in an event.
const EXCERPT: usize = 200;

/// Turns a run's items into events, one record at most one event. It sees the records in order, from the first, and
/// remembers the little that later events repeat.
#[derive(Debug, Default)]
pub struct Mapper {
    provider: String,
    model: String,
    greeted: bool,
    admitted: bool,
    failed: Option<(Timestamp, TurnFailed)>,
    calls: HashMap<Seq, (String, String, Timestamp)>,
    finished: Option<Seq>,
    ended: bool,
}

impl Mapper {
    /// For a run whose first record is still to come.
    pub fn new(view: &RunView) -> Self {
        Self {
            provider: view.provider.clone(),
            model: view.model.clone(),
            greeted: false,
            admitted: false,
            failed: None,
            calls: HashMap::new(),
            finished: None,
            ended: false,
        }
    }

    /// The first frames of a stream that starts with its run, before any item: `session`, then `agent`.
    pub fn greet(&mut self, view: &RunView) -> [Event; 2] {
        self.greeted = true;
        [
            event("session", None, &Session { r#type: "session", text: view.session }),
            stamped(
                agent(&AgentIs {
                    agent_id: &view.agent_id,
                    run_id: view.run,
                    session_id: view.session,
                    agent: &view.agent,
                    parent: view.parent.as_ref(),
                    parent_context: view.parent_context.as_ref(),
                    batch: view.batch,
                    retry_of: view.retry.map(|retry| retry.of),
                    warnings: &view.warnings,
                }),
                view.accepted_at,
            ),
        ]
    }

    /// The event that shows `item`, if one does.
    pub fn map(&mut self, item: &Item) -> Option<Event> {
        if self.ended {
            return None;
        }
        match item {
            Item::Record(record) => self.record(record).map(|event| stamped(event, record.at)),
            Item::Delta(delta) => Some(piece(delta)),
            Item::Activity(activity) => Some(doing(activity)),
            Item::Ended(view) => {
                self.ended = true;
                let event = end(view, self.finished.unwrap_or(view.seq));
                Some(stamped(event, view.ended_at.unwrap_or(view.accepted_at)))
            }
        }
    }

    fn record(&mut self, record: &Record) -> Option<Event> {
        let id = Some(record.seq);
        match &record.body {
            Body::Accepted(accepted) => {
                self.provider.clone_from(&accepted.provider);
                self.model.clone_from(&accepted.model);
                (!std::mem::replace(&mut self.greeted, true)).then(|| accepted_as_agent(accepted))
            }
            Body::Admitted { .. } => (!std::mem::replace(&mut self.admitted, true))
                .then(|| event("started", id, &Only { r#type: "started" })),
            Body::TurnStarted(started) if started.attempt > 1 => {
                let failed = self.failed.take();
                let retry = Retry {
                    provider: &self.provider,
                    turn: started.turn,
                    attempt: started.attempt,
                    wait_ms: failed.as_ref().map(|(at, _)| record.at.since(*at).as_millis()),
                    reason: failed.as_ref().map(|(_, failed)| failed.error.message.as_str()),
                    code: failed.as_ref().map(|(_, failed)| failed.error.code.as_str()),
                };
                Some(event("retry", id, &Retried { r#type: "retry", retry }))
            }
            Body::TurnDone(done) => Some(event(
                "message",
                id,
                &Message {
                    r#type: "message",
                    turn: done.turn,
                    text: &done.text,
                    thinking: Some(reasoning(done)).filter(|text| !text.is_empty()),
                    tool_uses: &done.calls,
                    stop_reason: done.stop_reason,
                },
            )),
            Body::Usage { turn, usage, cost, assumed } => {
                let usage = Tokens {
                    usage: *usage,
                    model: &self.model,
                    provider: &self.provider,
                    cost: cost.map(Amount),
                    assumed: *assumed,
                };
                Some(event("usage", id, &Used { r#type: "usage", turn: *turn, usage }))
            }
            Body::TurnFailed(failed) => {
                self.failed = Some((record.at, failed.clone()));
                let reset = Reset {
                    r#type: "turn_reset",
                    turn: failed.turn,
                    attempt: failed.attempt,
                    error: &failed.error,
                    will_retry: failed.retry_at.is_some(),
                    maybe_paid: failed.maybe_paid,
                };
                Some(event("turn_reset", id, &reset))
            }
            Body::Switched(switched) => {
                self.provider.clone_from(&switched.to.provider);
                self.model.clone_from(&switched.to.model);
                let fallback = Change {
                    failed_provider: &switched.from.provider,
                    failed_model: &switched.from.model,
                    new_provider: &switched.to.provider,
                    new_model: &switched.to.model,
                    attempt: switched.attempt,
                    reason: &switched.error.code,
                    cause_error: &switched.error.message,
                };
                let data = Fallback { r#type: "provider_fallback", turn: switched.turn, fallback };
                Some(event("provider_fallback", id, &data))
            }
            Body::Notice { notice, text } => Some(event(notice.as_str(), id, &Said { r#type: notice.as_str(), text })),
            Body::CallStarted(started) => {
                let tool_use = &started.tool_use;
                self.calls.insert(record.seq, (tool_use.id.clone(), tool_use.name.clone(), record.at));
                let tool_use = ToolUse { id: &tool_use.id, name: &tool_use.name, input: Some(&tool_use.input) };
                Some(event(
                    "tool_call",
                    id,
                    &Call {
                        r#type: "tool_call",
                        tool_use,
                        call: record.seq,
                        conditions: started.conditions.as_deref(),
                    },
                ))
            }
            Body::CallDone(done) => {
                let names = self.calls.remove(&done.call);
                let tool_use = names.as_ref().map(|(id, name, _)| ToolUse { id, name, input: None });
                let took_ms = names.as_ref().map(|(_, _, began)| record.at.since(*began).as_millis());
                let result = CallResult {
                    r#type: "tool_result",
                    text: &done.text,
                    is_error: done.is_error,
                    in_doubt: done.in_doubt,
                    tool_use,
                    call: done.call,
                    took_ms,
                };
                Some(event("tool_result", id, &result))
            }
            Body::Parked { wait } => {
                let until = wait.until.map(Timestamp::to_rfc3339);
                let on = wait.on.first().map(Cause::name);
                Some(event("waiting", id, &Waiting { r#type: "waiting", until, on }))
            }
            Body::Finished(_) => {
                // Its event comes with the row, which has the final text.
                self.finished = id;
                None
            }
            Body::TurnStarted(_)
            | Body::CallWaiting { .. }
            | Body::Resumed(_)
            | Body::LimitReached { .. }
            | Body::StopRequested(_)
            | Body::Note { .. } => None,
        }
    }
}

fn accepted_as_agent(accepted: &Accepted) -> Event {
    agent(&AgentIs {
        agent_id: &accepted.agent_id,
        run_id: accepted.run,
        session_id: accepted.session,
        agent: &accepted.agent,
        parent: accepted.parent.as_ref(),
        parent_context: accepted.parent_context.as_ref(),
        batch: accepted.batch,
        retry_of: accepted.retry.map(|retry| retry.of),
        warnings: &accepted.warnings,
    })
}

struct AgentIs<'a> {
    agent_id: &'a AgentId,
    run_id: RunId,
    session_id: SessionId,
    agent: &'a AgentName,
    parent: Option<&'a Parent>,
    parent_context: Option<&'a Value>,
    batch: Option<BatchPlace>,
    retry_of: Option<RunId>,
    warnings: &'a [String],
}

fn agent(is: &AgentIs<'_>) -> Event {
    let data = Agent {
        r#type: "agent",
        agent_id: is.agent_id,
        run_id: is.run_id,
        session_id: is.session_id,
        agent: is.agent,
        parent_agent_id: is.parent.map(|parent| &parent.agent_id),
        parent_run_id: is.parent.map(|parent| parent.run),
        parent_context: is.parent_context,
        batch_id: is.batch.map(|place| place.batch),
        index: is.batch.map(|place| place.index),
        retry_of: is.retry_of,
        warnings: is.warnings,
    };
    event("agent", Some(1), &data)
}

fn reasoning(done: &TurnDone) -> String {
    done.thoughts.iter().map(|thought| thought.text.as_str()).chain([done.thinking.as_str()]).collect()
}

fn piece(delta: &Delta) -> Event {
    let name = match delta.kind {
        DeltaKind::Text => "text",
        DeltaKind::Thinking => "thinking",
    };
    event(name, None, &Piece { r#type: name, text: &delta.text, turn: delta.turn, offset: delta.offset })
}

fn doing(now: &RunActivity) -> Event {
    let Activity { tool, detail, tokens, cost } = &now.activity;
    let data = Doing { r#type: "activity", call: now.call, tool, detail, tokens: *tokens, cost: cost.map(Amount) };
    event("activity", None, &data)
}

fn end(view: &Arc<RunView>, seq: Seq) -> Event {
    let name = if view.status == Status::Completed { "done" } else { "error" };
    let data = End {
        r#type: name,
        run_id: view.run,
        status: view.status,
        stop_reason: view.stop_reason,
        usage: view.usage,
        cost: view.cost.map(Amount),
        assumed_cost: view.assumed.map(Amount),
        error: view.error.as_ref(),
        final_text: view.final_text.as_deref(),
        warnings: &view.warnings,
    };
    event(name, Some(seq), &data)
}

/// An event of a stream of a tree: with the run and the agent that it is about, and its position as its id.
pub fn placed(mut event: Event, run: RunId, agent: &AgentName, position: u64) -> Event {
    let has_run = matches!(&*event.name, "agent" | "done" | "error");
    event.data.pop();
    if !has_run {
        event.data.push_str(&format!(",\"run_id\":\"{run}\""));
    }
    if event.name != "agent" {
        event.data.push_str(&format!(",\"agent\":\"{agent}\""));
    }
    event.data.push('}');
    event.id = event.id.map(|_| position);
    event
}

/// The event `agent` of a stream of a tree, with the beginning of what the run was asked.
pub fn with_prompt(mut event: Event, segments: &[Segment]) -> Event {
    let mut texts = segments.iter().filter(|segment| segment.role == Role::User).flat_map(|segment| &segment.content);
    let text = texts.find_map(|block| match block {
        Block::TrustedText { text } | Block::UntrustedBlock { text, .. } => Some(text),
        Block::Image { .. } => None,
    });
    if let Some(text) = text {
        let text = serde_json::to_string(&text[..text.floor_char_boundary(EXCERPT)]).expect("a string is always JSON");
        event.data.pop();
        event.data.push_str(&format!(",\"prompt\":{text}}}"));
    }
    event
}

/// The last event of a stream of a tree.
pub fn tree_done(top: RunId) -> Event {
    event(TREE_DONE, None, &TreeDone { r#type: TREE_DONE, run_id: top })
}

/// The event with the time of what it shows, as its last field.
fn stamped(mut event: Event, at: Timestamp) -> Event {
    debug_assert!(event.data.ends_with('}'), "the data of every event is an object");
    event.data.pop();
    event.data.push_str(&format!(",\"at\":\"{}\"}}", at.to_rfc3339()));
    event
}

fn event(name: &'static str, id: Option<Seq>, data: &impl Serialize) -> Event {
    let data = serde_json::to_string(data).expect("event data has only text keys");
    Event { name: Cow::Borrowed(name), id, data }
}

#[derive(Serialize)]
struct TreeDone {
    r#type: &'static str,
    run_id: RunId,
}

#[derive(Serialize)]
struct Only {
    r#type: &'static str,
}

#[derive(Serialize)]
struct Session {
    r#type: &'static str,
    text: SessionId,
}

#[derive(Serialize)]
struct Agent<'a> {
    r#type: &'static str,
    agent_id: &'a AgentId,
    run_id: RunId,
    session_id: SessionId,
    agent: &'a AgentName,
    parent_agent_id: Option<&'a AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_run_id: Option<RunId>,
    parent_context: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_id: Option<BatchId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_of: Option<RunId>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Piece<'a> {
    r#type: &'static str,
    text: &'a str,
    turn: u32,
    offset: u64,
}

#[derive(Serialize)]
struct Message<'a> {
    r#type: &'static str,
    turn: u32,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<String>,
    tool_uses: &'a [drawloom_contract::message::ToolUse],
    stop_reason: StopReason,
}

#[derive(Serialize)]
struct Used<'a> {
    r#type: &'static str,
    turn: u32,
    usage: Tokens<'a>,
}

#[derive(Serialize)]
struct Tokens<'a> {
    #[serde(flatten)]
    usage: Usage,
    model: &'a str,
    provider: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Amount>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    assumed: bool,
}

#[derive(Serialize)]
struct Fallback<'a> {
    r#type: &'static str,
    turn: u32,
    fallback: Change<'a>,
}

#[derive(Serialize)]
struct Change<'a> {
    failed_provider: &'a str,
    failed_model: &'a str,
    new_provider: &'a str,
    new_model: &'a str,
    attempt: u32,
    reason: &'a str,
    cause_error: &'a str,
}

#[derive(Serialize)]
struct Said<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct Reset<'a> {
    r#type: &'static str,
    turn: u32,
    attempt: u32,
    error: &'a RunError,
    will_retry: bool,
    maybe_paid: bool,
}

#[derive(Serialize)]
struct Retried<'a> {
    r#type: &'static str,
    retry: Retry<'a>,
}

#[derive(Serialize)]
struct Retry<'a> {
    provider: &'a str,
    turn: u32,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
}

#[derive(Serialize)]
struct Call<'a> {
    r#type: &'static str,
    tool_use: ToolUse<'a>,
    call: Seq,
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<&'a str>,
}

#[derive(Serialize)]
struct ToolUse<'a> {
    id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'a Value>,
}

#[derive(Serialize)]
struct CallResult<'a> {
    r#type: &'static str,
    text: &'a str,
    is_error: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    in_doubt: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_use: Option<ToolUse<'a>>,
    call: Seq,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ms: Option<u128>,
}

#[derive(Serialize)]
struct Doing<'a> {
    r#type: &'static str,
    call: Seq,
    #[serde(skip_serializing_if = "str::is_empty")]
    tool: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
    tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Amount>,
}

#[derive(Serialize)]
struct Waiting {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on: Option<&'static str>,
}

#[derive(Serialize)]
struct End<'a> {
    r#type: &'static str,
    run_id: RunId,
    status: Status,
    stop_reason: Option<StopReason>,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    assumed_cost: Option<Amount>,
    error: Option<&'a RunError>,
    final_text: Option<&'a str>,
    warnings: &'a [String],
}
