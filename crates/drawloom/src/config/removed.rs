//! A config with mistakes of form is checked for mistakes of meaning too: without the parts that have the former.

use std::collections::BTreeMap;

use serde_json::Value;

use drawloom_substrate::Problem;
use drawloom_wire::validate::{self, Step, Validator};

/// How often parts are taken out: a part may only be found wrong when another one is gone, such as a name without its value.
const MOST_ROUNDS: usize = 8;

/// What was taken out.
#[derive(Debug, Default)]
pub(super) struct Removed {
    /// Paths as the files have them, and the paths that were meant by misspelled keys.
    paths: Vec<Vec<String>>,
    /// Sections that could have more names than is known.
    open: Vec<String>,
    /// The indices of items that were taken out of lists, by the path of the list.
    items: BTreeMap<Vec<String>, Vec<usize>>,
}

/// Takes everything with a problem out of `value`. Returns what was taken out, or nothing when no valid rest is left.
pub(super) fn remove(validator: &Validator, value: &mut Value, problems: &[validate::Problem]) -> Option<Removed> {
    let mut removed = Removed::default();
    let mut problems = problems.to_vec();
    for _ in 0..MOST_ROUNDS {
        removed.take_out(value, &problems)?;
        match validator.check_whole(value) {
            Ok(()) => return Some(removed),
            Err(more) => problems = more,
        }
    }
    None
}

impl Removed {
    fn take_out(&mut self, value: &mut Value, problems: &[validate::Problem]) -> Option<()> {
        let mut targets: Vec<Vec<&Step>> = Vec::new();
        for problem in problems {
            let mut steps: Vec<&Step> = problem.steps.iter().collect();
            if problem.code == "missing_key" {
                self.paths.push(self.original(&texts(&steps)));
                steps.pop();
            }
            if let Some(meant) = meant(problem) {
                let mut path = texts(&steps);
                path.pop();
                let above: Vec<&Step> = steps.iter().copied().take(path.len()).collect();
                // A slip beside the right key took nothing away.
                if find(value, &above).is_none_or(|above| above.get(meant).is_none()) {
                    path.push(meant.to_owned());
                    self.paths.push(path);
                }
            }
            if steps.is_empty() {
                return None;
            }
            targets.push(steps);
        }
        // From the back, so that the indices of what is still to come stay right.
        targets.sort_by_key(|steps| std::cmp::Reverse(order(steps)));
        targets.dedup();
        let inside =
            |steps: &[&Step]| targets.iter().any(|other| other.len() < steps.len() && steps.starts_with(other));
        for steps in targets.iter().filter(|steps| !inside(steps)) {
            let path = self.original(&texts(steps));
            if cut(value, steps) {
                if let (Some(Step::Index(_)), Some((last, list))) = (steps.last(), path.split_last()) {
                    let items = self.items.entry(list.to_vec()).or_default();
                    items.extend(last.parse::<usize>());
                    items.sort_unstable();
                }
                self.paths.push(path);
            }
        }
        Some(())
    }

    /// The path in the files of what is at `path` in the rest.
    fn original(&self, path: &[String]) -> Vec<String> {
        let mut original: Vec<String> = Vec::with_capacity(path.len());
        for step in path {
            let step = match (self.items.get(&original), step.parse::<usize>()) {
                (Some(gone), Ok(index)) => {
                    gone.iter().fold(index, |index, gone| if *gone <= index { index + 1 } else { index }).to_string()
                }
                _ => step.clone(),
            };
            original.push(step);
        }
        original
    }

    /// Notes that which names these sections have is not known: only what looks like a slip is unknown there.
    pub(super) fn leave_open(&mut self, sections: &[&str]) {
        self.open.extend(sections.iter().map(|section| (*section).to_owned()));
    }

    /// The problem with its path in the files; nothing when it only follows from what was taken out.
    pub(super) fn place(&self, problem: &Problem) -> Option<Problem> {
        let at = self.original(&problem.at);
        let is_gone = |section: &str, name: &str| {
            self.paths.iter().any(|path| match &path[..] {
                [only] => only == section,
                [first, second] => first == section && second == name,
                _ => false,
            })
        };
        let is_slip = problem.hint.as_ref().is_some_and(|hint| hint.starts_with("did you mean"));
        let is_open = |section: &str| !is_slip && self.open.iter().any(|open| open == section);
        if problem.unknown.as_ref().is_some_and(|(section, name)| is_gone(section, name) || is_open(section)) {
            return None;
        }
        let said = format!("{} {}", problem.message, problem.hint.as_deref().unwrap_or_default());
        let names = |path: &Vec<String>| {
            let below = path.strip_prefix(&at[..]).and_then(<[String]>::first);
            below.is_some_and(|key| said.contains(&format!("`{key}`")))
        };
        (!self.paths.iter().any(names)).then(|| Problem { at, ..problem.clone() })
    }
}

/// The key that was probably meant in place of an unknown one.
fn meant(problem: &validate::Problem) -> Option<&str> {
    let hint = problem.hint.as_deref().filter(|_| problem.code == "unknown_key")?;
    hint.strip_prefix("did you mean ")?.strip_suffix('?')
}

fn texts(steps: &[&Step]) -> Vec<String> {
    let text = |step: &&Step| match step {
        Step::Key(key) => key.clone(),
        Step::Index(index) => index.to_string(),
    };
    steps.iter().map(text).collect()
}

fn order(steps: &[&Step]) -> Vec<(usize, String)> {
    let key = |step: &&Step| match step {
        Step::Key(key) => (0, key.clone()),
        Step::Index(index) => (*index, String::new()),
    };
    steps.iter().map(key).collect()
}

fn find<'a>(value: &'a mut Value, steps: &[&Step]) -> Option<&'a mut Value> {
    steps.iter().try_fold(value, |at, step| match step {
        Step::Key(key) => at.get_mut(key),
        Step::Index(index) => at.get_mut(*index),
    })
}

/// Removes what is at `steps`; says whether it was there.
fn cut(value: &mut Value, steps: &[&Step]) -> bool {
    let Some((last, above)) = steps.split_last() else { return false };
    let Some(at) = find(value, above) else { return false };
    match (last, at) {
        (Step::Key(key), Value::Object(map)) => map.remove(key).is_some(),
        (Step::Index(index), Value::Array(items)) if *index < items.len() => {
            items.remove(*index);
            true
        }
        _ => false,
    }
}
