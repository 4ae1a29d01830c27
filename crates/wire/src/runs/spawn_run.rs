//! `spawn_run`: starts a run of an agent.

pub use drawloom_contract::money::Amount;
use drawloom_contract::{
    choice::Sampling,
    failure::{Failure, FailureKind},
    ids::{AgentId, AgentName, Digest, RunId, SessionId, Tenant, UserId},
    message::Segment,
    record::Status,
    runs::Start,
    view::RunView,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    request::{Changes, Detach, Request, Route},
    runs::{MAX_RESULT_BYTES, RunResult},
};

/// The longest wait that one request can ask for: a day.
pub const MAX_WAIT_MS: u64 = 86_400_000;

/// Whether the caller waits for the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Wait until it ends.
    Join,
    /// Return the ids at once.
    Detach,
}

/// What a run may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Maximum tokens of the run and its child runs. Can only lower the agent's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,
    /// Maximum cost of the run and its child runs, in the currency of `pricing`. Can only lower the agent's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Amount>,
}

/// Fields of the reference that are refused with code `not_built`.
const NOT_BUILT: [&str; 5] = ["web_search_filter", "user_bearer", "user_credentials", "interactive", "compaction"];

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

/// The requests that start one run: `SpawnRun` alone, and `Spawn` as part of a batch, which says nothing of how to wait.
macro_rules! declare_spawns {
    (
        what { $($(#[$what_meta:meta])* $what:ident: Option<$what_type:ty>,)* }
        how { $($(#[$how_meta:meta])* $how:ident: Option<$how_type:ty>,)* }
    ) => {
        /// Starts a run of an agent.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(extend("x-not-built" = NOT_BUILT))]
        pub struct SpawnRun {
            /// The agent, by name. `GET /v1/agents` lists them.
            pub agent: AgentName,
            $(
                $(#[$what_meta])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $what: Option<$what_type>,
            )*
            $(
                $(#[$how_meta])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $how: Option<$how_type>,
            )*
        }

        /// One run of a batch.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(extend("x-not-built" = NOT_BUILT))]
        pub struct Spawn {
            /// The agent, by name. `GET /v1/agents` lists them.
            pub agent: AgentName,
            $(
                $(#[$what_meta])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $what: Option<$what_type>,
            )*
        }

        impl SpawnRun {
            /// A run of `agent` that is asked `prompt`, and nothing else said.
            pub fn new(agent: AgentName, prompt: impl Into<String>) -> Self {
                let nothing = Self { agent, $($what: None,)* $($how: None,)* };
                Self { prompt: Some(prompt.into()), ..nothing }
            }

            /// What to start, apart from how to wait for it.
            pub fn split(self) -> (Spawn, How) {
                let how = How {
                    mode: self.mode,
                    wait_ms: self.wait_ms,
                    cancel_on_disconnect: self.cancel_on_disconnect.unwrap_or(false),
                    idempotency_key: self.idempotency_key,
                    result_bytes: self.result_bytes,
                };
                (Spawn { agent: self.agent, $($what: self.$what,)* }, how)
            }
        }
    };
}

declare_spawns! {
    what {
        /// The prompt, as plain text. Required unless `segments` is given.
        #[schemars(length(min = 1))]
        prompt: Option<String>,
        /// The prompt, as a list of messages with a role each. Required unless `prompt` is given.
        #[schemars(length(min = 1))]
        segments: Option<Vec<Segment>>,
        /// Restrict the agent to these of its tools: exact names or `prefix*`; `[]` means none. Defaults to all.
        #[schemars(extend("x-aliases" = ["allowed_tools"]))]
        tools: Option<Vec<String>>,
        /// Session of an earlier run: a label that groups runs. The run does not see what was said in earlier ones. A session has one
        /// unfinished run at a time. Defaults to a new one.
        session_id: Option<SessionId>,
        /// Your own id for the run, unique among unfinished runs. Defaults to a generated one.
        agent_id: Option<AgentId>,
        /// User that the run belongs to; limits per user count by it, and all runs of a batch have the same. Defaults to
        /// `default`. A principal's token overrides it.
        user_id: Option<UserId>,
        /// Tenant. The token determines it; another value is ignored with a warning.
        tenant_id: Option<Tenant>,
        /// Your own data, passed to child runs and returned in results; at most 16 KiB of JSON.
        parent_context: Option<Map<String, Value>>,
        /// Facts for the model, added to the system prompt.
        metadata: Option<Map<String, Value>>,
        /// Timeout in milliseconds since the run was accepted, including waits and downtime; the run then ends as `timed_out`.
        #[schemars(range(min = 1))]
        timeout_ms: Option<u64>,
        /// Timeout in seconds since the run started.
        #[schemars(range(min = 1, max = 31_536_000u64))]
        run_timeout_seconds: Option<u64>,
        /// Maximum model turns. Can only lower the agent's limit.
        #[schemars(range(min = 1))]
        max_iterations: Option<u32>,
        /// Budget of the run and its child runs.
        budget: Option<Budget>,
        /// Tier of the user, from `user_tiers` of the config; it determines the models. Defaults to `default`.
        #[schemars(length(min = 1))]
        user_tier: Option<String>,
        /// Sampling parameters; they override those of the agent.
        sampling: Option<Sampling>,
        /// Restrict the agent to these of its hosts; `[]` means none. Defaults to all.
        allowed_hosts: Option<Vec<String>>,
    }
    how {
        /// `join` (default) waits for the result; `detach` returns the ids at once (202).
        mode: Option<Mode>,
        /// Maximum wait in milliseconds; then the current state is returned and the run continues. Defaults to no limit.
        #[schemars(range(max = MAX_WAIT_MS))]
        wait_ms: Option<u64>,
        /// Maximum bytes of final texts in the response; longer texts are returned as an outline, to be read with `read_artifact`.
        /// Defaults to no limit, except over MCP.
        #[schemars(range(max = MAX_RESULT_BYTES))]
        result_bytes: Option<u64>,
        /// Cancel the run when the connection drops; by default it continues. Has no effect over MCP, where only an explicit
        /// cancel counts.
        cancel_on_disconnect: Option<bool>,
        /// Idempotency key: a request with the same key and body returns the same run; with another body it fails with a conflict.
        /// Also the header `Idempotency-Key`.
        #[schemars(length(min = 1, max = 255))]
        idempotency_key: Option<String>,
    }
}

/// A run that was accepted, for a caller who does not wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spawned {
    /// Its place in its batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The run.
    pub run_id: RunId,
    /// The caller's own id of the run.
    pub agent_id: AgentId,
    /// Its session: a label that groups runs.
    pub session_id: SessionId,
    /// Where it stands.
    pub status: Status,
    /// Its place in the queue, from 1, while it is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// What was narrowed, overridden or defaulted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Request for SpawnRun {
    const NAME: &'static str = "spawn_run";
    const ROUTES: &'static [Route] = &[Route::post("/v1/runs")];
    const CHANGES: Changes = Changes::EveryTime;
    type Output = RunResult;
}

impl Detach for SpawnRun {
    type Accepted = Spawned;

    fn detach(&mut self) {
        self.mode = Some(Mode::Detach);
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
            definition: None,
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

impl Spawned {
    /// The ids of a row.
    pub fn of(view: &RunView, position: Option<u64>) -> Self {
        Self {
            index: view.batch.map(|place| place.index),
            run_id: view.run,
            agent_id: view.agent_id.clone(),
            session_id: view.session,
            status: view.status,
            position: position.filter(|_| view.status == Status::Queued),
            warnings: view.warnings.clone(),
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
