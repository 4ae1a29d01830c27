//! Events of a run, or of memory, over connections that may break.

use std::{collections::VecDeque, time::Duration};

use drawloom_contract::{failure::Explain, ids::RunId, record::Seq};
use drawloom_net::{Method, Response};
use futures::StreamExt;

use crate::{
    client::{Call, Client, ClientError, Events},
    events::{Event, Parser, TREE_DONE},
    upstream::Address,
};

/// How often in a row a connection may fail without bringing an event.
const MAX_FAILURES: u32 = 10;

/// The wait before the first try again; each further one is twice as long, up to `LONGEST_WAIT`.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// The longest wait before a try again.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What is followed.
#[derive(Debug)]
pub(super) enum Source {
    Run(RunId),
    /// What has happened to a run so far.
    Past(RunId),
    /// A run and all runs below it.
    Tree(RunId),
    /// What this path streams, without an end.
    Path(String),
}

impl Source {
    fn path(&self) -> String {
        match self {
            Self::Run(run) => format!("/v1/runs/{run}/events"),
            Self::Past(run) => format!("/v1/runs/{run}/events?past=true"),
            Self::Tree(run) => format!("/v1/runs/{run}/events?tree=true"),
            Self::Path(path) => path.clone(),
        }
    }

    fn is_last(&self, event: &Event) -> bool {
        match self {
            Self::Run(_) | Self::Past(_) => event.is_terminal(),
            Self::Tree(_) => event.name == TREE_DONE,
            Self::Path(_) => false,
        }
    }

    fn run(&self) -> Option<RunId> {
        match self {
            Self::Run(run) | Self::Past(run) | Self::Tree(run) => Some(*run),
            Self::Path(_) => None,
        }
    }
}

struct Stream {
    client: Client,
    source: Source,
    after: Seq,
    response: Option<Response>,
    /// Where the last try was made.
    at: Option<Address>,
    parser: Parser,
    ready: VecDeque<Event>,
    failures: u32,
    over: bool,
}

/// The events of `source` above `after`.
pub(super) fn events(client: Client, source: Source, after: Seq) -> Events {
    let stream = Stream {
        client,
        source,
        after,
        response: None,
        at: None,
        parser: Parser::new(),
        ready: VecDeque::new(),
        failures: 0,
        over: false,
    };
    futures::stream::unfold(stream, async |mut stream| stream.next().await.map(|event| (event, stream))).boxed()
}

impl Stream {
    async fn next(&mut self) -> Option<Result<Event, ClientError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.failures = 0;
                self.after = event.id.unwrap_or(self.after);
                self.over = self.source.is_last(&event);
                return Some(Ok(event));
            }
            if self.over {
                return None;
            }
            match self.read().await {
                Ok(()) => {}
                // Where a server is was looked for long enough.
                Err(error)
                    if !matches!(error, ClientError::NoServer(_))
                        && (error.kind().is_retryable() || error.is_away())
                        && self.failures < MAX_FAILURES =>
                {
                    self.pause().await;
                }
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
    }

    /// Connects, or takes in the next bytes.
    async fn read(&mut self) -> Result<(), ClientError> {
        let Some(response) = &mut self.response else {
            let response = self.connect().await?;
            self.over = response.status() == 204;
            self.response = Some(response);
            self.parser = Parser::new();
            return Ok(());
        };
        match response.chunk().await {
            Ok(Some(bytes)) => {
                let mut events = Vec::new();
                self.parser.feed(&bytes, &mut events)?;
                self.ready.extend(events);
                Ok(())
            }
            Ok(None) if matches!(self.source, Source::Past(_)) => {
                self.over = true;
                Ok(())
            }
            // The server closed without a last event: it is stopping, or a proxy cut in.
            Ok(None) => {
                self.response = None;
                Err(ClientError::Cut { run: self.source.run() })
            }
            Err(error) => {
                self.response = None;
                Err(error.into())
            }
        }
    }

    async fn connect(&mut self) -> Result<Response, ClientError> {
        let failed = if self.failures == 0 { None } else { self.at.take() };
        let at = self.client.reach_other(failed.as_ref()).await?;
        let path = self.source.path();
        let headers = match self.after {
            0 => Vec::new(),
            after => vec![("last-event-id", after.to_string())],
        };
        let call = Call { method: Method::Get, path: &path, accept: "text/event-stream", json: None };
        let response = self.client.send(&at, &call, headers).await;
        self.at = Some(at);
        response
    }

    async fn pause(&mut self) {
        let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(16)).min(LONGEST_WAIT);
        self.failures += 1;
        let clock = &self.client.clock;
        clock.sleep_until(clock.now().after(wait)).await;
    }
}
