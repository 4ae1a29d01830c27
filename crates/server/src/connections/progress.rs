//! A socket whose writes must make progress.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use super::Connection;

/// Bytes that a peer must take within the timeout, if there are so many: 16 KiB in 30 s is 546 bytes per second.
const LEAST: usize = 16 * 1024;

/// When a write that makes no progress counts as stalled: this part of the timeout.
const STALLED: u32 = 8;

/// A socket whose peer must read: a write that takes less than `LEAST` bytes within the timeout fails.
pub(crate) struct Progress<S> {
    socket: S,
    connection: Arc<Connection>,
    timeout: Duration,
    /// Runs while bytes wait for the peer. It is kept when they do not, because making a timer costs.
    timer: Option<Pin<Box<Sleep>>>,
    wait: Wait,
    /// Bytes taken since the wait began.
    taken: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The socket has taken everything.
    No,
    /// For the time after which the peer counts as stalled.
    Short,
    /// For the rest of the timeout.
    Long,
}

impl<S> Progress<S> {
    pub(crate) fn new(socket: S, connection: Arc<Connection>, timeout: Duration) -> Self {
        Self { socket, connection, timeout, timer: None, wait: Wait::No, taken: 0 }
    }

    fn took(&mut self, bytes: usize, offered: usize) {
        if self.wait == Wait::No {
            return;
        }
        self.taken += bytes;
        if bytes == offered || self.taken >= LEAST {
            if self.wait == Wait::Long {
                self.connection.set_stalled(false);
            }
            (self.wait, self.taken) = (Wait::No, 0);
        }
    }

    /// Waits for the peer; fails when it took too little for too long.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let short = self.timeout / STALLED;
        loop {
            let next = match self.wait {
                Wait::No => short,
                Wait::Short | Wait::Long => {
                    let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(short)));
                    if timer.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    if self.wait == Wait::Long {
                        let seconds = self.timeout.as_secs_f32();
                        let what = format!("the client read only {} bytes in {seconds} s", self.taken);
                        return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, what)));
                    }
                    self.connection.set_stalled(true);
                    self.timeout - short
                }
            };
            self.wait = if self.wait == Wait::No { Wait::Short } else { Wait::Long };
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(Instant::now() + next),
                None => self.timer = Some(Box::pin(sleep(next))),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Progress<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Progress<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.socket).poll_write(context, bytes) {
            Poll::Ready(Ok(count)) => {
                self.took(count, bytes.len());
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.wait(context),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
