//! `Memory`: the tool with which agents keep and find what outlives a run.

use std::sync::Arc;

use async_trait::async_trait;
use drawloom_contract::{
    definition::MemoryScope,
    gate::Gate,
    tool::{Gates, Repeat, Step, Tool, ToolCard, ToolContext, ToolError},
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value, json};

use super::{
    Asked, By, Entry, Fit, ListAsked, Memory, Place, plain,
    rules::{Ask, Change},
};
use crate::store_tools::StoreTool;

/// The tool, which is made when the store is open.
pub const TOOL: StoreTool =
    StoreTool { name: NAME, gate: Some(GATE), make: |parts| Arc::new(MemoryTool(parts.memory.clone())) };

const NAME: &str = "Memory";

const GATE: Gate = Gate::new("memory_scopes", "memory_scopes: [user]", "use memory", |gates| {
    gates.definition.memory_scopes.is_empty()
});

/// How many entries a list has, and how many hits a search, unless the call says otherwise.
const USUAL_LIST: u32 = 100;
const USUAL_HITS: u32 = 10;
pub(super) const MOST_HITS: u32 = 50;

pub(super) struct MemoryTool(pub(super) Arc<Memory>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    op: Op,
    /// Who shares the memory. Required if the agent has several scopes; a search without it covers all of them.
    scope: Option<MemoryScope>,
    /// The key, up to 512 bytes, such as `review:42:findings`.
    key: Option<String>,
    /// `set`: any JSON. `merge`: an object. `append_dedupe` and `bounded_list`: the entry to append.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Value")]
    value: Option<Value>,
    /// `incr`: the number to add; default 1.
    delta: Option<Number>,
    /// Time to live of the value, in seconds.
    #[serde(alias = "ttl")]
    ttl_seconds: Option<u64>,
    /// Change the key only if it is at this revision; 0 means that it must not exist.
    if_revision: Option<u64>,
    /// `list` and `search`: only keys that begin with this.
    prefix: Option<String>,
    /// `list`: only keys after this one: `next` of the previous page.
    after: Option<String>,
    /// `list`: maximum entries (default 100, up to 1000). `search`: maximum results (default 10, up to 50). `bounded_list`: entries to
    /// keep (1 to 10000).
    #[serde(alias = "top_k")]
    limit: Option<u32>,
    /// `list`: keys without their values.
    #[serde(default)]
    keys_only: bool,
    /// `search`: words; "quoted words" match as a phrase, `word*` matches a prefix.
    query: Option<String>,
    /// `list` and `search`: maximum bytes of the values in the result.
    max_bytes: Option<u64>,
    /// `get`: include who wrote it, when, and what it replaced.
    #[serde(default)]
    include_provenance: bool,
}

/// A field that was given, also when it is `null`.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Op {
    Get,
    Set,
    Delete,
    List,
    Incr,
    Merge,
    AppendDedupe,
    BoundedList,
    Search,
}

#[async_trait]
impl Tool for MemoryTool {
    fn card(&self) -> ToolCard {
        ToolCard::new::<Input>(
            NAME,
            "Store and find JSON values that outlive this run. op=get, set and delete work on one key; op=list pages \
             through keys by prefix; op=incr adds to a number; op=merge merges an object (null removes a \
             field); op=append_dedupe appends to a list unless it has the entry; op=bounded_list appends and \
             drops the oldest beyond `limit`; op=search finds entries by words, best first. Every result has \
             a `revision` (0: the key does not exist); pass it as `if_revision` to change a key only if it \
             has not changed since.",
        )
    }

    fn card_for(&self, card: &ToolCard, gates: Gates<'_>) -> Result<ToolCard, String> {
        GATE.check(NAME, gates)?;
        let scopes = &gates.definition.memory_scopes;
        let mut card = card.clone();
        let lines = scopes.iter().map(|scope| format!("\n- {}: {}", scope.as_str(), shared_by(*scope)));
        card.description = format!("{}\nScopes of this agent:{}", card.description, lines.collect::<String>());
        let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        if let Some(scope) = Arc::make_mut(&mut card.input_schema).pointer_mut("/properties/scope") {
            *scope = json!({ "type": "string", "enum": names, "description": scope["description"] });
        }
        if let Some(parts) = Arc::make_mut(&mut card.input_schema).get_mut("$defs").and_then(Value::as_object_mut) {
            parts.remove("MemoryScope");
        }
        Ok(card)
    }

    fn repeat(&self) -> Repeat<'_> {
        Repeat::Keyed
    }

    async fn call(&self, context: &ToolContext, input: Value) -> Result<Step, ToolError> {
        let mut input: Input = serde_json::from_value(input)?;
        let value = input.value.take();
        let value = || value.ok_or_else(|| ToolError::Invalid("`value` is missing".into()));
        let answer = match input.op {
            Op::Get => self.get(context, input).await?,
            Op::List => self.list(context, input).await?,
            Op::Search => self.search(context, input).await?,
            Op::Set => self.change(context, input, Change::Set(value()?)).await?,
            Op::Delete => self.change(context, input, Change::Delete).await?,
            Op::Incr => {
                let delta = input.delta.clone().unwrap_or_else(|| 1.into());
                self.change(context, input, Change::Incr(delta)).await?
            }
            Op::Merge => self.change(context, input, Change::Merge(value()?)).await?,
            Op::AppendDedupe => self.change(context, input, Change::AppendDedupe(value()?)).await?,
            Op::BoundedList => {
                let limit = input.limit.ok_or_else(|| ToolError::Invalid("op=bounded_list requires `limit`".into()))?;
                self.change(context, input, Change::BoundedList { value: value()?, limit }).await?
            }
        };
        Ok(Step::done(answer.to_string()))
    }
}

impl MemoryTool {
    async fn get(&self, context: &ToolContext, input: Input) -> Result<Value, ToolError> {
        let place = place(context, input.scope)?;
        let key = key(input.key)?;
        let Some(entry) = self.0.get(&place, &key).await? else {
            return Ok(json!({ "value": null, "revision": 0, "expires_at": null }));
        };
        let mut answer = show(&entry);
        if input.include_provenance {
            let written_at = entry.written_at.to_rfc3339();
            answer["provenance"] = json!({ "by": entry.writer, "at": written_at, "replaced": entry.replaced });
        }
        Ok(answer)
    }

    async fn change(&self, context: &ToolContext, input: Input, change: Change) -> Result<Value, ToolError> {
        let place = place(context, input.scope)?;
        let ask = Ask { change, if_revision: input.if_revision, ttl_seconds: input.ttl_seconds };
        Ok(self.0.change(&place, &key(input.key)?, &ask, &By::Call(context)).await?)
    }

    async fn list(&self, context: &ToolContext, input: Input) -> Result<Value, ToolError> {
        let place = place(context, input.scope)?;
        let most = self.budget(input.max_bytes);
        let asked = ListAsked {
            prefix: input.prefix.unwrap_or_default(),
            after: input.after,
            limit: input.limit.unwrap_or(USUAL_LIST),
            bytes: (!input.keys_only).then_some(most),
        };
        let listed = self.0.list(&place, &asked).await?;
        let entries = listed.entries.iter().map(|entry| {
            let mut shown = show(entry);
            shown["key"] = entry.key.as_str().into();
            if input.keys_only {
                shown.as_object_mut().map(|fields| fields.remove("value"));
            }
            shown
        });
        let entries: Vec<Value> = entries.collect();
        Ok(json!({ "entries": entries, "truncated": listed.next.is_some(), "next": listed.next }))
    }

    async fn search(&self, context: &ToolContext, input: Input) -> Result<Value, ToolError> {
        let places = match input.scope {
            Some(_) => vec![place(context, input.scope)?],
            None => {
                let scopes = context.definition.memory_scopes.iter().filter(|scope| may_reach(context, **scope));
                scopes.map(|scope| Place::of_call(context, *scope)).collect()
            }
        };
        let Some(query) = input.query else { return Err(ToolError::Invalid("op=search requires `query`".into())) };
        let asked = Asked {
            query,
            prefix: input.prefix.unwrap_or_default(),
            limit: input.limit.unwrap_or(USUAL_HITS).clamp(1, MOST_HITS),
            bytes: self.budget(input.max_bytes),
        };
        let hits = self.0.search(&places, &asked).await?;
        let entries = hits.hits.iter().map(|hit| {
            let mut shown = show(&hit.entry);
            shown["scope"] = hit.place.scope().as_str().into();
            shown["key"] = hit.entry.key.as_str().into();
            shown["score"] = hit.score.into();
            if hit.omitted {
                shown["omitted_bytes"] = hit.bytes.into();
            }
            shown
        });
        let entries: Vec<Value> = entries.collect();
        let mut answer = json!({ "entries": entries, "truncated": hits.truncated });
        if let Some(warning) = hits.warning {
            answer["warnings"] = json!([warning]);
        }
        if hits.fit == Fit::Any {
            answer["note"] = "no entry contains all words; these contain some of them".into();
        }
        Ok(answer)
    }

    fn budget(&self, asked: Option<u64>) -> u64 {
        let most = self.0.config().search_bytes;
        asked.map_or(most, |asked| asked.min(most))
    }
}

fn show(entry: &Entry) -> Value {
    let expires_at = entry.expires_at.map(|time| time.to_rfc3339());
    json!({ "value": entry.value, "revision": entry.revision, "expires_at": expires_at })
}

fn key(key: Option<String>) -> Result<String, ToolError> {
    key.ok_or_else(|| ToolError::Invalid("`key` is missing".into()))
}

/// The memory that a call means, which the gate must allow.
fn place(context: &ToolContext, scope: Option<MemoryScope>) -> Result<Place, ToolError> {
    let allowed = &context.definition.memory_scopes;
    let names = || allowed.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ");
    let meant = scope.map(plain).or(match allowed.as_slice() {
        [only] => Some(*only),
        _ => None,
    });
    if meant.is_some_and(|scope| !may_reach(context, scope)) {
        return Err(ToolError::Denied(context.definition.not_for(&context.user)));
    }
    match (scope.map(plain), allowed.as_slice()) {
        (_, []) => Err(ToolError::Denied("`memory_scopes` of this agent is empty".into())),
        (None, [only]) => Ok(Place::of_call(context, *only)),
        (None, _) => Err(ToolError::Invalid(format!("`scope` is missing; this agent's scopes: {}", names()))),
        (Some(scope), _) if allowed.contains(&scope) => Ok(Place::of_call(context, scope)),
        (Some(scope), _) => Err(ToolError::Denied(format!(
            "this agent is not allowed to use the memory scope {}; its `memory_scopes`: {}",
            scope.as_str(),
            names()
        ))),
    }
}

/// A definition whose maker speaks for one user has no memory of other users.
fn may_reach(context: &ToolContext, scope: MemoryScope) -> bool {
    plain(scope) != MemoryScope::User || context.definition.serves(&context.user)
}

fn shared_by(scope: MemoryScope) -> &'static str {
    match scope {
        MemoryScope::Agent => "shared by all runs of this agent",
        MemoryScope::User => "shared by all agents that work for this user",
        MemoryScope::Tenant | MemoryScope::Global => "shared by the whole tenant",
        MemoryScope::Run => "shared by all runs of this run's tree; removed with them",
    }
}
