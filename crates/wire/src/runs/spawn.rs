//! Requests that start runs.

use drawloom_contract::{
    choice::Sampling,
    failure::{Failure, FailureKind},
    ids::{AgentId, AgentName, Digest, SessionId, Tenant, UserId},
    message::Segment,
    money::Amount,
    runs::Start,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::runs::MAX_RESULT_BYTES;

/// The most runs of one batch.
pub const MAX_SPAWNS: usize = 32;

/// The longest wait that one request can ask for: a day.
pub const MAX_WAIT_MS: u64 = 86_400_000;

/// Whether the caller stays for the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Stay until it ends.
    Join,
    /// Take the ids and go.
    Detach,
}

/// What a run may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Most tokens of the run and all runs below it. It can only lower what the agent's definition allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,
    /// Most money of the run and all runs below it, in the currency of the server's prices. It can only lower what the
    /// agent's definition allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Amount>,
}

/// The most bytes of a `parent_context`.
pub const LONGEST_CONTEXT: usize = 16 * 1024;

/// How a caller wants to wait. It is not part of what an `idempotency_key` compares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct How {
    /// Stay or go.
    pub mode: Option<Mode>,
    /// How long to stay.
    pub wait_ms: Option<u64>,
    /// Whether a dropped connection cancels what was started.
    pub cancel_on_disconnect: bool,
    /// The caller's key of the request.
    pub idempotency_key: Option<String>,
    /// Most bytes of texts in the answer.
    pub result_bytes: Option<u64>,
}

/// Starts a run of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-not-built" = ["web_search_filter", "user_bearer", "user_credentials", "interactive", "compaction"]))]
pub struct SpawnRun {
    /// The agent, by name. `GET /v1/agents` lists them.
    pub agent: AgentName,
    /// What it is asked, as plain text. Give this or `segments`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub prompt: Option<String>,
    /// What it is asked, in pieces with a role each. Give this or `prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub segments: Option<Vec<Segment>>,
    /// Tools to leave it, of those that its definition has (exact names or `prefix*`); `[]` leaves none. All, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-aliases" = ["allowed_tools"]))]
    pub tools: Option<Vec<String>>,
    /// A session to join. A new one, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Your own handle of the run; no two unfinished runs can have the same. One is made, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// For whom it runs; caps count by user. `default`, when absent. A principal's token overrides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The tenant. The token decides it; a differing value is overridden with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<Tenant>,
    /// Your own lineage, handed down to children and echoed in results; at most 16 KiB of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_context: Option<Map<String, Value>>,
    /// Facts for the model, shown to it as a system block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Wall-clock limit in milliseconds from accept, waits and downtime included; the run then ends as `timed_out`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Wall-clock limit in seconds from first admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 31_536_000u64))]
    pub run_timeout_seconds: Option<u64>,
    /// Most model turns. It can only lower what the agent's definition allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_iterations: Option<u32>,
    /// What the run and all below it may spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The tier of the user, from the config's `user_tiers`: it decides which models are asked. `default`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub user_tier: Option<String>,
    /// How the model picks words, over what the agent's definition says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Hosts to leave it, of those that its definition has; `[]` leaves none. All, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_hosts: Option<Vec<String>>,
    /// `detach` answers the ids at once (202); `join` waits, which is also the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Longest wait in milliseconds; then the run is answered as it stands and goes on. No bound, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_WAIT_MS))]
    pub wait_ms: Option<u64>,
    /// Longest final text, in bytes, of the whole answer; longer ones come as an outline that `read_artifact` reads on. No
    /// bound, when absent, except over MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_RESULT_BYTES))]
    pub result_bytes: Option<u64>,
    /// Whether a dropped connection cancels the run. By default it goes on. An MCP session outlives its connections: there
    /// only an explicit cancel counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_on_disconnect: Option<bool>,
    /// Your key of this request: the same key and body is the same run, another body a conflict. Also the header
    /// `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// One run of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-not-built" = ["web_search_filter", "user_bearer", "user_credentials", "interactive", "compaction"]))]
pub struct Spawn {
    /// The agent, by name. `GET /v1/agents` lists them.
    pub agent: AgentName,
    /// What it is asked, as plain text. Give this or `segments`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub prompt: Option<String>,
    /// What it is asked, in pieces with a role each. Give this or `prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub segments: Option<Vec<Segment>>,
    /// Tools to leave it, of those that its definition has (exact names or `prefix*`); `[]` leaves none. All, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-aliases" = ["allowed_tools"]))]
    pub tools: Option<Vec<String>>,
    /// A session to join. A new one, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Your own handle of the run; no two unfinished runs can have the same. One is made, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// For whom it runs: the same user in every spawn of a batch. `default`, when absent. A principal's token
    /// overrides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// The tenant. The token decides it; a differing value is overridden with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<Tenant>,
    /// Your own lineage, handed down to children and echoed in results; at most 16 KiB of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_context: Option<Map<String, Value>>,
    /// Facts for the model, shown to it as a system block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Wall-clock limit in milliseconds from accept, waits and downtime included; the run then ends as `timed_out`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Wall-clock limit in seconds from first admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 31_536_000u64))]
    pub run_timeout_seconds: Option<u64>,
    /// Most model turns. It can only lower what the agent's definition allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_iterations: Option<u32>,
    /// What the run and all below it may spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The tier of the user, from the config's `user_tiers`: it decides which models are asked. `default`, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub user_tier: Option<String>,
    /// How the model picks words, over what the agent's definition says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Hosts to leave it, of those that its definition has; `[]` leaves none. All, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_hosts: Option<Vec<String>>,
}

/// Starts many runs in one call. They are accepted whole or refused whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpawnRuns {
    /// The runs, at most 32. Results come in this order.
    #[schemars(length(min = 1, max = MAX_SPAWNS))]
    pub spawns: Vec<Spawn>,
    /// `join` waits for all of them, which is also the default; `detach` answers the ids at once (202).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Wall-clock limit in milliseconds of every run, from accept. A spawn's own limit can only be shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Longest wait in milliseconds; then the batch is answered as it stands and goes on. No bound, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_WAIT_MS))]
    pub wait_ms: Option<u64>,
    /// Longest final text, in bytes, of the whole answer; longer ones come as an outline that `read_artifact` reads on. No
    /// bound, when absent, except over MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_RESULT_BYTES))]
    pub result_bytes: Option<u64>,
    /// Whether a dropped connection cancels the runs. By default they go on. An MCP session outlives its connections: there
    /// only an explicit cancel counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_on_disconnect: Option<bool>,
    /// Your key of this request: the same key and body is the same batch, another body a conflict. Also the header
    /// `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

impl SpawnRun {
    /// A run of `agent` that is asked `prompt`, and nothing else said.
    pub fn new(agent: AgentName, prompt: impl Into<String>) -> Self {
        Self {
            agent,
            prompt: Some(prompt.into()),
            segments: None,
            tools: None,
            session_id: None,
            agent_id: None,
            user_id: None,
            tenant_id: None,
            parent_context: None,
            metadata: None,
            timeout_ms: None,
            run_timeout_seconds: None,
            max_iterations: None,
            budget: None,
            user_tier: None,
            sampling: None,
            allowed_hosts: None,
            mode: None,
            wait_ms: None,
            result_bytes: None,
            cancel_on_disconnect: None,
            idempotency_key: None,
        }
    }

    /// What to start, apart from how to wait for it.
    pub fn split(self) -> (Spawn, How) {
        let spawn = Spawn {
            agent: self.agent,
            prompt: self.prompt,
            segments: self.segments,
            tools: self.tools,
            session_id: self.session_id,
            agent_id: self.agent_id,
            user_id: self.user_id,
            tenant_id: self.tenant_id,
            parent_context: self.parent_context,
            metadata: self.metadata,
            timeout_ms: self.timeout_ms,
            run_timeout_seconds: self.run_timeout_seconds,
            max_iterations: self.max_iterations,
            budget: self.budget,
            user_tier: self.user_tier,
            sampling: self.sampling,
            allowed_hosts: self.allowed_hosts,
        };
        let how = How {
            mode: self.mode,
            wait_ms: self.wait_ms,
            cancel_on_disconnect: self.cancel_on_disconnect.unwrap_or(false),
            idempotency_key: self.idempotency_key,
            result_bytes: self.result_bytes,
        };
        (spawn, how)
    }
}

impl SpawnRuns {
    /// What to start, apart from how to wait for it. The batch's time limit is in every spawn.
    pub fn split(self) -> (Vec<Spawn>, How) {
        let limit = self.timeout_ms;
        let mut spawns = self.spawns;
        for spawn in &mut spawns {
            spawn.timeout_ms = spawn.timeout_ms.into_iter().chain(limit).min();
        }
        let how = How {
            mode: self.mode,
            wait_ms: self.wait_ms,
            cancel_on_disconnect: self.cancel_on_disconnect.unwrap_or(false),
            idempotency_key: self.idempotency_key,
            result_bytes: self.result_bytes,
        };
        (spawns, how)
    }
}

impl From<SpawnRun> for Spawn {
    fn from(run: SpawnRun) -> Self {
        run.split().0
    }
}

impl Spawn {
    /// Turns `prompt` into the segment that it stands for, so that both spellings are one request. `place` says where
    /// the spawn stands in its request, for the message.
    pub fn normalise(&mut self, place: &str) -> Result<(), Failure> {
        let invalid = |code, message: String| Failure::new(FailureKind::Invalid, code, message);
        let context = self.parent_context.as_ref().map_or(0, json_bytes);
        if context > LONGEST_CONTEXT {
            let message = format!("{place}parent_context is {context} bytes of JSON; it may have {LONGEST_CONTEXT}");
            return Err(
                invalid("too_long", message).with_hint("it is echoed in every result; put long texts into segments")
            );
        }
        match (self.prompt.take(), &self.segments) {
            (None, Some(_)) => Ok(()),
            (Some(prompt), None) => {
                self.segments = Some(vec![Segment::user(prompt)]);
                Ok(())
            }
            (Some(_), Some(_)) => Err(invalid(
                "both_spellings",
                format!("{place}prompt and {place}segments are two ways to say the same, and both are there"),
            )
            .with_hint("leave one of them out")),
            (None, None) => {
                Err(invalid("missing_key", format!("{place}prompt is missing: the agent is asked nothing"))
                    .with_hint("give prompt, or segments"))
            }
        }
    }

    /// The start that this asks for, after `normalise`.
    pub fn into_start(self, warnings: Vec<String>) -> Start {
        Start {
            user: None,
            agent: self.agent,
            segments: self.segments.unwrap_or_default(),
            input: None,
            tools: self.tools,
            session: self.session_id,
            agent_id: self.agent_id,
            parent_context: self.parent_context.map(Value::Object),
            metadata: self.metadata.map(Value::Object),
            timeout_ms: self.timeout_ms,
            run_timeout_ms: self.run_timeout_seconds.map(|seconds| seconds.saturating_mul(1_000)),
            max_iterations: self.max_iterations,
            budget_tokens: self.budget.and_then(|budget| budget.tokens),
            budget_cost: self.budget.and_then(|budget| budget.cost).map(|Amount(cost)| cost),
            user_tier: self.user_tier,
            sampling: self.sampling.unwrap_or_default(),
            hosts: self.allowed_hosts,
            volumes: None,
            warnings,
        }
    }
}

fn json_bytes(value: &Map<String, Value>) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

/// The digest that an idempotency key compares: normalised spawns, without how to wait. Absent and `null` are the same,
/// and so is every order of keys.
pub fn digest(spawns: &[Spawn]) -> Digest {
    Digest::of(&serde_json::to_vec(spawns).expect("spawns have only text keys"))
}
