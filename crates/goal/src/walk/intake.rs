//! Before the first plan: success criteria, and what must be asked.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    request::Interaction,
    review,
    roles::Role,
    tools::{QUESTIONS, RoleMode},
    walk::{Flow, Halt, Question, Walk, judge::clipped},
    workspace::CheckedOut,
};

/// The criteria when none were given and none could be proposed.
const NO_CRITERIA: &str = "Complete the goal as stated.";

/// What all roles are told of the goal.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Brief {
    pub(crate) success_criteria: String,
    pub(crate) clarifications: String,
}

/// What was answered.
#[derive(Debug, Default, Deserialize)]
struct Answers {
    #[serde(default)]
    answers: Vec<String>,
    #[serde(default)]
    success_criteria: Option<String>,
}

impl Walk<'_> {
    pub(super) fn intake(&mut self, view: Option<&CheckedOut>) -> Flow<Brief> {
        if let Some(brief) = self.told::<Brief>("intake/end") {
            return Ok(brief);
        }
        let goal = self.input.goal.clone();
        self.note("intake", "intake_started", |_| json!({ "goal": clipped(&goal, 200) }));
        let mut brief = Brief {
            success_criteria: self.input.success_criteria.clone(),
            clarifications: self.input.continues.as_ref().map(|it| it.clarifications.clone()).unwrap_or_default(),
        };
        let proposed = brief.success_criteria.trim().is_empty();
        if proposed {
            brief.success_criteria = self.criteria(view)?;
        }
        let questions = match self.input.interaction {
            Interaction::Auto => Vec::new(),
            Interaction::Suspend | Interaction::Confirm => self.questions(&brief, view)?,
        };
        let confirms = proposed && self.input.interaction == Interaction::Confirm;
        if !questions.is_empty() || confirms {
            let told = questions.clone();
            let criteria = brief.success_criteria.clone();
            self.note("intake/ask", "needs_input", |_| json!({ "questions": told, "success_criteria": criteria }));
            let answers: Answers = self.must(
                "intake/answers",
                QUESTIONS,
                || json!({ "questions": questions, "success_criteria": brief.success_criteria, "confirms_criteria": confirms }),
            )?;
            if let Some(criteria) = answers.success_criteria.filter(|criteria| !criteria.trim().is_empty()) {
                brief.success_criteria = criteria;
            }
            let given =
                |index: usize| answers.answers.get(index).map(String::as_str).filter(|text| !text.trim().is_empty());
            let lines = questions.iter().enumerate().map(|(index, question)| {
                format!("Q: {question}\nA: {}", given(index).unwrap_or("(no answer; use your best judgement)"))
            });
            brief.clarifications = lines.collect::<Vec<_>>().join("\n");
        }
        let data = json!({
            "success_criteria": brief.success_criteria,
            "clarifications": brief.clarifications,
            "has_clarifications": !brief.clarifications.is_empty(),
        });
        self.note("intake/end", "intake_finished", |_| data);
        Ok(brief)
    }

    /// Proposed criteria. A role that cannot propose any does not stop the goal.
    fn criteria(&mut self, view: Option<&CheckedOut>) -> Flow<String> {
        let asked = self.ask_again("intake/criteria", |walk| {
            walk.planner_question(Role::Criteria, view, |walk| format!("# Goal\n\n{}", walk.input.goal))
        });
        match asked {
            Ok(reply) => Ok(reply.output.trim().to_owned()),
            Err(Halt::Stop(error)) if !is_fatal(&error.code) => {
                let message = error.message;
                self.note(
                    "intake/criteria",
                    "warning",
                    |_| json!({ "message": format!("no criteria were proposed: {message}") }),
                );
                Ok(NO_CRITERIA.into())
            }
            Err(halt) => Err(halt),
        }
    }

    fn questions(&mut self, brief: &Brief, view: Option<&CheckedOut>) -> Flow<Vec<String>> {
        let prompt = |walk: &Walk<'_>| {
            format!("# Goal\n\n{}\n\n# Success criteria\n\n{}", walk.input.goal, brief.success_criteria)
        };
        let asked = self.ask_for(
            "intake/questions",
            |walk| walk.planner_question(Role::Clarifier, view, prompt),
            review::parse_questions,
        );
        match asked {
            Ok(questions) => Ok(questions),
            Err(Halt::Stop(error)) if !is_fatal(&error.code) => {
                let message = error.message;
                self.note(
                    "intake/questions",
                    "warning",
                    |_| json!({ "message": format!("no questions could be asked: {message}") }),
                );
                Ok(Vec::new())
            }
            Err(halt) => Err(halt),
        }
    }

    /// A question to the planner's backend, which may read and change nothing.
    pub(super) fn planner_question(
        &mut self,
        role: Role,
        view: Option<&CheckedOut>,
        prompt: impl Fn(&Walk<'_>) -> String,
    ) -> Flow<Question> {
        Ok(Question {
            role,
            prompt: prompt(self),
            backend: self.input.roles.planner.clone(),
            place: view.cloned(),
            mode: RoleMode::ReadOnly,
            label: String::new(),
            not_before: None,
            continues: None,
        })
    }
}

/// What the next role would fail at too.
fn is_fatal(code: &str) -> bool {
    matches!(
        code,
        "not_installed"
            | "not_logged_in"
            | "no_such_mode"
            | "too_deep"
            | "bad_model"
            | "command_refused"
            | "budget_limited"
            | "budget_exhausted"
            | "role_refused"
    )
}
