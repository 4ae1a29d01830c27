//! Whether routes can be told apart.

use drawloom_wire::request::{Part, Route};

use crate::{dispatch::OperationsError, operation::Card};

/// Paths that belong to no operation, whatever the method.
const FIXED_PATHS: &[&str] = &["/healthz", "/readyz", "/metrics", "/v1/openapi.json", "/mcp", "/v1/_mcp"];

/// Fails when a request could belong to two operations.
pub(super) fn check<'a>(cards: impl Iterator<Item = &'a Card>) -> Result<(), OperationsError> {
    let mut known: Vec<(&'static str, Route)> = Vec::new();
    for card in cards {
        for route in card.routes() {
            let same = known.iter().find(|(_, before)| is_same(before, route)).map(|(name, _)| *name);
            let fixed = FIXED_PATHS.iter().find(|path| **path == route.path).copied();
            if let Some(first) = same.or(fixed) {
                let route = format!("{} {}", route.method.as_str(), route.path);
                return Err(OperationsError::SameRoute { first, second: card.name(), route });
            }
            known.push((card.name(), *route));
        }
    }
    Ok(())
}

/// Whether two routes match the same request, or one takes the rest of a path where the other goes on.
fn is_same(one: &Route, other: &Route) -> bool {
    for pair in one.parts().zip(other.parts()) {
        match pair {
            (Part::Field(_), Part::Field(_)) => {}
            (Part::Rest(_), Part::Rest(_)) => {}
            (Part::Rest(_), Part::Field(_)) | (Part::Field(_), Part::Rest(_)) => return true,
            (Part::Literal(one), Part::Literal(other)) if one == other => {}
            _ => return false,
        }
    }
    one.method == other.method && one.parts().count() == other.parts().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_told_apart_by_method_and_shape() {
        for (one, other, same) in [
            (Route::get("/v1/a/{x}"), Route::get("/v1/a/{y}"), true),
            (Route::get("/v1/a/{x}"), Route::put("/v1/a/{y}"), false),
            (Route::get("/v1/a/{x}"), Route::get("/v1/a/{x}/b"), false),
            (Route::get("/v1/a/{x}"), Route::get("/v1/a/b"), false),
            (Route::get("/v1/a/{x...}"), Route::get("/v1/a/{y...}"), true),
            (Route::get("/v1/a/{x...}"), Route::put("/v1/a/{y...}"), false),
            (Route::get("/v1/a/{x...}"), Route::put("/v1/a/{y}/b"), true),
            (Route::get("/v1/a/{x...}"), Route::get("/v1/a"), false),
            (Route::get("/v1/a:b"), Route::get("/v1/a:c"), false),
        ] {
            assert_eq!((is_same(&one, &other), is_same(&other, &one)), (same, same), "{one:?} {other:?}");
        }
    }
}
