//! A request's body: while it has not come as a whole, its connection can be closed in favour of another one.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};

use super::Connection;

/// A request's body that notes at its connection when it has come as a whole.
pub(crate) struct Upload {
    body: Incoming,
    connection: Arc<Connection>,
}

impl Upload {
    /// The body of a request whose head has come.
    pub(crate) fn body(body: Incoming, connection: &Arc<Connection>) -> Body {
        match body.is_end_stream() {
            true => {
                connection.received();
                Body::empty()
            }
            false => Body::new(Self { body, connection: connection.clone() }),
        }
    }
}

impl HttpBody for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.connection.received();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
