//! What can be said about a source with mistakes of form: what holds for the part of it that can be read.

use serde_json::Value;

use super::{Examined, SourceProblem};

/// Keys that one note of lint sums up.
const SUMMED_UP: [&str; 3] = ["agents", "volumes", "hosts"];

/// The field of a source that a path begins with.
fn key(path: &str) -> &str {
    path.split(['.', '[']).next().unwrap_or_default()
}

/// What is wrong in the part of a source that can be read, beside the mistakes of its form. Fields that were left out are not reported as
/// missing; elements of a list that lost some have no index.
pub(super) fn beside(mistakes: &[SourceProblem], part: &Value, found: Vec<SourceProblem>) -> Vec<SourceProblem> {
    let cut: Vec<&str> = mistakes.iter().map(|mistake| key(&mistake.path)).collect();
    let found = found.into_iter().filter(|problem| part.get(key(&problem.path)).is_some());
    let named = found.map(|problem| match key(&problem.path) {
        key if cut.contains(&key) => SourceProblem { path: key.to_owned(), ..problem },
        _ => problem,
    });
    named.collect()
}

/// Keeps of what was found in `part` only what holds whatever the fields that could not be read should have been.
pub(super) fn keep_certain(examined: &mut Examined, mistakes: &[SourceProblem], part: &Value) {
    let lost: Vec<&str> =
        mistakes.iter().map(|mistake| key(&mistake.path)).filter(|key| part.get(key).is_none()).collect();
    let is_lost = |key: &str| lost.contains(&key);
    examined.findings.retain(|finding| match finding.at.get(2) {
        // Every other finding compares something with the tools.
        _ if is_lost("tools") => false,
        Some(key) => !is_lost(key),
        None => !SUMMED_UP.into_iter().any(is_lost),
    });
    let is_about = |warning: &str| lost.iter().any(|key| !key.is_empty() && warning.starts_with(key));
    examined.warnings.retain(|warning| !is_about(warning));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::lint::{Finding, Weight};

    #[test]
    fn what_depends_on_a_field_that_was_not_read_is_left_out() {
        let finding = |key: Option<&str>| {
            let at = ["agents", "a"].into_iter().chain(key).map(str::to_owned).collect();
            Finding { weight: Weight::Warning, at, message: key.unwrap_or("no key").into() }
        };
        let kept = |mistakes: &[&str], part: Value| {
            let mistakes: Vec<SourceProblem> = mistakes.iter().map(|path| SourceProblem::new(*path, "wrong")).collect();
            let mut examined = Examined {
                findings: vec![finding(None), finding(Some("memory_scopes")), finding(Some("channels"))],
                warnings: vec!["max_iterations is not set: 8".into(), "unknown agent \"x\"".into()],
                ..Examined::default()
            };
            keep_certain(&mut examined, &mistakes, &part);
            let findings: Vec<String> = examined.findings.into_iter().map(|finding| finding.message).collect();
            (findings.join(" "), examined.warnings.len())
        };
        let tools = json!({ "tools": ["Memory"] });
        assert_eq!(kept(&["max_iterations"], tools.clone()), ("no key memory_scopes channels".into(), 1));
        assert_eq!(kept(&["tools[1]", ""], tools.clone()), ("no key memory_scopes channels".into(), 2));
        assert_eq!(kept(&["memory_scopes", "hosts"], tools), ("channels".into(), 2));
        assert_eq!(kept(&["tools"], json!({})), (String::new(), 2));
    }
}
