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
use hyper::body::{Frame, SizeHint};

use super::Connection;

/// The longest piece.
pub(crate) const PIECE: usize = 32 * 1024;

/// A body whose data comes in pieces of at most `PIECE` bytes. What it holds beyond that is counted.
pub(crate) struct Pieces {
    body: Body,
    connection: Arc<Connection>,
    rest: Bytes,
    held: usize,
}

impl Pieces {
    pub(crate) fn new(body: Body, connection: Arc<Connection>) -> Self {
        Self { body, connection, rest: Bytes::new(), held: 0 }
    }

    fn next_piece(&mut self) -> Bytes {
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        if self.rest.is_empty() && self.held > 0 {
            self.connection.release(std::mem::take(&mut self.held));
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
        match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
            None => Poll::Ready(None),
            Some(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            Some(Ok(frame)) => match frame.into_data() {
                Err(trailers) => Poll::Ready(Some(Ok(trailers))),
                Ok(data) if data.len() <= PIECE => Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(data) => {
                    if let Err(error) = self.connection.hold(data.len()) {
                        let request = self.connection.request();
                        let request = request.as_ref().map(axum::http::Uri::path);
                        tracing::warn!(request, bytes = data.len(), %error, "dropped a connection with a large answer");
                        return Poll::Ready(Some(Err(io::Error::other(error).into())));
                    }
                    self.held = data.len();
                    self.rest = data;
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
        if self.held > 0 {
            self.connection.release(self.held);
        }
        self.connection.end();
    }
}
