//! What the user says to a goal at work. It is kept in the store, and every role that is asked from then on is told: the text is in the
//! prompt of its run, and so in the journal.

use drawloom_contract::{
    failure::{Failure, FailureKind},
    ids::RunKey,
    values::{ChangeError, Expect, NewValue, ValueChange, ValueKey},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{questions::Questions, roles::Role};

/// Maximum texts of one goal, and bytes of all of them.
const MAX_TEXTS: usize = 64;
const MAX_BYTES: usize = 128 * 1024;

/// How often a change is tried again that another one was quicker than.
const TRIES: usize = 8;

/// What was said to a goal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    pub texts: Vec<String>,
}

impl Questions {
    fn said_key(run: &RunKey) -> ValueKey {
        ValueKey { key: "said".into(), ..Self::key(run) }
    }

    /// What was said to a goal so far.
    pub async fn said(&self, run: &RunKey) -> Result<Said, Failure> {
        let found = self.values.find_value(&Self::said_key(run), self.clock.steady()).await;
        let found = found.map_err(|error| Failure::of(&error))?;
        Ok(found.and_then(|kept| serde_json::from_value(kept.value).ok()).unwrap_or_default())
    }

    /// Says something to a goal. Answers everything that was said to it.
    pub async fn say(&self, run: &RunKey, text: &str) -> Result<Said, Failure> {
        for _ in 0..TRIES {
            let key = Self::said_key(run);
            let now = self.clock.steady();
            let found = self.values.find_value(&key, now).await.map_err(|error| Failure::of(&error))?;
            let expect = found.as_ref().map_or(Expect::Absent, |kept| Expect::Revision(kept.revision));
            let mut said: Said = found.and_then(|kept| serde_json::from_value(kept.value).ok()).unwrap_or_default();
            said.texts.push(text.to_owned());
            if said.texts.len() > MAX_TEXTS || said.texts.iter().map(String::len).sum::<usize>() > MAX_BYTES {
                let message = format!("a goal takes at most {MAX_TEXTS} texts and {MAX_BYTES} bytes");
                return Err(Failure::new(FailureKind::TooLarge, "too_much_said", message)
                    .with_hint("cancel the goal, and resume it with one text that has it all"));
            }
            let value = self.redactor.clean(json!(said));
            let to = Some(NewValue { value, expires_at: None, quota: None, searched: None });
            match self.values.change(vec![ValueChange { key, expect, to, at: now }], None).await {
                Ok(_) => return Ok(said),
                Err(ChangeError::Stale { .. }) => {}
                Err(error) => return Err(Failure::of(&error)),
            }
        }
        Err(Failure::new(FailureKind::Conflict, "stale", "other texts are said to this goal at the same time")
            .with_hint("try again"))
    }
}

impl Said {
    /// What a role is told, as a section of its prompt.
    pub(crate) fn section(&self, role: Role) -> String {
        let role = match role {
            Role::Decomposer | Role::Subagent | Role::Reviewer => role,
            Role::Criteria | Role::Clarifier => return String::new(),
        };
        if self.texts.is_empty() {
            return String::new();
        }
        let list: Vec<String> = self.texts.iter().map(|text| format!("- {text}")).collect();
        let judged = if role == Role::Reviewer { " Work that does not heed it does not meet the goal." } else { "" };
        format!(
            "\n\n# The user says since the goal began\n\nIt counts as much as the goal.{judged}\n\n{}",
            list.join("\n")
        )
    }
}
