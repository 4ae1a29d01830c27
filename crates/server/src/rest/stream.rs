//! A run's events as a response body.
//!
//! The body is read only as fast as the caller takes it. A slow reader costs one chunk of small events, or one large event that
//! all who follow the run share and that is counted: the engine's stream re-reads what went by.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use drawloom_contract::{
    failure::Failure,
    ids::RunKey,
    record::Seq,
    runs::{Interest, Item, Live},
    time::Instant,
};
use drawloom_wire::events::{Event, KEEP_ALIVE, Mapper};
use futures::{Stream, StreamExt, stream::BoxStream};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::{
    app::App,
    connections::PIECE,
    handle::{CancelGuard, Followed, From},
};

/// Events that are ready go out together, up to about this many bytes.
const CHUNK: usize = 16 * 1024;

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Frames of events that have no end, one at a time, with a comment after each silence. It ends when the server stops.
pub(super) fn endless(
    app: Arc<App>,
    events: BoxStream<'static, Event>,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    futures::stream::unfold((app, events), async |(app, mut events)| {
        let due = app.clock.now().after(app.limits.keep_alive);
        let frame = tokio::select! {
            biased;
            () = app.stopping.cancelled() => return None,
            event = events.next() => {
                let mut frame = Vec::new();
                event?.encode(&mut frame);
                Bytes::from(frame)
            }
            () = app.clock.sleep_until(due) => Bytes::from_static(KEEP_ALIVE),
        };
        Some((Ok(frame), (app, events)))
    })
}

/// The events of one run.
pub(super) struct EventBody {
    app: Arc<App>,
    live: Live,
    mapper: Mapper,
    run: RunKey,
    after: Seq,
    buffer: Vec<u8>,
    /// An event that is too large for the buffer.
    large: Bytes,
    guard: CancelGuard,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    silence: Option<Sleep>,
    spoke: Instant,
    over: bool,
}

impl EventBody {
    /// A body that is about to follow the handle's run.
    pub(super) async fn open(app: &Arc<App>, followed: Followed) -> Result<Self, Failure> {
        let Followed { caller, run, how, from } = followed;
        let guard = CancelGuard::new(app, &caller, &how, vec![run.view.run]);
        let live = match run.live {
            Some(live) => live,
            None => app.runs.follow(&caller, run.view.run, 0, Interest::Events).await?,
        };
        let mut mapper = Mapper::new(&run.view);
        let mut buffer = Vec::new();
        let after = match from {
            From::After(seq) => seq,
            From::Start => {
                for event in mapper.greet(&run.view) {
                    event.encode(&mut buffer);
                }
                0
            }
        };
        Ok(Self {
            live,
            mapper,
            run: run.view.key(),
            after,
            buffer,
            large: Bytes::new(),
            guard,
            stopping: Box::pin(app.stopping.clone().cancelled_owned()),
            silence: None,
            spoke: app.clock.now(),
            over: false,
            app: app.clone(),
        })
    }

    /// Takes what is ready into the buffer.
    fn fill(&mut self, context: &mut Context<'_>) {
        while !self.over && self.buffer.len() < CHUNK && self.large.is_empty() {
            match self.live.poll_next_unpin(context) {
                Poll::Pending => return,
                Poll::Ready(Some(Ok(item))) => {
                    let event = self.mapper.map(&item);
                    if let Some(event) = event.filter(|event| event.id.is_none_or(|id| id > self.after)) {
                        match event.data.len() < PIECE {
                            true => event.encode(&mut self.buffer),
                            // Only what is journaled is the same for all; a delta has no id to tell it from the next one.
                            false if event.id.is_some() => self.large = self.app.large_events.share(&self.run, &event),
                            false => {
                                let mut frame = Vec::with_capacity(event.data.len() + 128);
                                event.encode(&mut frame);
                                self.large = frame.into();
                            }
                        }
                    }
                    self.over = matches!(item, Item::Ended(_));
                }
                // Without a last event the caller knows that the stream broke, and takes it up again.
                Poll::Ready(Some(Err(failure))) => {
                    tracing::warn!(code = failure.code, error = %failure, "event stream failed");
                    self.over = true;
                }
                Poll::Ready(None) => self.over = true,
            }
        }
        if self.over {
            self.guard.disarm();
        }
    }

    /// Waits for the end of the silence that is allowed.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let clock = &self.app.clock;
            let due = self.spoke.after(self.app.limits.keep_alive);
            let sleep = self.silence.get_or_insert_with(|| {
                let clock = clock.clone();
                Box::pin(async move { clock.sleep_until(due).await })
            });
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.silence = None;
            // What was said since the sleep began moved its end.
            if self.app.clock.now() >= due {
                return Poll::Ready(());
            }
        }
    }
}

impl Stream for EventBody {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        this.fill(context);
        if !this.buffer.is_empty() {
            this.spoke = this.app.clock.now();
            return Poll::Ready(Some(Ok(std::mem::take(&mut this.buffer).into())));
        }
        if !this.large.is_empty() {
            this.spoke = this.app.clock.now();
            // As a whole: the connection counts it, and sends it in pieces.
            return Poll::Ready(Some(Ok(std::mem::take(&mut this.large))));
        }
        if this.over || this.stopping.as_mut().poll(context).is_ready() {
            this.over = true;
            this.guard.disarm();
            return Poll::Ready(None);
        }
        if this.poll_silence(context).is_ready() {
            this.spoke = this.app.clock.now();
            return Poll::Ready(Some(Ok(Bytes::from_static(KEEP_ALIVE))));
        }
        Poll::Pending
    }
}
