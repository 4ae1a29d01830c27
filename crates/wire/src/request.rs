//! What both sides of a socket know of an operation: its name, its routes, its answer, and what a repeat does.

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

pub use drawloom_net::Method;

/// The request of one operation. Client, server and `drawloom call` take name and routes from here.
pub trait Request: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// The name of the operation.
    const NAME: &'static str;

    /// Where REST has it. The first route is ours; the others are aliases, the spellings of the reference.
    const ROUTES: &'static [Route];

    /// What it changes.
    const CHANGES: Changes;

    /// What it is answered with; when that takes long, in the end.
    type Output: Serialize + DeserializeOwned + JsonSchema + Send;
}

/// A request that starts something, and that can be answered as soon as that is accepted.
pub trait Detach: Request {
    /// The answer of a caller who does not wait.
    type Accepted: Serialize + DeserializeOwned + JsonSchema + Send;

    /// Asks not to wait.
    fn detach(&mut self);
}

/// What a request changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// It only reads.
    Nothing,
    /// The same request again changes nothing more.
    Once,
    /// Each request changes something, except a repeat with the same idempotency key.
    EveryTime,
}

/// A method and a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// GET and DELETE have their fields in the path and the query, the others in the path and the body.
    pub method: Method,
    /// The path. `{name}` is a field of the request; `{name...}` is one too, and takes the rest of the path with its slashes.
    pub path: &'static str,
}

/// A part of a route's path, between slashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// As it is.
    Literal(&'static str),
    /// `{name}`: a field.
    Field(&'static str),
    /// `{name...}`: a field that takes the rest of the path.
    Rest(&'static str),
}

/// The constants of a [`Request`], for callers who choose the operation at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// The name of the operation.
    pub name: &'static str,
    /// Its routes, ours first.
    pub routes: &'static [Route],
    /// What it changes.
    pub changes: Changes,
}

impl Description {
    /// The description of `R`.
    pub const fn of<R: Request>() -> Self {
        Self { name: R::NAME, routes: R::ROUTES, changes: R::CHANGES }
    }
}

impl Route {
    /// `GET path`.
    pub const fn get(path: &'static str) -> Self {
        Self { method: Method::Get, path }
    }

    /// `POST path`.
    pub const fn post(path: &'static str) -> Self {
        Self { method: Method::Post, path }
    }

    /// `PUT path`.
    pub const fn put(path: &'static str) -> Self {
        Self { method: Method::Put, path }
    }

    /// `PATCH path`.
    pub const fn patch(path: &'static str) -> Self {
        Self { method: Method::Patch, path }
    }

    /// `DELETE path`.
    pub const fn delete(path: &'static str) -> Self {
        Self { method: Method::Delete, path }
    }

    /// Whether its fields are in a JSON body.
    pub fn has_body(&self) -> bool {
        match self.method {
            Method::Get | Method::Head | Method::Delete => false,
            Method::Post | Method::Put | Method::Patch => true,
        }
    }

    /// The parts of its path, in order.
    pub fn parts(&self) -> impl Iterator<Item = Part> + Clone + use<> {
        self.path.split('/').skip(1).map(|part| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            None => Part::Literal(part),
            Some(name) => name.strip_suffix("...").map_or(Part::Field(name), Part::Rest),
        })
    }

    /// The fields in its path, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.parts().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Field(name) | Part::Rest(name) => Some(name),
        })
    }

    /// Its path without the names of fields: routes of one shape match the same requests.
    pub fn shape(&self) -> String {
        let part = |part| match part {
            Part::Literal(text) => text,
            Part::Field(_) => "{}",
            Part::Rest(_) => "{...}",
        };
        self.parts().map(part).fold(String::new(), |path, part| path + "/" + part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_that_differ_only_in_names_have_one_shape() {
        assert_eq!(Route::get("/v1/runs/{run_id}/events").shape(), Route::get("/v1/runs/{id}/events").shape());
        assert_ne!(Route::get("/v1/values/{key}").shape(), Route::get("/v1/values/{key...}").shape());
        assert_eq!(Route::put("/v1/values/{space}/{key...}").parameters().collect::<Vec<_>>(), ["space", "key"]);
        assert_eq!(Route::post("/v1/runs:batch").shape(), "/v1/runs:batch");
    }
}
