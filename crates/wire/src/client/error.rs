//! Why a call of the client did not work.

use drawloom_contract::{
    failure::{Explain, Failure, FailureKind},
    ids::RunId,
};
use drawloom_net::{Response, sse::TooLong};

use crate::error::{Detail, ErrorBody, kind};

/// Why a call did not work.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server was not reached, or the connection broke.
    #[error("{0}")]
    Net(drawloom_net::Error),
    /// No server was found, and none could be started.
    #[error("{0}")]
    NoServer(Failure),
    /// The server said no.
    #[error("{}", detail.message)]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it said.
        detail: Box<Detail>,
    },
    /// The answer is not what this client knows.
    #[error("the response of the server has an unknown format")]
    Answer(#[source] serde_json::Error),
    /// Whoever answers is no drawloom server.
    #[error("not a drawloom server: {what}")]
    NotOurs {
        /// How that shows.
        what: String,
    },
    /// The server closed a stream before its last event, over and over.
    #[error("{}", cut(.run.as_ref()))]
    Cut {
        /// The run that was followed, if it was one.
        run: Option<RunId>,
    },
    /// An event does not end.
    #[error("{0}")]
    TooLong(TooLong),
    /// The input lacks what the path needs.
    #[error("{operation} needs {name}")]
    MissingParameter {
        /// The operation.
        operation: String,
        /// What is missing.
        name: &'static str,
    },
    /// The input is not an object.
    #[error("the input of {operation} must be a JSON object")]
    NotAnObject {
        /// The operation.
        operation: String,
    },
}

impl From<drawloom_net::Error> for ClientError {
    fn from(error: drawloom_net::Error) -> Self {
        Self::Net(error)
    }
}

impl From<TooLong> for ClientError {
    fn from(error: TooLong) -> Self {
        Self::TooLong(error)
    }
}

fn cut(run: Option<&RunId>) -> String {
    match run {
        Some(run) => format!("the stream of run {run} was closed before the run ended"),
        None => "the server closed the stream".into(),
    }
}

impl ClientError {
    pub(super) fn not_an_object(operation: &str) -> Self {
        Self::NotAnObject { operation: operation.into() }
    }

    /// What the server said, when it said something.
    pub fn detail(&self) -> Option<&Detail> {
        match self {
            Self::Refused { detail, .. } => Some(detail),
            _ => None,
        }
    }

    /// Whether the request may have reached a server.
    pub(super) fn was_sent(&self) -> bool {
        !matches!(self, Self::NoServer(_) | Self::Net(drawloom_net::Error::Connect { .. }))
            && self.detail().is_none_or(|detail| !matches!(detail.code.as_str(), "wrong_instance" | "stopping"))
    }

    /// Whether the server that is meant did not answer: it is gone, stops, or another program has its address.
    pub(super) fn is_away(&self) -> bool {
        match self {
            Self::Net(error) => error.kind().is_retryable(),
            // Whether the server is there is known at once; a command that owns the data may go on for long.
            Self::NoServer(failure) => failure.kind.is_retryable() && !matches!(failure.code, "no_server" | "in_use"),
            Self::NotOurs { .. } | Self::Cut { .. } => true,
            Self::Refused { detail, .. } => matches!(detail.code.as_str(), "wrong_instance" | "stopping"),
            Self::Answer(_) | Self::TooLong(_) | Self::MissingParameter { .. } | Self::NotAnObject { .. } => false,
        }
    }

    /// The code, the server's own when it gave one.
    pub fn wire_code(&self) -> &str {
        self.detail().map_or_else(|| self.code(), |detail| &detail.code)
    }
}

impl Explain for ClientError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Net(error) => error.kind(),
            Self::NoServer(failure) => failure.kind,
            Self::Refused { status, detail } => match kind(*status) {
                FailureKind::Unavailable if !detail.retryable => FailureKind::Broken,
                kind => kind,
            },
            Self::Answer(_) | Self::NotOurs { .. } | Self::Cut { .. } => FailureKind::Unavailable,
            Self::TooLong(error) => error.kind(),
            Self::MissingParameter { .. } | Self::NotAnObject { .. } => FailureKind::Invalid,
        }
    }

    /// A word of this client's; `wire_code` has the server's.
    fn code(&self) -> &'static str {
        match self {
            Self::Net(error) => error.code(),
            Self::NoServer(failure) => failure.code,
            Self::Refused { .. } => "refused",
            Self::Answer(_) => "unknown_answer",
            Self::NotOurs { .. } => "not_drawloom",
            Self::Cut { .. } => "stream_cut",
            Self::TooLong(error) => error.code(),
            Self::MissingParameter { .. } => "missing_key",
            Self::NotAnObject { .. } => "wrong_type",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Net(error) => error.hint(),
            Self::NoServer(failure) => failure.hint.clone(),
            Self::Refused { detail, .. } => detail.hint.clone(),
            Self::Answer(_) => Some("use the same version of drawloom on both sides".into()),
            Self::NotOurs { .. } => Some("check the address".into()),
            Self::Cut { run: Some(run) } => {
                Some(format!("the run continues; follow it again with `drawloom runs tail {run}`"))
            }
            Self::Cut { run: None } => Some("watch it again".into()),
            Self::TooLong(error) => error.hint(),
            Self::MissingParameter { name, .. } => Some(format!("give {name}=...")),
            Self::NotAnObject { .. } => None,
        }
    }
}

/// The error of an answer that is none of the good ones.
pub(super) async fn refused(response: Response) -> ClientError {
    const MOST: usize = 1024 * 1024;
    let status = response.status();
    match response.bytes(MOST).await {
        Err(error) => error.into(),
        Ok(bytes) => match serde_json::from_slice::<ErrorBody>(&bytes) {
            Ok(body) => ClientError::Refused { status, detail: Box::new(body.error) },
            Err(_) => ClientError::NotOurs { what: format!("it answered status {status} without an error body") },
        },
    }
}
