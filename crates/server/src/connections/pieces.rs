//! An answer's body in pieces that the socket takes one by one.
//!
//! Hyper copies each piece into its own buffer as a whole: a body of 10 MB in one piece would be there twice.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};

use super::{Connection, TooMuch};

/// The longest piece.
pub(crate) const PIECE: usize = 32 * 1024;

/// A body whose data comes in pieces of at most `PIECE` bytes. What it holds beyond that is counted.
pub(crate) struct Pieces {
    body: Body,
    connection: Arc<Connection>,
    rest: Bytes,
    /// Whether `rest` is counted.
    held: bool,
    /// Why nothing more is sent.
    refused: Option<TooMuch>,
}

impl Pieces {
    pub(crate) fn new(body: Body, connection: Arc<Connection>) -> Self {
        Self { body, connection, rest: Bytes::new(), held: false, refused: None }
    }

    /// Counts a large answer that is ready as a whole, before its head is sent: it can still be refused.
    pub(crate) fn reserve(&mut self) -> Result<(), TooMuch> {
        if self.body.size_hint().exact().is_none_or(|length| length <= PIECE as u64) {
            return Ok(());
        }
        // What follows the data of such a body is nothing.
        match self.body.frame().now_or_never().flatten().and_then(|frame| frame.ok()?.into_data().ok()) {
            Some(data) => self.hold(data),
            None => Ok(()),
        }
    }

    /// Sends another body.
    pub(crate) fn replace(&mut self, body: Body) {
        (self.body, self.rest) = (body, Bytes::new());
    }

    fn hold(&mut self, data: Bytes) -> Result<(), TooMuch> {
        self.connection.hold(&data)?;
        (self.rest, self.held) = (data, true);
        Ok(())
    }

    fn next_piece(&mut self) -> Bytes {
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        if self.rest.is_empty() && std::mem::take(&mut self.held) {
            self.connection.release();
        }
        piece
    }
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(self.next_piece()))));
        }
        if let Some(error) = self.refused {
            return Poll::Ready(Some(Err(io::Error::other(error).into())));
        }
        match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
            None => Poll::Ready(None),
            Some(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            Some(Ok(frame)) => match frame.into_data() {
                Err(trailers) => Poll::Ready(Some(Ok(trailers))),
                Ok(data) if data.len() <= PIECE => Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(data) => {
                    let bytes = data.len();
                    if let Err(error) = self.hold(data) {
                        let request = self.connection.request();
                        let request = request.as_ref().map(axum::http::Uri::path);
                        tracing::warn!(request, bytes, %error, "dropped a connection with a large response");
                        // Hyper drops what it has not written when a body fails, so it gets a chance to write that first.
                        self.refused = Some(error);
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Poll::Ready(Some(Ok(Frame::data(self.next_piece()))))
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let hint = self.body.size_hint();
        let mut all = SizeHint::new();
        // The upper bound first: a lower bound over it is refused.
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + rest);
        }
        all.set_lower(hint.lower() + rest);
        all
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if self.held {
            self.connection.release();
        }
        self.connection.end();
    }
}
