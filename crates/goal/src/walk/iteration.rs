//! The loop: plan, work, aggregate, verify, review, feedback, until the goal is met or a guard stops it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use drawloom_contract::failure::RunError;

use crate::{
    plan::{self, Subgoal},
    request::{Backend, Roles},
    roles::Role,
    tools::{CHECKOUT, CLEAN, PREPARE, QUESTIONS},
    walk::{Flow, Halt, Walk, intake::Brief, judge::clipped, limited},
    workspace::{CheckedOut, Checkout, Cleaned, Prepared, Verified},
};

/// A goal that is complete.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finished {
    pub(crate) output: String,
}

/// What an iteration came to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Ended {
    done: bool,
    feedback: String,
    #[serde(default)]
    fingerprint: String,
    /// The head of the goal's branch, when there is one.
    #[serde(default)]
    head: Option<String>,
}

impl Walk<'_> {
    /// The whole loop.
    pub(crate) fn goal(&mut self) -> Flow<Finished> {
        let input = self.input;
        self.note("start", "run_started", |walk| {
            json!({
                "goal": clipped(&input.goal, 4 * 1024),
                "success_criteria": input.success_criteria,
                "backend": input.roles.worker.name,
                "cwd": input.workspace.as_ref().map(|workspace| &workspace.directory),
                "max_iterations": walk.input.budget.max_iterations,
            })
        });
        let ended = self.prepared().and_then(|prepared| self.rounds(prepared.as_ref()));
        match ended {
            Err(Halt::Pending) => Err(Halt::Pending),
            ended => {
                self.clean(ended.is_ok())?;
                ended
            }
        }
    }

    fn prepared(&mut self) -> Flow<Option<Prepared>> {
        let Some(workspace) = &self.input.workspace else { return Ok(None) };
        let prepared: Prepared = self.must("prepare", PREPARE, || json!({ "workspace": workspace }))?;
        let mut data = json!({ "path": prepared.path, "branch": prepared.branch, "base": prepared.base, "warnings": prepared.warnings });
        if prepared.in_place {
            data["in_place"] = true.into();
        }
        self.note("worktree", "worktree_ready", |_| data);
        Ok(Some(prepared))
    }

    fn rounds(&mut self, prepared: Option<&Prepared>) -> Flow<Finished> {
        let mut head = prepared.map(|prepared| prepared.head.as_ref().unwrap_or(&prepared.base).clone());
        let view = self.view("intake", head.as_deref())?;
        let brief = self.intake(view.as_ref())?;
        let earlier = self.input.continues.as_ref().map(|earlier| earlier.feedback.clone());
        let (mut feedback, mut stagnant, mut before) = (earlier.unwrap_or_default(), 0, String::new());
        loop {
            if self.iteration >= self.input.budget.max_iterations {
                return Err(limited(&format!("max_iterations ({}) reached", self.input.budget.max_iterations)));
            }
            self.iteration += 1;
            let key = format!("{}/end", self.place());
            let (ended, output) = match self.told::<Ended>(&key) {
                // What it came to was told; its output is needed only when it was the last.
                Some(ended) if !ended.done => {
                    self.phase = "review";
                    (ended, String::new())
                }
                _ => self.round(&brief, &feedback, prepared, head.as_deref())?,
            };
            if ended.done {
                return Ok(Finished { output });
            }
            stagnant = if ended.fingerprint == before && !before.is_empty() { stagnant + 1 } else { 0 };
            let most = self.input.budget.max_stagnant_iterations;
            if most > 0 && stagnant >= most {
                let message =
                    format!("no progress in {stagnant} iterations: neither the files nor the verify results changed");
                let hint =
                    "read the reviewer's issues with `drawloom goal result`, and change the goal or the criteria";
                return Err(Halt::Stop(RunError::new("stagnated", message).with_hint(hint)));
            }
            (feedback, before, head) = (ended.feedback, ended.fingerprint, ended.head.or(head));
        }
    }

    /// One iteration.
    fn round(
        &mut self,
        brief: &Brief,
        feedback: &str,
        prepared: Option<&Prepared>,
        head: Option<&str>,
    ) -> Flow<(Ended, String)> {
        let place = self.place();
        let most = self.input.budget.max_iterations;
        self.note(&format!("{place}/start"), "iteration_started", |_| json!({ "max_iterations": most }));
        self.enter("decompose");
        let subgoals = self.plan(brief, feedback, head)?;
        self.approve(brief, &subgoals)?;
        self.enter("execute");
        let (worked, head) = self.work(brief, feedback, &subgoals, head)?;
        let aggregate = self.aggregate(&subgoals, &worked);
        let data = json!({ "preview": clipped(&aggregate, 400), "chars": aggregate.chars().count() });
        self.note(&format!("{place}/aggregated"), "aggregated", |_| data);
        let verified = self.verify(prepared, head.as_deref())?;
        self.enter("review");
        let diff = self.diff(prepared, head.as_deref())?;
        let verdict = self.review(brief, &aggregate, verified.as_ref(), diff.as_ref(), head.as_deref())?;
        let tasks_ok = worked.iter().filter(|worked| worked.is_ok()).count();
        let verification_ok = verified.as_ref().is_none_or(Verified::is_ok);
        let done = verdict.accepts() && tasks_ok == worked.len() && verification_ok;
        let ended = Ended {
            done,
            feedback: if done { String::new() } else { self.feedback(&subgoals, &worked, verified.as_ref(), &verdict) },
            fingerprint: self.fingerprint(verified.as_ref(), diff.as_ref()),
            head,
        };
        let mut data = serde_json::to_value(&ended).unwrap_or_default();
        let told = json!({
            "subgoals_ok": tasks_ok,
            "subgoals_total": worked.len(),
            "verification_ok": verification_ok,
            "gates_passed": verdict.gates_passed(),
            "goal_complete": verdict.goal_complete,
            "agent_calls": self.state.agent_calls,
            "tokens": self.state.usage.total(),
            "cost": self.state.cost.units(),
        });
        if let (Value::Object(data), Value::Object(told)) = (&mut data, told) {
            data.extend(told);
        }
        self.note(&format!("{place}/end"), "iteration_finished", |_| data);
        Ok((ended, aggregate))
    }

    fn plan(&mut self, brief: &Brief, feedback: &str, head: Option<&str>) -> Flow<Vec<Subgoal>> {
        #[derive(Deserialize)]
        struct Decomposed {
            subgoals: Vec<Subgoal>,
        }
        let place = self.place();
        let key = format!("{place}/plan");
        if let Some(Decomposed { subgoals }) = self.told(&key) {
            return Ok(subgoals);
        }
        let view = self.view(&format!("{place}/plan"), head)?;
        let question = |walk: &mut Self| {
            let prompt = |walk: &Walk<'_>| {
                let mut text = walk.about(brief);
                text += &walk.protected();
                if let [_, _, ..] = &walk.input.plan_backends[..] {
                    let (usual, all) = (&walk.input.roles.worker.name, walk.input.plan_backends.join(", "));
                    text += &format!(
                        "\n\n# Backends\n\nA subgoal may name who works on it, with `backend` and `model`: {all}. Leave them out, unless the goal asks for another than the usual one, {usual}."
                    );
                }
                if !feedback.is_empty() {
                    text += &format!("\n\n# Feedback of the last iteration\n\n{feedback}");
                }
                text
            };
            walk.planner_question(Role::Decomposer, view.as_ref(), prompt)
        };
        let Roles { planner, worker, reviewer } = &self.input.roles;
        let allowed = plan::Allowed { backends: &self.input.plan_backends, named: [worker, planner, reviewer] };
        let subgoals = self.ask_for(&format!("{place}/decompose"), question, |text| plan::parse(text, &allowed))?;
        self.note(&key, "decomposed", |_| json!({ "subgoals": subgoals }));
        Ok(subgoals)
    }

    /// Waits for the approval of the first plan, if that was asked for.
    fn approve(&mut self, brief: &Brief, subgoals: &[Subgoal]) -> Flow<()> {
        #[derive(Deserialize)]
        struct Approval {
            #[serde(default)]
            approved: Option<bool>,
        }
        if !self.input.confirm_plan || self.iteration != 1 {
            return Ok(());
        }
        let budget = &self.input.budget;
        let input = self.input;
        let verify: Vec<&String> = input.verify.commands.iter().map(|command| &command.name).collect();
        let plan = json!({
            "subgoals": subgoals,
            "budget": budget,
            "roles": input.roles,
            "skip_permissions": input.skip_permissions,
            "in_place": input.is_in_place(),
            "verify": verify,
            "protect": input.verify.protect,
        });
        self.note("plan/ask", "needs_input", |_| json!({ "questions": [], "plan": plan }));
        let answered: Approval = self.must(
            "plan/approval",
            QUESTIONS,
            || json!({ "questions": [], "success_criteria": brief.success_criteria, "plan": plan }),
        )?;
        match answered.approved {
            Some(false) => Err(Halt::Stop(RunError::new("plan_declined", "the plan was not approved"))),
            _ => Ok(()),
        }
    }

    /// A read-only checkout of `head` for a planner or reviewer.
    pub(super) fn view(&mut self, key: &str, head: Option<&str>) -> Flow<Option<CheckedOut>> {
        let Some(head) = head else { return Ok(None) };
        let checkout =
            Checkout { name: "view".into(), commit: head.into(), read_only: true, reset: false, within_ms: None };
        self.must(&format!("{key}/view"), CHECKOUT, || json!({ "checkout": checkout })).map(Some)
    }

    /// Removes checkouts as the goal's policy says, and finds what the goal left on its branch.
    fn clean(&mut self, completed: bool) -> Flow<()> {
        let Some(workspace) = &self.input.workspace else { return Ok(()) };
        if self.state.steps.get("prepare").and_then(|step| step.end.as_ref()).is_none_or(|end| end.is_error) {
            return Ok(());
        }
        let policy = workspace.cleanup;
        let end = self.step("clean", CLEAN, || json!({ "clean": { "policy": policy, "completed": completed } }))?;
        match serde_json::from_str::<Cleaned>(&end.text) {
            Ok(cleaned) if !end.is_error => {
                let data = json!(cleaned);
                self.note("cleaned", "worktree_finished", |_| data);
            }
            _ => {
                let message = format!("cannot remove the goal's checkouts: {}", end.text);
                self.note("cleaned", "warning", |_| json!({ "message": message }));
            }
        }
        Ok(())
    }

    /// The backend of a subgoal.
    pub(super) fn worker_backend(&self, subgoal: &Subgoal) -> Backend {
        let usual = &self.input.roles.worker;
        match &subgoal.backend {
            None => usual.clone(),
            Some(own) if own.name.is_empty() => Backend { name: usual.name.clone(), model: own.model.clone() },
            Some(own) => own.clone(),
        }
    }

    /// Which files no worker may change, as a section of a prompt.
    pub(super) fn protected(&self) -> String {
        match &self.input.verify.protect[..] {
            [] => String::new(),
            globs => format!(
                "\n\n# Protected files\n\nNo worker may change, add or delete files that match: {}. Work that does is not accepted.",
                globs.join(", ")
            ),
        }
    }

    /// The goal, its criteria and what was answered.
    pub(super) fn about(&self, brief: &Brief) -> String {
        let mut text = format!("# Goal\n\n{}\n\n# Success criteria\n\n{}", self.input.goal, brief.success_criteria);
        if !brief.clarifications.is_empty() {
            text += &format!("\n\n# Clarifications\n\n{}", brief.clarifications);
        }
        text
    }
}
