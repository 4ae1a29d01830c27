//! Evaluations: what agents and callers think of runs, as scores from 0 to 1, listed by run and summed by definition.
//!
//! An evaluation is the same when run, emitter and tag are: submitted again with the same content it changes nothing, with other
//! content it is the next revision of it. It is written in one change with its places in the lists, under the key of its call or
//! request, so a retry neither doubles it nor loses it.

mod aggregate;
mod error;
mod keys;
mod limits;
mod lineage;
mod list;
mod record;
mod role;
mod scope;
mod stats;
mod tool;

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use drawloom_contract::{
    caller::{Caller, Visible},
    ids::{RunId, RunKey, Tenant},
    journal::{RunReader, StoreError},
    once::{Applied, Made, Once, RequestKey},
    redact::Redactor,
    time::{Clock, Entropy, Timestamp},
    tool::ToolContext,
    values::{ChangeError, Expect, KeyValue, NewValue, Quota, ValueChange, ValueKey},
    view::RunView,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub use aggregate::{Meant, Of};
pub use error::EvaluationError;
pub use limits::LIMITS;
pub use lineage::{Lineage, Versions};
pub use list::{ListAsked, Listed};
pub use record::{EvalId, Evaluation};
pub use scope::{EVALUATION_SCOPES, EmitterRole, EvaluationScope};
pub use tool::TOOL;

use keys::{Order, Owner, identity_key, place};
use record::{Emitter, Identity, Replaced};

/// Maximum bytes of a judgement as JSON, and of a rationale.
pub const MOST_JUDGEMENT_BYTES: usize = 32 * 1024;
pub const MOST_RATIONALE_BYTES: usize = 8 * 1024;

/// Maximum dimensions of an evaluation.
pub const MOST_DIMENSIONS: usize = 32;

/// Maximum bytes of a tag and of the name of a dimension.
pub const MOST_NAME_BYTES: usize = 128;

/// Maximum evaluations of a run, and bytes of all of them.
pub const MOST_OF_RUN: u64 = 1_000;
pub const MOST_OF_RUN_BYTES: u64 = 8 * 1024 * 1024;

/// Maximum evaluations that count for a definition. Beyond it the oldest tenth goes.
pub const MOST_OF_DEFINITION: u64 = 4_000;

/// Maximum evaluated definitions of an agent that are listed by its name.
pub const MOST_OF_AGENT: u64 = 1_000;

/// Maximum definitions of one aggregate.
pub const MOST_PARENTS: usize = 32;

/// Maximum evaluations of one page.
pub const MOST_LISTED: u32 = 200;

/// How often a submission is tried again when others were first.
const TRIES: u32 = 16;

/// The rows of runs: what is evaluated, and by whom.
#[async_trait]
pub trait RunRows: Send + Sync {
    /// The run, if there is one in that tenant; its final text may be left out.
    async fn find_row(&self, key: &RunKey) -> Result<Option<RunView>, StoreError>;
}

#[async_trait]
impl<R: RunReader> RunRows for R {
    async fn find_row(&self, key: &RunKey) -> Result<Option<RunView>, StoreError> {
        self.find_run_without_text(key).await
    }
}

/// What evaluations are made of.
pub struct EvaluationParts {
    pub values: Arc<dyn KeyValue>,
    pub runs: Arc<dyn RunRows>,
    pub lineage: Arc<dyn Lineage>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub redactor: Arc<Redactor>,
}

pub struct Evaluations {
    parts: EvaluationParts,
    order: Order,
}

/// Who submits.
pub enum By<'a> {
    /// A run, in the role that [`Evaluations::role`] gave it.
    Call(&'a ToolContext, EmitterRole),
    Request {
        caller: &'a Caller,
        /// The caller's idempotency key.
        key: Option<RequestKey>,
    },
}

/// An evaluation to submit.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    pub score: f64,
    pub dimensions: BTreeMap<String, f64>,
    pub judgement: Option<Value>,
    pub rationale: Option<String>,
    pub tag: Option<String>,
}

/// Where the evaluation of an identity is listed.
#[derive(Deserialize)]
struct Pointer {
    place: String,
}

/// An evaluation that is there, where, and the revision of its pointer.
struct Before {
    evaluation: Evaluation,
    place: String,
    revision: u64,
}

impl By<'_> {
    fn tenant(&self) -> &Tenant {
        match self {
            Self::Call(context, _) => &context.run.tenant,
            Self::Request { caller, .. } => &caller.tenant,
        }
    }

    fn role(&self) -> EmitterRole {
        match self {
            Self::Call(_, role) => *role,
            Self::Request { .. } => EmitterRole::External,
        }
    }

    fn emitter(&self) -> Emitter {
        match self {
            Self::Call(context, _) => Emitter {
                run_id: Some(context.run.run),
                agent: Some(context.definition.name.clone()),
                user_id: context.user.clone(),
            },
            Self::Request { caller, .. } => Emitter { run_id: None, agent: None, user_id: caller.subject.clone() },
        }
    }

    fn once(&self, answer: &Value, redactor: &Redactor, now: Timestamp) -> Option<Once> {
        match self {
            Self::Call(context, _) => Some(context.once(0, answer.clone())),
            Self::Request { key, .. } => {
                let made = Made::Answer { answer: redactor.clean(answer.clone()), at: now };
                key.clone().map(|key| Once::Request { key, made })
            }
        }
    }
}

impl Evaluations {
    pub fn new(parts: EvaluationParts) -> Arc<Self> {
        Arc::new(Self { parts, order: Order::default() })
    }

    /// Submits an evaluation of a run that the submitter may see, once: durable when this returns.
    pub async fn submit(&self, by: &By<'_>, run: &RunView, mut asked: Submission) -> Result<Value, EvaluationError> {
        self.check(&asked)?;
        // The sum of -0.0 and 0.0 is 0.0.
        [&mut asked.score].into_iter().chain(asked.dimensions.values_mut()).for_each(|score| *score += 0.0);
        let tenant = by.tenant();
        let id = EvalId { run: run.run, identity: self.identity(by, asked.tag.as_deref())? };
        let (asked, mut warnings) = self.masked(asked);
        let (mut dropped, mut is_listed_by_agent) = (Vec::new(), true);
        for _ in 0..TRIES {
            let now = self.parts.clock.wall();
            let before = self.find(tenant, id, now).await?;
            let new = Evaluation {
                eval_id: id,
                run_id: run.run,
                def_id: run.definition,
                agent: run.agent.clone(),
                user_id: run.user.clone(),
                emitter: by.emitter(),
                emitter_role: by.role(),
                tag: asked.tag.clone(),
                score: asked.score,
                dimensions: asked.dimensions.clone(),
                judgement: asked.judgement.clone(),
                rationale: asked.rationale.clone(),
                created_at: now,
                revision: before.as_ref().map_or(1, |before| before.evaluation.revision + 1),
                replaced: before.as_ref().map(|before| Replaced {
                    score: before.evaluation.score,
                    created_at: before.evaluation.created_at,
                }),
            };
            if let Some(before) = before.as_ref().filter(|before| before.evaluation.says_the_same(&new)) {
                let answer = told(&before.evaluation, true, 0, &warnings);
                return Ok(self.write(Vec::new(), answer, by, now).await?);
            }
            let mut changes: Vec<ValueChange> =
                dropped.iter().cloned().map(|key| ValueChange::remove(key, now)).collect();
            changes.extend(self.changes(tenant, &new, before.as_ref(), now));
            if is_listed_by_agent {
                changes.extend(self.listing_by_agent(tenant, &new, now).await?);
            }
            let answer = told(&new, false, dropped.len(), &warnings);
            match self.write(changes, answer, by, now).await {
                Err(ChangeError::Stale { .. }) => {}
                Err(ChangeError::OverQuota { owner, .. }) if Owner::is_definition(&owner) && dropped.is_empty() => {
                    dropped = self.oldest(tenant, &Owner::Definition(run.definition), now).await?;
                }
                Err(ChangeError::OverQuota { owner, .. }) if Owner::is_agent(&owner) && is_listed_by_agent => {
                    is_listed_by_agent = false;
                    warnings.push(format!(
                        "agent {} has more than {MOST_OF_AGENT} evaluated definitions; its statistics do not list {}",
                        run.agent, run.definition
                    ));
                }
                written => return Ok(written?),
            }
        }
        Err(EvaluationError::Busy(id))
    }

    /// One evaluation, with its texts.
    pub async fn get(&self, visible: &Visible, id: EvalId) -> Result<Evaluation, EvaluationError> {
        let found = self.find(visible.tenant(), id, self.parts.clock.wall()).await?;
        let seen = found.filter(|found| visible.sees(visible.tenant(), &found.evaluation.user_id));
        seen.map(|found| found.evaluation).ok_or(EvaluationError::Unknown(id))
    }

    /// The run of the tenant.
    pub(crate) async fn load_run(&self, tenant: &Tenant, run: RunId) -> Result<RunView, EvaluationError> {
        let found = self.parts.runs.find_row(&RunKey { tenant: tenant.clone(), run }).await?;
        found.ok_or(EvaluationError::UnknownRun(run))
    }

    async fn find(&self, tenant: &Tenant, id: EvalId, now: Timestamp) -> Result<Option<Before>, EvaluationError> {
        let (owner, values) = (Owner::Run(id.run), &self.parts.values);
        // Between the two reads it may have moved to another place; then it is looked for again.
        for _ in 0..TRIES {
            let pointer = values.find_value(&owner.key(tenant, identity_key(id.identity)), now).await?;
            let Some(kept) = pointer else { return Ok(None) };
            let Pointer { place } = decode(kept.value)?;
            if let Some(found) = values.find_value(&owner.listed(tenant, &place), now).await? {
                return Ok(Some(Before { evaluation: decode(found.value)?, place, revision: kept.revision }));
            }
        }
        Err(EvaluationError::Busy(id))
    }

    /// What makes an evaluation true: removals first, so that a revision takes no more room.
    fn changes(&self, tenant: &Tenant, new: &Evaluation, before: Option<&Before>, now: Timestamp) -> Vec<ValueChange> {
        let of_run = Quota { keys: 2 * MOST_OF_RUN, bytes: MOST_OF_RUN_BYTES };
        let of_definition = Quota { keys: MOST_OF_DEFINITION, bytes: u64::MAX >> 1 };
        let (run, definition) = (Owner::Run(new.run_id), Owner::Definition(new.def_id));
        let place = place(self.order.next(now), new.eval_id);
        let put = |key: ValueKey, expect: Expect, value: Value, quota: Quota| {
            let value = self.parts.redactor.clean(value);
            let to = Some(NewValue { value, expires_at: None, quota: Some(quota), searched: None });
            ValueChange { key, expect, to, at: now }
        };
        let mut changes = Vec::new();
        if let Some(Before { place, .. }) = before {
            let removed = [&run, &definition].map(|owner| ValueChange::remove(owner.listed(tenant, place), now));
            changes.extend(removed);
        }
        let expect = before.map_or(Expect::Absent, |before| Expect::Revision(before.revision));
        let pointer = run.key(tenant, identity_key(new.eval_id.identity));
        changes.push(put(pointer, expect, json!({ "place": place }), of_run));
        changes.push(put(run.listed(tenant, &place), Expect::Anything, json!(new), of_run));
        let numbers = json!(new.without_texts());
        changes.push(put(definition.listed(tenant, &place), Expect::Anything, numbers, of_definition));
        changes
    }

    /// Lists the definition by its agent's name, with its first evaluation.
    async fn listing_by_agent(
        &self,
        tenant: &Tenant,
        new: &Evaluation,
        now: Timestamp,
    ) -> Result<Option<ValueChange>, EvaluationError> {
        let key = Owner::Agent(new.agent.clone()).key(tenant, new.def_id.to_string());
        if self.parts.values.find_value(&key, now).await?.is_some() {
            return Ok(None);
        }
        let version = self.parts.lineage.version(tenant, &new.def_id).await?;
        let value = self.parts.redactor.clean(json!({ "first_at": now, "version": version }));
        let quota = Some(Quota { keys: MOST_OF_AGENT, bytes: u64::MAX >> 1 });
        let to = Some(NewValue { value, expires_at: None, quota, searched: None });
        Ok(Some(ValueChange { key, expect: Expect::Anything, to, at: now }))
    }

    /// The oldest tenth of what an owner lists.
    async fn oldest(&self, tenant: &Tenant, owner: &Owner, now: Timestamp) -> Result<Vec<ValueKey>, EvaluationError> {
        let mut keys: Vec<ValueKey> = Vec::new();
        loop {
            let page = self.parts.values.list_values(&owner.range(tenant), keys.last(), 1_000, now).await?;
            if page.is_empty() {
                return Ok(keys.split_off(keys.len() - keys.len().div_ceil(10)));
            }
            keys.extend(page.into_iter().map(|(key, _)| key));
        }
    }

    /// Writes changes under the key of the call or request, with the answer that a repeat gets.
    async fn write(
        &self,
        changes: Vec<ValueChange>,
        answer: Value,
        by: &By<'_>,
        now: Timestamp,
    ) -> Result<Value, ChangeError> {
        let once = by.once(&answer, &self.parts.redactor, now);
        if changes.is_empty() && once.is_none() {
            return Ok(answer);
        }
        let is_keyed = once.is_some();
        let Applied { answer: first, .. } = self.parts.values.change(changes, once).await?;
        Ok(if is_keyed { first } else { answer })
    }

    /// What tells an evaluation from others of the run: emitter and tag, or the call or request.
    fn identity(&self, by: &By<'_>, tag: Option<&str>) -> Result<Identity, EvaluationError> {
        let emitter = by.emitter();
        let who = match &emitter.run_id {
            Some(run) => json!(["run", run]),
            None => json!(["user", emitter.user_id]),
        };
        Ok(Identity::of(&match (tag, by) {
            (Some(tag), _) => json!([who, "tag", tag]),
            (None, By::Call(context, _)) => json!([who, "call", context.call]),
            (None, By::Request { key: Some(key), .. }) => json!([who, "key", key.key]),
            (None, By::Request { key: None, .. }) => {
                let mut random = [0; 16];
                self.parts.entropy.fill(&mut random).map_err(EvaluationError::NoEntropy)?;
                return Ok(Identity(random));
            }
        }))
    }

    fn check(&self, asked: &Submission) -> Result<(), EvaluationError> {
        let scores = asked.dimensions.iter().map(|(name, score)| (format!("the dimension {name:?}"), *score));
        for (what, score) in [("the evaluation".to_owned(), asked.score)].into_iter().chain(scores) {
            if !(0.0..=1.0).contains(&score) {
                return Err(EvaluationError::BadScore { what, score });
            }
        }
        if asked.dimensions.len() > MOST_DIMENSIONS {
            return Err(EvaluationError::TooManyDimensions(asked.dimensions.len()));
        }
        let tag = asked.tag.iter().map(|tag| ("tag", tag));
        for (what, name) in tag.chain(asked.dimensions.keys().map(|name| ("name of a dimension", name))) {
            let is_secret = self.parts.redactor.mask(&mut name.clone());
            let is_bad = name.is_empty() || name.len() > MOST_NAME_BYTES || name.chars().any(char::is_control);
            if is_bad || is_secret {
                let name = if is_secret { "…".into() } else { name.chars().take(80).collect() };
                return Err(EvaluationError::BadName { what, name });
            }
        }
        let judgement = asked.judgement.as_ref().map_or(0, |judgement| judgement.to_string().len());
        let rationale = asked.rationale.as_ref().map_or(0, String::len);
        for (what, bytes, most) in
            [("judgement", judgement, MOST_JUDGEMENT_BYTES), ("rationale", rationale, MOST_RATIONALE_BYTES)]
        {
            if bytes > most {
                return Err(EvaluationError::TooLong { what, bytes, most });
            }
        }
        Ok(())
    }

    /// The submission as it is kept, and what its caller should know of that.
    fn masked(&self, mut asked: Submission) -> (Submission, Vec<String>) {
        let mut is_masked = asked.rationale.as_mut().is_some_and(|text| self.parts.redactor.mask(text));
        if let Some(judgement) = asked.judgement.take() {
            let clean = self.parts.redactor.clean(judgement);
            is_masked |= clean.is_masked();
            asked.judgement = Some(clean.into_inner());
        }
        let warning = "the evaluation contains a secret, which is masked in what is stored";
        (asked, if is_masked { vec![warning.into()] } else { Vec::new() })
    }
}

/// What the submitter is told, and what a repeat is answered.
fn told(evaluation: &Evaluation, is_unchanged: bool, dropped: usize, warnings: &[String]) -> Value {
    let shown = evaluation.show();
    let mut answer = json!({ "unchanged": is_unchanged });
    for field in ["eval_id", "run_id", "def_id", "emitter_role", "score", "created_at", "revision", "replaced"] {
        if let Some(value) = shown.get(field) {
            answer[field] = value.clone();
        }
    }
    if dropped > 0 {
        answer["dropped_oldest"] = dropped.into();
    }
    if !warnings.is_empty() {
        answer["warnings"] = json!(warnings);
    }
    answer
}

fn decode<T: DeserializeOwned>(value: Value) -> Result<T, StoreError> {
    serde_json::from_value(value)
        .map_err(|error| StoreError::Corrupt { store: "evaluations".into(), detail: error.to_string() })
}

#[cfg(test)]
mod tests;
