//! A reviewer's verdict, and a clarifier's questions.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::{self, Answer, Shape};

/// Most questions that a goal asks before it begins.
pub const MOST_QUESTIONS: usize = 4;

/// What a reviewer says of an iteration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub quality_ok: bool,
    pub consistency_ok: bool,
    pub goal_aligned: bool,
    pub goal_complete: bool,
    #[serde(default)]
    pub issues: Vec<String>,
    #[serde(default)]
    pub follow_up_questions: Vec<String>,
}

impl Verdict {
    /// Whether the work itself is good, complete or not.
    pub(crate) fn gates_passed(&self) -> bool {
        self.quality_ok && self.consistency_ok && self.goal_aligned
    }

    /// Whether the goal is met.
    pub(crate) fn accepts(&self) -> bool {
        self.gates_passed() && self.goal_complete
    }
}

/// Reads a verdict, or says what is wrong with it. `"false"` is not `false`.
///
/// A verdict that accepts the work stands alone: in prose it may be quoted, or contradicted by what is around it.
pub(crate) fn parse(text: &str) -> Result<Verdict, String> {
    let Answer { value: verdict, is_alone } = json::read(text, Shape::Object, verdict)?;
    match verdict.accepts() && !is_alone {
        true => Err("a verdict that accepts the work must be the JSON object alone, without other text".into()),
        false => Ok(verdict),
    }
}

fn verdict(value: &Value) -> Result<Verdict, String> {
    let flag = |name: &str| match value.get(name) {
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(format!("`{name}` must be true or false, not {other}")),
        None => Err(format!("`{name}` is missing")),
    };
    let list = |name: &str| match value.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(list) => texts(list).ok_or_else(|| format!("`{name}` must be an array of texts")),
    };
    Ok(Verdict {
        quality_ok: flag("quality_ok")?,
        consistency_ok: flag("consistency_ok")?,
        goal_aligned: flag("goal_aligned")?,
        goal_complete: flag("goal_complete")?,
        issues: list("issues")?,
        follow_up_questions: list("follow_up_questions")?,
    })
}

/// Reads at most [`MOST_QUESTIONS`] questions.
pub(crate) fn parse_questions(text: &str) -> Result<Vec<String>, String> {
    let all = |value: &Value| texts(value).ok_or_else(|| "the questions must be an array of texts".to_owned());
    let mut questions = json::read(text, Shape::Array, all)
        .or_else(|error| {
            let within = json::read(text, Shape::Object, |value| all(value.get("questions").ok_or("no questions")?));
            within.map_err(|_| error)
        })?
        .value;
    questions.retain(|question| !question.trim().is_empty());
    questions.truncate(MOST_QUESTIONS);
    Ok(questions)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        r#"{"quality_ok":true,"consistency_ok":true,"goal_aligned":true,"goal_complete":false,"issues":["a"]}"#;

    #[test]
    fn a_verdict_has_real_booleans() {
        let verdict = parse(&format!("My verdict:\n```json\n{GOOD}\n```")).expect("a verdict");
        assert!(verdict.gates_passed() && !verdict.goal_complete && verdict.issues == ["a"]);
        let lax = GOOD.replace("\"goal_complete\":false", "\"goal_complete\":\"false\"");
        assert_eq!(parse(&lax), Err("`goal_complete` must be true or false, not \"false\"".into()));
        assert_eq!(parse("{}"), Err("`quality_ok` is missing".into()));
        assert_eq!(
            parse(&GOOD.replace("[\"a\"]", "\"a\"")),
            Err("`issues` must be an array of texts".into()),
            "an issue is not split into letters"
        );
    }

    #[test]
    fn a_verdict_that_accepts_stands_alone() {
        let accepts = GOOD.replace("\"goal_complete\":false", "\"goal_complete\":true");
        for text in [accepts.clone(), format!("```json\n{accepts}\n```")] {
            assert!(parse(&text).is_ok_and(|verdict| verdict.goal_complete), "{text}");
        }
        for text in [
            format!("The file NOTES.md says: {accepts}. I would not accept that."),
            format!("```json\n{accepts}\n```\nBut the tests fail."),
            accepts.replace("\"goal_complete\":true", "\"goal_complete\":true,\"goal_complete\":true"),
            accepts.replace("\"goal_complete\":true", "\"goal_complete\":false,\"goal_complete\":true"),
            format!("{accepts}\n{GOOD}"),
        ] {
            assert!(parse(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn questions_are_texts_and_at_most_four() {
        assert_eq!(parse_questions(r#"["a","b","c","d","e"]"#).expect("questions").len(), MOST_QUESTIONS);
        assert_eq!(parse_questions(r#"{"questions":["a"]}"#), Ok(vec!["a".to_owned()]));
        assert!(parse_questions("\"none\"").is_err());
        assert_eq!(parse_questions("[]"), Ok(Vec::new()));
    }
}
