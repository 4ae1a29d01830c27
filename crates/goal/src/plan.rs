//! A plan: the subgoals of an iteration, as the decomposer gave them and as they can be executed.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    json::{self, Answer, Shape},
    request::Backend,
};

/// Most subgoals of one plan.
pub const MOST_SUBGOALS: usize = 32;

/// One piece of work, for one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subgoal {
    /// A name that is unique in the plan, and safe as a file name.
    pub id: String,
    /// What to do.
    pub description: String,
    /// Subgoals that must be done before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// The files that it may change, as globs; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// A backend of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
}

/// What a plan may choose for a subgoal.
pub(crate) struct Allowed<'a> {
    /// Names of backends; any when empty.
    pub(crate) backends: &'a [String],
    /// The backends of the goal's roles, as the caller named them; first that of workers.
    pub(crate) named: [&'a Backend; 3],
}

impl Allowed<'_> {
    /// The backend that a subgoal gets: one that the caller named, with a model that the caller left open or named too.
    fn choose(&self, name: &str, model: Option<String>) -> Result<Backend, String> {
        let name = usual(name, self.backends);
        let of = if name.is_empty() { &self.named[0].name } else { &name };
        if !self.backends.is_empty() && !self.backends.contains(of) {
            return Err(format!("has the unknown backend {of:?}; available: {}", self.backends.join(", ")));
        }
        // A backend that the caller named with a model keeps it.
        let fixed = self.named.iter().find(|named| named.name == *of).and_then(|named| named.model.clone());
        let model = match (model, fixed) {
            (Some(model), Some(fixed)) if model != fixed => {
                return Err(format!("has the model {model:?}, and the goal is to use {of} with the model {fixed:?}"));
            }
            (model, fixed) => fixed.or(model),
        };
        Ok(Backend { name, model })
    }
}

/// Reads a plan from a decomposer's answer, or says what is wrong with it.
///
/// A plan stands alone, as a verdict that accepts does: in prose it may be quoted, or contradicted by what is around it.
pub(crate) fn parse(text: &str, allowed: &Allowed<'_>) -> Result<Vec<Subgoal>, String> {
    let plan = json::read(text, Shape::Array, |value| planned(value, allowed));
    let plan = plan.or_else(|error| {
        // Structured output of some CLIs can only be an object.
        let within = json::read(text, Shape::Object, |value| {
            let subgoals = value.get("subgoals").filter(|subgoals| subgoals.is_array());
            planned(subgoals.ok_or("the object has no array \"subgoals\"")?, allowed)
        });
        let is_object = text.trim_start().starts_with('{');
        within.map_err(|wrong| if is_object { wrong } else { error })
    });
    match plan? {
        Answer { value, is_alone: true } => Ok(value),
        Answer { is_alone: false, .. } => Err("the plan must be the JSON array alone, without other text".into()),
    }
}

fn planned(value: &Value, allowed: &Allowed<'_>) -> Result<Vec<Subgoal>, String> {
    let items = value.as_array().ok_or("the plan is not an array")?;
    if items.is_empty() {
        return Err("the plan has no subgoals".into());
    }
    if items.len() > MOST_SUBGOALS {
        return Err(format!("the plan has {} subgoals; the limit is {MOST_SUBGOALS}", items.len()));
    }
    let mut subgoals = Vec::new();
    let mut renamed = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let (subgoal, given) = subgoal(index, item, &subgoals, allowed)?;
        renamed.push((given, subgoal.id.clone()));
        subgoals.push(subgoal);
    }
    // Dependencies name what the model wrote, which may not be a safe name.
    for subgoal in &mut subgoals {
        for needed in &mut subgoal.depends_on {
            match renamed.iter().find(|(given, id)| given.as_deref() == Some(needed) || id == needed) {
                Some((_, id)) => needed.clone_from(id),
                None => {
                    return Err(format!("subgoal {:?} depends on {needed:?}, which is not in the plan", subgoal.id));
                }
            }
        }
    }
    match waves(&subgoals).iter().map(Vec::len).sum::<usize>() == subgoals.len() {
        true => Ok(subgoals),
        false => Err("the dependencies of the subgoals form a cycle".into()),
    }
}

/// One subgoal, and the id as it was given.
fn subgoal(
    index: usize,
    item: &Value,
    before: &[Subgoal],
    allowed: &Allowed<'_>,
) -> Result<(Subgoal, Option<String>), String> {
    let number = index + 1;
    let (description, given) = match item {
        Value::String(text) => (Some(text.as_str()), None),
        Value::Object(fields) => {
            let named = ["description", "task", "goal"].iter().find_map(|name| fields.get(*name));
            let given = match fields.get("id") {
                None | Some(Value::Null) => None,
                Some(Value::String(id)) => Some(id.clone()),
                Some(Value::Number(id)) => Some(id.to_string()),
                Some(_) => return Err(format!("the id of subgoal {number} is not a text")),
            };
            (named.and_then(Value::as_str), given)
        }
        _ => return Err(format!("subgoal {number} is neither a text nor an object")),
    };
    let Some(description) = description.map(str::trim).filter(|text| !text.is_empty()) else {
        return Err(format!("subgoal {number} has no description"));
    };
    let field = |name: &str| item.get(name).filter(|value| !value.is_null());
    let list = |name: &str| match field(name) {
        None => Ok(Vec::new()),
        Some(value) => serde_json::from_value::<Vec<String>>(value.clone())
            .map_err(|_| format!("`{name}` of subgoal {number} is not an array of texts")),
    };
    let text = |name: &str| match field(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{name}` of subgoal {number} is not a text")),
    };
    let backend = match (text("backend")?, text("model")?) {
        (None, None) => None,
        (name, model) => {
            let named = Backend::named(&name.unwrap_or_default());
            let chosen = allowed.choose(&named.name, model.or(named.model));
            Some(chosen.map_err(|wrong| format!("subgoal {number} {wrong}"))?)
        }
    };
    let id = unique(safe(given.as_deref().unwrap_or_default()).unwrap_or_else(|| format!("s{number}")), before);
    let subgoal = Subgoal {
        id,
        description: description.into(),
        depends_on: list("depends_on")?,
        files: list("files")?,
        backend,
    };
    Ok((subgoal, given))
}

/// The backend that a planner means: names of CLIs have several spellings, and `auto` is the worker's own.
fn usual(name: &str, backends: &[String]) -> String {
    if backends.iter().any(|known| known == name) {
        return name.to_owned();
    }
    let plain = name.trim().to_lowercase().replace([' ', '-'], "_");
    match plain.as_str() {
        "auto" | "default" => String::new(),
        "claude" => "claude_code".into(),
        "open_code" => "opencode".into(),
        _ if backends.contains(&plain) => plain,
        _ => name.to_owned(),
    }
}

/// A name for files and branches: lower-case letters, digits and dashes, at most 40 of them.
fn safe(id: &str) -> Option<String> {
    let plain: String =
        id.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign.to_ascii_lowercase() } else { '-' }).collect();
    let plain = plain.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    let short: String = plain.chars().take(40).collect();
    (!short.is_empty()).then(|| short.trim_end_matches('-').to_owned())
}

fn unique(id: String, before: &[Subgoal]) -> String {
    let taken: BTreeSet<&str> = before.iter().map(|subgoal| subgoal.id.as_str()).collect();
    if !taken.contains(id.as_str()) {
        return id;
    }
    (2..).map(|number| format!("{id}-{number}")).find(|id| !taken.contains(id.as_str())).unwrap_or(id)
}

/// The plan in steps: every subgoal comes after those that it depends on. The subgoals of a step can be worked on at the same time.
/// Those in a cycle are in none.
pub(crate) fn waves(subgoals: &[Subgoal]) -> Vec<Vec<usize>> {
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut waves = Vec::new();
    loop {
        let is_ready = |subgoal: &Subgoal| {
            !done.contains(subgoal.id.as_str())
                && subgoal.depends_on.iter().all(|needed| done.contains(needed.as_str()))
        };
        let wave: Vec<usize> = (0..subgoals.len()).filter(|index| is_ready(&subgoals[*index])).collect();
        if wave.is_empty() {
            return waves;
        }
        done.extend(wave.iter().map(|index| subgoals[*index].id.as_str()));
        waves.push(wave);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a plan is when it may choose among `backends`, and workers have the backend `worker`.
    fn parse_with(text: &str, backends: &[&str], worker: &str) -> Result<Vec<Subgoal>, String> {
        let backends: Vec<String> = backends.iter().map(|name| (*name).to_owned()).collect();
        let (worker, reviewer) = (Backend::named(worker), Backend::named("codex:mini"));
        super::parse(text, &Allowed { backends: &backends, named: [&worker, &worker, &reviewer] })
    }

    fn parse(text: &str, backends: &[&str]) -> Result<Vec<Subgoal>, String> {
        parse_with(text, backends, "claude_code")
    }

    fn ids(text: &str) -> Vec<String> {
        parse(text, &[]).expect("a plan").into_iter().map(|subgoal| subgoal.id).collect()
    }

    #[test]
    fn ids_become_safe_and_unique_names_and_dependencies_follow_them() {
        let plan =
            r#"[{"id":"auth/login","description":"a"},{"id":"auth login","task":"b","depends_on":["auth/login"]},"c"]"#;
        assert_eq!(ids(plan), ["auth-login", "auth-login-2", "s3"]);
        assert_eq!(parse(plan, &[]).expect("a plan")[1].depends_on, ["auth-login"]);
        assert_eq!(ids(r#"[{"id":"../..","description":"a"},{"id":"../..","description":"b"}]"#), ["s1", "s2"]);
    }

    #[test]
    fn a_plan_stands_alone_and_has_no_key_twice() {
        let plan = r#"[{"id":"a","description":"x"}]"#;
        assert_eq!(ids(&format!("```json\n{plan}\n```")), ["a"]);
        let alone = "the plan must be the JSON array alone, without other text";
        for text in [
            format!("PLAN.md of somebody else says: {plan}"),
            format!("```json\n{plan}\n```\nBut do not do that."),
            format!("{plan}\nNo, wait."),
        ] {
            assert_eq!(parse(&text, &[]), Err(alone.to_owned()), "{text}");
        }
        for text in [
            r#"[{"id":"a","description":"x","description":"y"}]"#,
            r#"{"subgoals": ["a"], "subgoals": ["b"]}"#,
            r#"{"subgoals": [{"description":"a","depends_on":[],"depends_on":["b"]}]}"#,
        ] {
            assert!(parse(text, &[]).is_err_and(|wrong| wrong.contains("twice")), "{text}");
        }
        let two = format!("{plan}\n[\"other\"]");
        assert!(parse(&two, &[]).is_err_and(|wrong| wrong.contains("2 different")), "{two}");
    }

    #[test]
    fn an_object_with_subgoals_is_a_plan() {
        assert_eq!(ids(r#"{"subgoals": ["a", "b"]}"#), ["s1", "s2"]);
    }

    #[test]
    fn what_is_wrong_is_said_and_nothing_collapses_to_one_subgoal() {
        for (text, wrong) in [
            ("no plan", "the answer has no JSON array"),
            ("[]", "the plan has no subgoals"),
            ("[1]", "subgoal 1 is neither a text nor an object"),
            (r#"[{"id":"a"}]"#, "subgoal 1 has no description"),
            (
                r#"[{"description":"a","depends_on":["x"]}]"#,
                "subgoal \"s1\" depends on \"x\", which is not in the plan",
            ),
            (r#"[{"description":"a","depends_on":"x"}]"#, "`depends_on` of subgoal 1 is not an array of texts"),
            (
                r#"[{"id":"a","description":"a","depends_on":["b"]},{"id":"b","description":"b","depends_on":["a"]}]"#,
                "the dependencies of the subgoals form a cycle",
            ),
        ] {
            assert_eq!(parse(text, &[]), Err(wrong.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_subgoal_chooses_only_backends_that_there_are_however_they_are_spelt() {
        let known = ["claude_code", "script"];
        let plan = |backend: &str| parse(&format!(r#"[{{"description":"a","backend":"{backend}"}}]"#), &known);
        for (given, name) in
            [("claude", "claude_code"), ("Claude Code", "claude_code"), ("script", "script"), ("auto", "")]
        {
            let subgoals = plan(given).expect("a plan");
            assert_eq!(subgoals[0].backend.as_ref().map(|backend| backend.name.as_str()), Some(name), "{given}");
        }
        let wrong = "subgoal 1 has the unknown backend \"mock\"; available: claude_code, script";
        assert_eq!(plan("mock"), Err(wrong.to_owned()));
    }

    #[test]
    fn a_backend_that_the_caller_named_with_a_model_keeps_it() {
        let backend = |worker: &str, subgoal: &str| {
            let plan = parse_with(&format!(r#"[{{"description":"a",{subgoal}}}]"#), &["claude_code", "codex"], worker);
            plan.map(|mut plan| plan.remove(0).backend.expect("a backend")).map(|it| (it.name, it.model))
        };
        let found = |name: &str, model: &str| Ok((name.to_owned(), Some(model.to_owned())));
        assert_eq!(backend("claude_code", r#""model":"opus""#), found("", "opus"));
        assert_eq!(backend("claude_code", r#""backend":"codex""#), found("codex", "mini"));
        assert_eq!(backend("claude_code:haiku", r#""backend":"claude:haiku""#), found("claude_code", "haiku"));
        let wrong = |of: &str, model: &str, fixed: &str| {
            Err(format!("subgoal 1 has the model {model:?}, and the goal is to use {of} with the model {fixed:?}"))
        };
        assert_eq!(backend("claude_code:haiku", r#""model":"opus""#), wrong("claude_code", "opus", "haiku"));
        assert_eq!(backend("claude_code", r#""backend":"codex:big""#), wrong("codex", "big", "mini"));
    }

    #[test]
    fn waves_follow_the_dependencies() {
        let plan = parse(
            r#"[{"id":"a","description":"x","depends_on":["c"]},{"id":"b","description":"x"},{"id":"c","description":"x"},
                {"id":"d","description":"x","depends_on":["a","b"]}]"#,
            &[],
        );
        assert_eq!(waves(&plan.expect("a plan")), [vec![1, 2], vec![0], vec![3]]);
    }
}
