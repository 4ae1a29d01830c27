//! Lines to the host: whole, in the order in which they come, from one writer.

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};

/// Lines that may wait to be written; whoever has more waits with it.
const ROOM: usize = 256;

/// The way to the host.
#[derive(Clone)]
pub(crate) struct Output(mpsc::Sender<Bytes>);

impl Output {
    /// A way to the host, and its other end.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Bytes>) {
        let (sender, receiver) = mpsc::channel(ROOM);
        (Self(sender), receiver)
    }

    /// Writes a line. A host that is gone misses it.
    pub(crate) async fn line(&self, line: Bytes) {
        drop(self.0.send(line).await);
    }
}

/// Writes lines until there are none to come, or nobody reads them.
pub(crate) async fn write(mut lines: mpsc::Receiver<Bytes>, mut output: impl AsyncWrite + Unpin) {
    let mut buffer = BytesMut::new();
    while let Some(line) = lines.recv().await {
        let mut next = Some(line);
        // What waits already goes out in one piece.
        while let Some(line) = next {
            buffer.put_slice(&line);
            buffer.put_u8(b'\n');
            next = lines.try_recv().ok();
        }
        if output.write_all(&buffer).await.is_err() || output.flush().await.is_err() {
            return;
        }
        buffer.clear();
        if buffer.capacity() > 1024 * 1024 {
            buffer = BytesMut::new();
        }
    }
}
