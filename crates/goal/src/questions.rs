//! Questions of goals to people: kept in the store, answered once, by whoever has the token.

use std::sync::Arc;

use drawloom_contract::{
    failure::{Failure, FailureKind},
    ids::{AgentId, RunId, RunKey, Tenant},
    record::Seq,
    redact::Redactor,
    time::{Clock, Entropy},
    tool::{ToolContext, ToolError},
    values::{ChangeError, Expect, GOALS, KeyValue, NewValue, ValueChange, ValueKey},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a goal asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub token: String,
    pub questions: Vec<String>,
    /// Criteria that were proposed; an answer may replace them.
    pub success_criteria: String,
    /// Whether they are to be confirmed.
    #[serde(default)]
    pub confirms_criteria: bool,
    /// A plan to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// The call that asks: a goal may ask more than once.
    call: Seq,
    #[serde(default)]
    pub answers: Option<Answers>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// In the order of the questions. A question without an answer is left to the goal's own judgement.
    pub answers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_criteria: Option<String>,
    /// Whether a plan is approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
}

/// What to ask.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Question {
    questions: Vec<String>,
    success_criteria: String,
    #[serde(default)]
    confirms_criteria: bool,
    #[serde(default)]
    plan: Option<Value>,
}

/// Keeps the questions of all goals.
pub struct Questions {
    pub values: Arc<dyn KeyValue>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub redactor: Arc<Redactor>,
}

impl Questions {
    /// Where the questions of a goal are.
    pub(crate) fn key(run: &RunKey) -> ValueKey {
        ValueKey {
            tenant: run.tenant.clone(),
            space: GOALS,
            owner: format!("run/{}", run.run),
            key: "questions".into(),
        }
    }

    fn token_key(tenant: &Tenant, token: &str) -> ValueKey {
        ValueKey { tenant: tenant.clone(), space: GOALS, owner: "tokens".into(), key: token.into() }
    }

    /// Asks, once, and says what is known: the questions with their answers, and the revision that they are at.
    pub(crate) async fn ask(&self, context: &ToolContext, question: Question) -> Result<(Asked, u64), ToolError> {
        let failed = |error: &dyn std::error::Error| ToolError::Failed(format!("cannot keep the questions: {error}"));
        let key = Self::key(&context.run);
        let found = self.values.find_value(&key, self.clock.steady()).await.map_err(|error| failed(&error))?;
        let expect = found.as_ref().map_or(Expect::Absent, |kept| Expect::Revision(kept.revision));
        if let Some(kept) = found {
            let asked: Asked = serde_json::from_value(kept.value)?;
            if asked.call == context.call {
                return Ok((asked, kept.revision));
            }
        }
        let at = self.clock.steady();
        let id = AgentId::mint(self.clock.wall(), &*self.entropy).map_err(|error| failed(&error))?;
        let token = format!("ask{}", &id.to_string()[1..]);
        let asked = Asked {
            token: token.clone(),
            questions: question.questions,
            success_criteria: question.success_criteria,
            confirms_criteria: question.confirms_criteria,
            plan: question.plan,
            call: context.call,
            answers: None,
        };
        let put = |key: ValueKey, expect: Expect, value: Value| ValueChange {
            key,
            expect,
            to: Some(NewValue { value: self.redactor.clean(value), expires_at: None, quota: None, searched: None }),
            at,
        };
        let run = context.run.run;
        let changes = vec![
            put(key.clone(), expect, json!(asked)),
            put(Self::token_key(&context.run.tenant, &token), Expect::Absent, json!({ "run": run })),
        ];
        let applied = self.values.change(changes, Some(context.once(0, json!(asked)))).await?;
        let asked = serde_json::from_value(applied.answer)?;
        Ok((asked, applied.result.first().copied().unwrap_or_default()))
    }

    /// What a goal asks now, or asked.
    pub async fn find(&self, run: &RunKey) -> Result<Option<Asked>, Failure> {
        let found = self.values.find_value(&Self::key(run), self.clock.steady()).await;
        let found = found.map_err(|error| Failure::of(&error))?;
        Ok(found.and_then(|kept| serde_json::from_value(kept.value).ok()))
    }

    /// The goal whose questions a token answers.
    pub async fn goal_of(&self, tenant: &Tenant, token: &str) -> Result<RunId, Failure> {
        let found = self.values.find_value(&Self::token_key(tenant, token), self.clock.steady()).await;
        let found = found.map_err(|error| Failure::of(&error))?;
        found.and_then(|kept| serde_json::from_value(kept.value["run"].clone()).ok()).ok_or_else(|| {
            Failure::new(FailureKind::NotFound, "unknown_token", "no goal waits for answers with this token")
                .with_hint("orchestrate_status of the goal shows its token; a token is valid for one answer")
        })
    }

    /// Answers, once: the first answer counts, a second one is refused.
    pub async fn answer(&self, run: &RunKey, token: &str, answers: Answers) -> Result<(), Failure> {
        let key = Self::key(run);
        let used = || {
            Failure::new(FailureKind::Conflict, "token_used", "these questions were already answered")
                .with_hint("follow the goal with orchestrate_tail; start another goal to change its course")
        };
        let found = self.values.find_value(&key, self.clock.steady()).await.map_err(|error| Failure::of(&error))?;
        let Some(kept) = found else { return Err(used()) };
        let mut asked: Asked = serde_json::from_value(kept.value).map_err(|_| used())?;
        if asked.answers.is_some() || asked.token != token {
            return Err(used());
        }
        if answers.answers.len() > asked.questions.len() {
            let message =
                format!("{} answers were given to {} questions", answers.answers.len(), asked.questions.len());
            return Err(Failure::new(FailureKind::Invalid, "too_many_answers", message));
        }
        if answers.answers.len() < asked.questions.len() {
            let missing = &asked.questions[answers.answers.len()..];
            let message = format!(
                "{} of {} questions were answered; not answered: {}",
                answers.answers.len(),
                asked.questions.len(),
                missing.join(" / ")
            );
            return Err(Failure::new(FailureKind::Invalid, "missing_answers", message).with_hint(
                "answer every question, in their order (`--answer` for each); an empty answer leaves the choice to the team",
            ));
        }
        asked.answers = Some(answers);
        let change = ValueChange {
            key,
            expect: Expect::Revision(kept.revision),
            to: Some(NewValue {
                value: self.redactor.clean(json!(asked)),
                expires_at: None,
                quota: None,
                searched: None,
            }),
            at: self.clock.steady(),
        };
        let removed = ValueChange::remove(Self::token_key(&run.tenant, token), self.clock.steady());
        match self.values.change(vec![change, removed], None).await {
            Ok(_) => Ok(()),
            Err(ChangeError::Stale { .. }) => Err(used()),
            Err(error) => Err(Failure::of(&error)),
        }
    }
}
