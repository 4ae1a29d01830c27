//! What the work of an iteration is worth: the aggregate, verification, review, and the feedback for the next one.

use serde_json::{Value, json};

use crate::{
    plan::Subgoal,
    review::{self, Verdict},
    roles::Role,
    tools::{DIFF, RoleMode, VERIFY},
    walk::{Flow, Question, Walk, intake::Brief, work::Worked},
    workspace::{ChangedFile, ChangedFolder, Diff, Diffed, Prepared, Verified, Verify},
};

/// Most bytes of all workers' outputs that a reviewer sees.
const MOST_AGGREGATE: usize = 64 * 1024;

/// Most bytes of a diff that a reviewer sees.
const MOST_DIFF: usize = 96 * 1024;

/// Most files that a worker changed outside of its own, by name.
const MOST_SCOPE: usize = 50;

/// Most bytes of the output of one verify command in feedback.
const MOST_OUTPUT: usize = 6 * 1024;

impl Walk<'_> {
    /// The workers' results in one text, within a budget of bytes.
    pub(super) fn aggregate(&self, subgoals: &[Subgoal], worked: &[Worked]) -> String {
        let share = MOST_AGGREGATE / worked.len().max(1);
        let sections = subgoals.iter().zip(worked).map(|(subgoal, worked)| {
            let said = match &worked.error {
                None => clipped(&worked.output, share),
                Some(error) => format!("[FAILED after {} attempt(s)] {error}", worked.attempts),
            };
            let mut text = format!("### {}: {}\n{said}", subgoal.id, clipped(&subgoal.description, 400));
            let left_out: Vec<String> =
                worked.kept.left_out.iter().take(20).map(|left| format!("{} ({})", left.path, left.reason)).collect();
            if !left_out.is_empty() {
                text += &format!("\nNot committed: {}", left_out.join(", "));
            }
            let kept = &worked.kept;
            if !kept.out_of_scope.is_empty() {
                let listed = listed(&kept.out_of_scope, kept.out_of_scope_more, MOST_SCOPE);
                text += &format!("\nChanged outside of its files: {listed}");
            }
            text
        });
        sections.collect::<Vec<_>>().join("\n\n")
    }

    /// Runs the verify commands on what the goal's branch has now; nothing when there are none.
    pub(super) fn verify(&mut self, prepared: Option<&Prepared>, head: Option<&str>) -> Flow<Option<Verified>> {
        let Some(prepared) = prepared.filter(|_| !self.input.verify.commands.is_empty()) else { return Ok(None) };
        self.enter("verify");
        let place = self.place();
        let verify = Verify {
            key: place.clone(),
            base: prepared.base.clone(),
            commit: head.unwrap_or(&prepared.base).to_owned(),
            verify: self.input.verify.clone(),
            within_ms: self.left().map(|left| left.as_millis() as u64),
        };
        let verified: Verified = self.must(&format!("{place}/verify"), VERIFY, || json!({ "verify": verify }))?;
        let results: Vec<Value> = verified
            .results
            .iter()
            .map(|result| json!({ "name": result.name, "ok": result.ok, "exit_code": result.exit_code, "error": result.error, "duration_ms": result.duration_ms }))
            .collect();
        let data = json!({ "results": results, "tree": verified.tree, "refusals": verified.refusals, "warnings": verified.warnings });
        self.note(&format!("{place}/verification"), "verification", |_| data);
        Ok(Some(verified))
    }

    pub(super) fn diff(&mut self, prepared: Option<&Prepared>, head: Option<&str>) -> Flow<Option<Diffed>> {
        let (Some(prepared), Some(head)) = (prepared, head) else { return Ok(None) };
        let diff = Diff { from: prepared.base.clone(), to: head.into(), most_bytes: MOST_DIFF };
        self.must(&format!("{}/diff", self.place()), DIFF, || json!({ "diff": diff })).map(Some)
    }

    pub(super) fn review(
        &mut self,
        brief: &Brief,
        aggregate: &str,
        verified: Option<&Verified>,
        diff: Option<&Diffed>,
        head: Option<&str>,
    ) -> Flow<Verdict> {
        let place = self.place();
        let key = format!("{place}/verdict");
        if let Some(verdict) = self.told(&key) {
            return Ok(verdict);
        }
        let view = self.view(&format!("{place}/review"), head)?;
        let question = |walk: &mut Self| {
            Ok(Question {
                role: Role::Reviewer,
                prompt: walk.review_prompt(brief, aggregate, verified, diff),
                backend: walk.input.roles.reviewer.clone(),
                place: view.clone(),
                mode: RoleMode::ReadOnly,
                label: String::new(),
                not_before: None,
                continues: None,
            })
        };
        let verdict = self.ask_for(&format!("{place}/review"), question, review::parse)?;
        let mut data = serde_json::to_value(&verdict).unwrap_or_default();
        data["gates_passed"] = verdict.gates_passed().into();
        self.note(&key, "review", |_| data);
        Ok(verdict)
    }

    fn review_prompt(
        &self,
        brief: &Brief,
        aggregate: &str,
        verified: Option<&Verified>,
        diff: Option<&Diffed>,
    ) -> String {
        let mut text = self.about(brief);
        text += &format!("\n\n# What the workers report\n\n{aggregate}");
        if let Some(verified) = verified {
            text += &format!("\n\n# Verification\n\n{}", verification_text(verified));
        }
        if self.input.playwright {
            text +=
                "\n\nThe results of the Playwright tests are evidence for what users see; do not accept without them.";
        }
        if let Some(diff) = diff {
            text += &changed_files(diff);
            let cut = if diff.truncated { " (shortened: what is missing is said for each file)" } else { "" };
            text += &format!("\n\n# Diff since the beginning{cut}\n\n```diff\n{}\n```", diff.text);
        }
        text
    }

    /// What planner and workers of the next iteration are told.
    pub(super) fn feedback(
        &self,
        subgoals: &[Subgoal],
        worked: &[Worked],
        verified: Option<&Verified>,
        verdict: &Verdict,
    ) -> String {
        let mut sections = Vec::new();
        let failed: Vec<String> = subgoals
            .iter()
            .zip(worked)
            .filter_map(|(subgoal, worked)| Some(format!("- {}: {}", subgoal.id, worked.error.as_ref()?)))
            .collect();
        let list = |texts: &[String]| texts.iter().map(|text| format!("- {text}")).collect::<Vec<_>>().join("\n");
        let mut section = |title: &str, text: String| {
            if !text.is_empty() {
                sections.push(format!("## {title}\n{text}"));
            }
        };
        section("Failed subgoals", failed.join("\n"));
        section("Reviewer issues", list(&verdict.issues));
        section("Open questions of the reviewer", list(&verdict.follow_up_questions));
        if let Some(verified) = verified.filter(|verified| !verified.is_ok()) {
            section("Verification failures", verification_text(verified));
        }
        let gates = [
            ("quality_ok", verdict.quality_ok),
            ("consistency_ok", verdict.consistency_ok),
            ("goal_aligned", verdict.goal_aligned),
            ("goal_complete", verdict.goal_complete),
        ];
        let closed: Vec<&str> = gates.iter().filter(|(_, open)| !open).map(|(name, _)| *name).collect();
        section("Gates not passed", closed.join(", "));
        match sections.is_empty() {
            true => "The goal is not complete yet. Find out what is missing and finish it.".into(),
            false => sections.join("\n\n"),
        }
    }

    /// What an iteration produced, to see whether the next one changes anything. Empty when there is nothing to measure.
    pub(super) fn fingerprint(&self, verified: Option<&Verified>, diff: Option<&Diffed>) -> String {
        let results = verified.iter().flat_map(|verified| &verified.results);
        let results: Vec<String> = results.map(|result| format!("{}={:?}", result.name, result.exit_code)).collect();
        match diff {
            Some(diff) => format!("{} {}", diff.tree, results.join(" ")),
            None => String::new(),
        }
    }
}

/// All changed files with their sizes, whatever of the difference is shown, and those that make tools run something. Where there are too
/// many, folders with counts and sizes say what is not listed.
fn changed_files(diff: &Diffed) -> String {
    let mut text = format!("\n\n# Changed files since the beginning ({})\n\n", diff.count());
    for ChangedFile { path, status, bytes } in &diff.changes {
        text += &format!("- {path} ({}, {bytes} bytes)\n", status.replace('_', " "));
    }
    if !diff.folders.is_empty() {
        text += "\n# Changed files that are too many to list, by folder\n\n";
        text += "The diff below does not show all of them either. Read what you need in your checkout.\n\n";
        diff.folders.iter().for_each(|folder| text += &format!("- {}\n", folder_line(folder)));
    }
    if !diff.triggers.is_empty() {
        text += "\n# Changed files that make tools of the user run something\n\n";
        diff.triggers.iter().for_each(|trigger| text += &format!("- {}: {}\n", trigger.path, trigger.why));
        if diff.triggers_more > 0 {
            text += &format!("- and {} more\n", diff.triggers_more);
        }
    }
    text.trim_end().to_owned()
}

fn folder_line(folder: &ChangedFolder) -> String {
    let place = match (folder.path.as_str(), folder.is_flat) {
        ("", true) => "the top folder, without those in folders".to_owned(),
        ("", false) => "the whole repository".to_owned(),
        (path, true) => format!("{path}, without those in folders of it"),
        (path, false) => path.to_owned(),
    };
    let deleted = if folder.deleted > 0 { format!(", {} of them deleted", folder.deleted) } else { String::new() };
    format!("{place}: {} files, {} bytes{deleted}", folder.files, folder.bytes)
}

/// The first of some names, and how many more there are.
pub(super) fn listed(names: &[String], more: u64, most: usize) -> String {
    let shown = names.len().min(most);
    let more = more + (names.len() - shown) as u64;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names[..shown].join(", "))
}

/// Verification as a reviewer and the next iteration read it.
fn verification_text(verified: &Verified) -> String {
    let mut lines: Vec<String> = verified.refusals.iter().map(|refusal| format!("- refused: {refusal}")).collect();
    lines.extend(verified.warnings.iter().map(|warning| format!("- warning: {warning}")));
    for result in &verified.results {
        let code = result.exit_code.map_or_else(|| "no exit code".into(), |code| format!("exit code {code}"));
        let state = if result.ok { "passed" } else { "FAILED" };
        lines.push(format!("- `{}` {state} ({code})", result.name));
        if !result.ok {
            lines.extend(result.error.iter().map(|error| format!("  {error}")));
            lines.push(format!("```\n{}\n```", tail(&result.output, MOST_OUTPUT)));
        }
    }
    lines.join("\n")
}

/// The beginning of a text, with how much was left out.
pub(super) fn clipped(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let at = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… (+{} chars)", &text[..at], text[at..].chars().count())
}

/// The end of a text: where test runners put their summary.
fn tail(text: &str, most: usize) -> &str {
    let from = text.len().saturating_sub(most);
    let at = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(from);
    &text[at..]
}
