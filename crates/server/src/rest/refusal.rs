//! A request that is not answered as asked: status, headers, the error body.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header, request},
    response::Response,
};
use drawloom_contract::failure::{Failure, FailureKind};
use drawloom_wire::{
    error::{ErrorBody, status},
    validate::{Problem, Step},
};

use crate::{dispatch::Refused, rest::Asked};

/// How soon to ask again after too much at once, in seconds.
const RETRY_AFTER: &str = "1";

/// A request that is not answered as asked.
#[derive(Debug)]
pub(crate) struct Refusal {
    failure: Option<Box<Failure>>,
    problems: Vec<Problem>,
    status: StatusCode,
    header: Option<(HeaderName, String)>,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let status = StatusCode::from_u16(status(failure.kind)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let header = matches!(failure.kind, FailureKind::Throttled | FailureKind::Unavailable)
            .then(|| (header::RETRY_AFTER, RETRY_AFTER.to_owned()));
        if failure.kind == FailureKind::Bug {
            tracing::error!(code = failure.code, error = %failure, "request failed with an internal error");
        }
        Self { failure: Some(Box::new(failure)), problems: Vec::new(), status, header }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        let refusal = Self { problems: refused.problems, ..Self::from(*refused.failure) };
        match refused.scope {
            None => refusal,
            Some(scope) => {
                let challenge = format!("Bearer realm=\"drawloom\", error=\"insufficient_scope\", scope=\"{scope}\"");
                Self { header: Some((header::WWW_AUTHENTICATE, challenge)), ..refusal }
            }
        }
    }
}

impl Refusal {
    /// Nobody whom the server knows.
    pub(crate) fn unknown_caller(failure: Failure) -> Self {
        let challenge = match failure.code {
            "no_token" => "Bearer realm=\"drawloom\"",
            _ => "Bearer realm=\"drawloom\", error=\"invalid_token\"",
        };
        Self { header: Some((header::WWW_AUTHENTICATE, challenge.into())), ..Self::from(failure) }
    }

    /// Meant for another server.
    pub(super) fn wrong_instance(failure: Failure) -> Self {
        Self { status: StatusCode::MISDIRECTED_REQUEST, ..Self::from(failure) }
    }

    /// A body of a type that is not read.
    pub(super) fn wrong_content_type(failure: Failure) -> Self {
        Self { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, ..Self::from(failure) }
    }

    /// A method that the route does not have.
    pub(super) fn wrong_method(parts: &request::Parts, allowed: &str) -> Self {
        let message = format!("method {} is not allowed for {}", parts.method, parts.uri.path());
        let failure = Failure::new(FailureKind::Invalid, "wrong_method", message).with_hint(format!("use {allowed}"));
        Self {
            status: StatusCode::METHOD_NOT_ALLOWED,
            header: Some((header::ALLOW, allowed.into())),
            ..Self::from(failure)
        }
    }

    /// What the route has, for a request that asked just that.
    pub(super) fn options(allowed: &str) -> Self {
        Self {
            failure: None,
            problems: Vec::new(),
            status: StatusCode::NO_CONTENT,
            header: Some((header::ALLOW, allowed.into())),
        }
    }

    /// The answer: what it says has passed the redactor.
    pub(super) fn answer(mut self, asked: &Asked) -> Response {
        let mut mask = |text: &mut String| _ = asked.redactor.mask(text);
        if let Some(failure) = &mut self.failure {
            mask(&mut failure.message);
            failure.hint.iter_mut().for_each(&mut mask);
        }
        for problem in &mut self.problems {
            mask(&mut problem.message);
            for step in &mut problem.steps {
                if let Step::Key(key) = step {
                    mask(key);
                }
            }
            problem.hint.iter_mut().for_each(&mut mask);
        }
        let body = self.failure.map_or_else(Body::empty, |failure| {
            let body = ErrorBody::of(&failure, &self.problems, &asked.id);
            Body::from(serde_json::to_vec(&body).expect("error bodies have only text keys"))
        });
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if self.status != StatusCode::NO_CONTENT {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some((name, value)) = self.header
            && let Ok(value) = HeaderValue::from_str(&value)
        {
            headers.insert(name, value);
        }
        response
    }
}
