//! The hosts that a run may reach.

use std::{collections::BTreeSet, sync::Arc};

/// The hosts of `allowed` that the request leaves: what both lists name.
pub(crate) fn narrowed(allowed: &[String], asked: Option<&[String]>) -> Arc<[String]> {
    let Some(asked) = asked else { return allowed.into() };
    let within = |host: &str, pattern: &str| match pattern.strip_prefix('*') {
        Some(suffix) => host == pattern || host.ends_with(suffix),
        None => host == pattern,
    };
    let narrower = |left: &String, right: &String| {
        (within(left, right)).then(|| left.clone()).or_else(|| within(right, left).then(|| right.clone()))
    };
    let both = allowed.iter().flat_map(|left| asked.iter().filter_map(move |right| narrower(left, right)));
    let both: BTreeSet<String> = both.collect();
    both.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_leaves_only_hosts_that_both_lists_name() {
        let left = |allowed: &[&str], asked: &[&str]| {
            let own = |list: &[&str]| list.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
            narrowed(&own(allowed), Some(&own(asked))).join(" ")
        };
        assert_eq!(left(&["*"], &["a.example", "*.b.example"]), "*.b.example a.example");
        assert_eq!(left(&["*.example", "c.test"], &["a.example", "c.test", "evil.test"]), "a.example c.test");
        assert_eq!(left(&["a.example"], &["*"]), "a.example");
        assert_eq!(left(&["*"], &[]), "");
        assert_eq!(left(&[], &["*"]), "");
        assert_eq!(left(&["*.example"], &["notexample", "example.evil"]), "");
    }
}
