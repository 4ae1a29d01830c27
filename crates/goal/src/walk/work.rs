//! The workers of an iteration: each subgoal in a checkout of its own, tried again when it fails, merged in the order of the plan.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{
    plan::{Subgoal, waves},
    roles::Role,
    state::{Failed, Reply},
    tools::{CHECKOUT, CHECKPOINT, MERGE, RoleMode},
    walk::{
        Flow, Halt, Question, Walk,
        intake::Brief,
        judge::{clipped, listed},
    },
    workspace::{CheckedOut, Checkout, Checkpoint, Checkpointed, Merge, Merged},
};

/// How often a worker gets its changes back because they conflict with those of others.
const MOST_CONFLICTS: u32 = 2;

/// Most files that a prompt or an error names.
const MOST_NAMED: usize = 200;

/// What became of a subgoal.
#[derive(Debug, Clone, Default)]
pub(super) struct Worked {
    pub(super) output: String,
    /// Why it failed, if it did.
    pub(super) error: Option<String>,
    pub(super) attempts: u32,
    pub(super) kept: Checkpointed,
}

impl Worked {
    pub(super) fn is_ok(&self) -> bool {
        self.error.is_none()
    }

    fn failed(error: String, attempts: u32) -> Self {
        Self { error: Some(error), attempts, ..Self::default() }
    }
}

/// What all workers of an iteration are told.
struct Common<'c> {
    brief: &'c Brief,
    feedback: &'c str,
    subgoals: &'c [Subgoal],
}

/// One subgoal, its number, and where its worker is.
struct Place<'p> {
    subgoal: &'p Subgoal,
    index: usize,
    key: String,
    directory: Option<CheckedOut>,
}

impl Place<'_> {
    /// The name of its checkout.
    fn checkout(&self, iteration: u32) -> String {
        format!("i{iteration:02}-{:03}-{}", self.index + 1, self.subgoal.id)
    }

    /// The name of the files of one of its calls.
    fn label(&self, attempt: &str) -> String {
        format!("{attempt}-{:03}-{}", self.index + 1, self.subgoal.id)
    }
}

impl Walk<'_> {
    /// All subgoals, in the order of their dependencies; and the head of the goal's branch after them.
    pub(super) fn work(
        &mut self,
        brief: &Brief,
        feedback: &str,
        subgoals: &[Subgoal],
        head: Option<&str>,
    ) -> Flow<(Vec<Worked>, Option<String>)> {
        let common = Common { brief, feedback, subgoals };
        let mut head = head.map(str::to_owned);
        let mut worked: Vec<Option<Worked>> = vec![None; subgoals.len()];
        let mut waves = waves(subgoals);
        if self.input.is_in_place() {
            // In one directory, each begins with the work of those before.
            waves = waves.into_iter().flatten().map(|index| vec![index]).collect();
        }
        for wave in waves {
            let (mut pending, mut stop) = (false, None);
            for index in wave.iter().copied() {
                let subgoal = &subgoals[index];
                let is_ok = |id: &String| {
                    let at = subgoals.iter().position(|other| other.id == *id);
                    at.and_then(|at| worked[at].as_ref()).is_some_and(Worked::is_ok)
                };
                if let Some(needed) = subgoal.depends_on.iter().find(|needed| !is_ok(needed)) {
                    let error = format!("not started: {needed}, which it depends on, failed");
                    worked[index] = Some(Worked::failed(error, 0));
                    continue;
                }
                match self.worker(&common, index, head.as_deref()) {
                    Ok(done) => worked[index] = Some(done),
                    Err(Halt::Pending) => pending = true,
                    Err(Halt::Stop(error)) => stop = stop.or(Some(error)),
                }
            }
            // What was started goes to its end, also when the goal must stop.
            if pending {
                return Err(Halt::Pending);
            }
            for index in wave {
                let Some(done) = worked[index].take() else { continue };
                let (done, next) = self.merge(&common, index, done, head)?;
                (worked[index], head) = (Some(done), next);
            }
            // After the merges: what was done before a guard stopped the rest is on the branch.
            if let Some(error) = stop {
                return Err(Halt::Stop(error));
            }
        }
        Ok((worked.into_iter().map(Option::unwrap_or_default).collect(), head))
    }

    /// One subgoal, until its worker has done it or has no tries left, and a checkpoint of what it left.
    fn worker(&mut self, common: &Common<'_>, index: usize, head: Option<&str>) -> Flow<Worked> {
        let place = self.worker_place(common, index, head)?;
        let mut worked = Worked::default();
        let mut failures: Vec<Failed> = Vec::new();
        let mut stopped = None;
        loop {
            worked.attempts += 1;
            let attempt = worked.attempts;
            let tried = match self.attempt(common, &place, attempt, failures.last()) {
                // A guard stops the goal before the next try: what the last one left is kept all the same.
                Err(Halt::Stop(error)) if !failures.is_empty() => {
                    stopped = Some(error);
                    break;
                }
                tried => tried?,
            };
            match tried {
                Ok(reply) => {
                    worked.output = reply.output;
                    break;
                }
                Err(failed) => {
                    let over = failed.is_final() || attempt > self.input.budget.max_task_retries;
                    worked.error = over.then(|| described(&failed));
                    failures.push(failed);
                    if over {
                        break;
                    }
                }
            }
        }
        if let Some(parent) = head {
            worked.kept = self.checkpoint(&place, parent, 0)?;
        }
        match stopped {
            Some(error) => Err(Halt::Stop(error)),
            None => Ok(worked),
        }
    }

    fn worker_place<'p>(&mut self, common: &Common<'p>, index: usize, head: Option<&str>) -> Flow<Place<'p>> {
        let subgoal = &common.subgoals[index];
        let key = format!("{}/w/{}", self.place(), subgoal.id);
        let mut place = Place { subgoal, index, key, directory: None };
        if let Some(head) = head {
            let name = place.checkout(self.iteration);
            let within_ms = self.left().map(|left| left.as_millis() as u64);
            let checkout = Checkout { name, commit: head.into(), read_only: false, reset: false, within_ms };
            let key = format!("{}/checkout", place.key);
            place.directory = Some(self.must(&key, CHECKOUT, || json!({ "checkout": checkout }))?);
        }
        Ok(place)
    }

    /// One try, told when it begins and when it ends.
    fn attempt(
        &mut self,
        common: &Common<'_>,
        place: &Place<'_>,
        attempt: u32,
        before: Option<&Failed>,
    ) -> Flow<Result<Reply, Failed>> {
        let key = format!("{}/a{attempt}", place.key);
        if !self.state.steps.contains_key(&key) {
            self.guard()?;
            self.wait_for_room()?;
        }
        let (id, description) = (&place.subgoal.id, &place.subgoal.description);
        self.note(
            &format!("{key}/start"),
            "subagent_started",
            |_| json!({ "id": id, "description": description, "attempt": attempt }),
        );
        let label = place.label(&format!("i{:02}-a{attempt}", self.iteration));
        let not_before =
            (attempt > 1).then(|| self.retry_at(&format!("{}/a{}", place.key, attempt - 1), attempt)).flatten();
        let asked = self.ask(&key, |walk| {
            let prompt = walk.worker_prompt(common, place.subgoal, before.map(described).as_deref());
            let continues = before.and_then(|failed| failed.run).map(|run| run.to_string());
            Ok(Question { not_before, continues, ..walk.worker_question(place, prompt, label.clone()) })
        })?;
        let data = outcome_of(place.subgoal, attempt, &label, &asked);
        let kind = if asked.is_ok() { "subagent_finished" } else { "subagent_failed" };
        self.note(&format!("{key}/end"), kind, |_| data);
        Ok(asked)
    }

    /// Waits while as many workers are at work as may be.
    fn wait_for_room(&self) -> Flow<()> {
        let prefix = format!("{}/w/", self.place());
        let is_open = |(key, step): &(&String, &crate::state::Step)| {
            key.starts_with(&prefix) && step.end.is_none() && step.input.get("role").is_some()
        };
        let most = self.input.budget.max_parallel.max(1) as usize;
        let open = self.state.steps.iter().filter(is_open).count() + self.asked as usize;
        if open >= most { Err(Halt::Pending) } else { Ok(()) }
    }

    fn worker_question(&self, place: &Place<'_>, prompt: String, label: String) -> Question {
        Question {
            role: Role::Subagent,
            prompt,
            backend: self.worker_backend(place.subgoal),
            place: place.directory.clone(),
            mode: if self.input.skip_permissions { RoleMode::SkipPermissions } else { RoleMode::Edit },
            label,
            not_before: None,
            continues: None,
        }
    }

    fn worker_prompt(&self, common: &Common<'_>, subgoal: &Subgoal, failed: Option<&str>) -> String {
        let mut text = format!("# Your subgoal: {}\n\n{}", subgoal.id, subgoal.description);
        if !subgoal.files.is_empty() {
            text += &format!("\n\nFiles that you may change: {}", subgoal.files.join(", "));
        }
        let others: Vec<String> = common
            .subgoals
            .iter()
            .filter(|other| other.id != subgoal.id)
            .map(|other| format!("- {}: {}", other.id, clipped(&other.description, 300)))
            .collect();
        if !others.is_empty() {
            text += &format!("\n\n# Subgoals of other workers\n\n{}", others.join("\n"));
        }
        text += &format!("\n\n{}{}", self.about(common.brief), self.protected());
        if !common.feedback.is_empty() {
            text += &format!("\n\n# Feedback of the last iteration\n\n{}", common.feedback);
        }
        if self.input.playwright {
            text +=
                "\n\n# Browser tests\n\nCover what users see with Playwright tests; `npx playwright test` must pass.";
        }
        if let Some(failed) = failed {
            text += &format!(
                "\n\n# An earlier try failed\n\n{failed}\n\nIts work is still in the directory: look at it first and continue from there."
            );
        }
        text
    }

    fn checkpoint(&mut self, place: &Place<'_>, parent: &str, round: u32) -> Flow<Checkpointed> {
        let checkpoint = Checkpoint {
            name: place.checkout(self.iteration),
            parent: parent.into(),
            message: format!("{}: iteration {}", place.subgoal.id, self.iteration),
            at: self.now,
            files: place.subgoal.files.clone(),
        };
        let key = format!("{}/checkpoint{round}", place.key);
        let kept: Checkpointed = self.must(&key, CHECKPOINT, || json!({ "checkpoint": checkpoint }))?;
        let data = checkpoint_data(place.subgoal, &kept);
        self.note(&format!("{key}/told"), "checkpoint", |_| data);
        Ok(kept)
    }

    /// Merges what a worker committed. Conflicts go back to it.
    fn merge(
        &mut self,
        common: &Common<'_>,
        index: usize,
        mut worked: Worked,
        head: Option<String>,
    ) -> Flow<(Worked, Option<String>)> {
        let Some(mut onto) = head else { return Ok((worked, None)) };
        let place = self.worker_place(common, index, Some(&onto))?;
        for round in 0..=MOST_CONFLICTS {
            let Some(commit) = worked.kept.commit.clone() else { return Ok((worked, Some(onto))) };
            let message = format!("merge {} of iteration {}", place.subgoal.id, self.iteration);
            let merge = Merge { head: onto.clone(), commit, message, at: self.now };
            let key = format!("{}/merge{round}", place.key);
            let id = &place.subgoal.id;
            match self.must(&key, MERGE, || json!({ "merge": merge }))? {
                Merged::Merged { commit } => {
                    self.note(&format!("{key}/told"), "merged", |_| json!({ "id": id, "commit": commit }));
                    onto = commit;
                    return Ok((worked, Some(onto)));
                }
                Merged::Conflict { files, files_more, output } => {
                    let more = (files_more > 0).then_some(files_more);
                    let data = json!({ "id": id, "files": files, "files_more": more });
                    self.note(&format!("{key}/told"), "conflict", |_| data);
                    if round == MOST_CONFLICTS {
                        let files = listed(&files, files_more, MOST_NAMED);
                        worked.error = Some(format!("its changes still conflict with those of others in {files}"));
                        break;
                    }
                    match self.resolve(common, &place, &worked, &onto, round, &output)? {
                        Ok((output, kept)) => {
                            worked = Worked { output, kept, attempts: worked.attempts + 1, error: None };
                        }
                        Err(failed) => {
                            worked.error =
                                Some(format!("its changes conflict with those of others: {}", described(&failed)));
                            break;
                        }
                    }
                }
            }
        }
        Ok((worked, Some(onto)))
    }

    /// Gives a worker its changes back, on the new head.
    fn resolve(
        &mut self,
        common: &Common<'_>,
        place: &Place<'_>,
        worked: &Worked,
        head: &str,
        round: u32,
        output: &str,
    ) -> Flow<Result<(String, Checkpointed), Failed>> {
        let name = place.checkout(self.iteration);
        let checkout = Checkout { name, commit: head.into(), read_only: false, reset: true, within_ms: None };
        let _: CheckedOut =
            self.must(&format!("{}/reset{round}", place.key), CHECKOUT, || json!({ "checkout": checkout }))?;
        let label = place.label(&format!("i{:02}-c{}", self.iteration, round + 1));
        let asked = self.ask(&format!("{}/c{}", place.key, round + 1), |walk| {
            let mut prompt = walk.worker_prompt(common, place.subgoal, None);
            prompt += &format!(
                "\n\n# Your changes conflict with those of other workers\n\nThe directory now has their work and not yours. Do yours again on \
                 top of it; the files of your first try were: {}. What git said:\n\n{}",
                listed(&worked.kept.changed, worked.kept.changed_more, MOST_NAMED),
                clipped(output, 16 * 1024)
            );
            Ok(walk.worker_question(place, prompt, label))
        })?;
        match asked {
            Ok(reply) => Ok(Ok((reply.output, self.checkpoint(place, head, round + 1)?))),
            Err(failed) => Ok(Err(failed)),
        }
    }
}

/// What a role's failure is called in feedback.
pub(super) fn described(failed: &Failed) -> String {
    let hint = failed.error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{}: {}{hint}", failed.error.code, failed.error.message)
}

fn outcome_of(subgoal: &Subgoal, attempt: u32, label: &str, asked: &Result<Reply, Failed>) -> Value {
    match asked {
        Ok(reply) => json!({
            "id": subgoal.id,
            "attempt": attempt,
            "preview": clipped(&reply.output, 600),
            "chars": reply.output.chars().count(),
            "output_path": PathBuf::from("workers").join(format!("{label}.out")),
            "run_id": reply.run,
        }),
        Err(failed) => {
            json!({ "id": subgoal.id, "attempt": attempt, "error": described(failed), "run_id": failed.run })
        }
    }
}

fn checkpoint_data(subgoal: &Subgoal, kept: &Checkpointed) -> Value {
    let more = |count: u64| (count > 0).then_some(count);
    json!({
        "id": subgoal.id,
        "commit": kept.commit,
        "changed": kept.changed,
        "changed_more": more(kept.changed_more),
        "left_out": kept.left_out,
        "left_out_more": more(kept.left_out_more),
        "out_of_scope": kept.out_of_scope,
        "out_of_scope_more": more(kept.out_of_scope_more),
        "warnings": kept.warnings,
    })
}
