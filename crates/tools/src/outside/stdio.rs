//! JSON-RPC over the pipes of a program: one message a line, none longer than a limit, and whatever else the program
//! prints is passed over.

use std::{io, sync::Arc};

use drawloom_contract::{redact::Redactor, time::Instant};
use rmcp::{
    RoleClient,
    model::{ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::Mutex,
};

use super::{
    filter::{Filter, Verdict, answered},
    message::read,
    probe::{ProbeTimeout, unanswered},
};

/// The longest message, in bytes. A longer line ends the connection before it fills the memory.
pub(super) const LONGEST_MESSAGE: usize = 8 * 1024 * 1024;

/// Most requests of a program whose answers it has not taken.
pub(super) const MOST_UNANSWERED: usize = 64;

/// What comes next from a program.
enum Next {
    Line,
    Unanswered(RequestId),
    End,
}

/// Lines to and from a program.
pub(super) struct Lines<R, W> {
    reader: BufReader<R>,
    writer: Arc<Mutex<Option<W>>>,
    /// The line that is being read. It lives here because reading may be broken off at any await and taken up again.
    line: Vec<u8>,
    filter: Filter,
    probe_timeout: ProbeTimeout,
    redactor: Arc<Redactor>,
    /// The question of the newer protocol that has no answer yet, and until when one is waited for: nothing when it came too
    /// late already.
    probe: Option<(RequestId, Option<Instant>)>,
}

impl<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send + 'static> Lines<R, W> {
    pub(super) fn new(
        reader: R,
        writer: W,
        filter: Filter,
        probe_timeout: ProbeTimeout,
        redactor: Arc<Redactor>,
    ) -> Self {
        Self {
            reader: BufReader::with_capacity(64 * 1024, reader),
            writer: Arc::new(Mutex::new(Some(writer))),
            line: Vec::new(),
            filter,
            probe_timeout,
            redactor,
            probe: None,
        }
    }

    /// The next whole line; or the id of the question of the newer protocol, when its answer is late.
    async fn next(&mut self) -> Next {
        let Some((id, Some(until))) = self.probe.clone() else {
            return if self.fill_line().await { Next::Line } else { Next::End };
        };
        let clock = self.probe_timeout.clock.clone();
        tokio::select! {
            biased;
            whole = self.fill_line() => if whole { Next::Line } else { Next::End },
            () = clock.sleep_until(until) => Next::Unanswered(id),
        }
    }

    /// Whether a message is a late answer to the question of the newer protocol.
    fn is_too_late(&mut self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        match &self.probe {
            Some((asked, until)) if id == Some(asked) => {
                let late = until.is_none();
                self.probe = None;
                late
            }
            _ => false,
        }
    }

    /// Whether a request is one of few: each answer waits in memory until the program reads it.
    fn is_bearable(&self, message: &ServerJsonRpcMessage) -> bool {
        let state = &self.filter.state;
        match message {
            JsonRpcMessage::Request(request) if state.add_unanswered(&request.id) > MOST_UNANSWERED => {
                state.hang_up(format!(
                    "connection closed: it sent more than {MOST_UNANSWERED} requests without reading the responses"
                ));
                false
            }
            _ => true,
        }
    }

    /// Reads on until the line is whole; says no when there will be none.
    async fn fill_line(&mut self) -> bool {
        loop {
            let available = match self.reader.fill_buf().await {
                Ok([]) => {
                    self.filter.state.end("its output ended");
                    return false;
                }
                Ok(available) => available,
                Err(error) => {
                    self.filter.state.end(format!("cannot read its output: {error}"));
                    return false;
                }
            };
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |at| at + 1);
            if self.line.len() + taken > LONGEST_MESSAGE {
                self.filter
                    .state
                    .hang_up(format!("connection closed: it sent a message of more than {LONGEST_MESSAGE} bytes"));
                return false;
            }
            self.line.extend_from_slice(&available[..taken]);
            self.reader.consume(taken);
            if end.is_some() {
                return true;
            }
        }
    }
}

impl<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send + 'static> Transport<RoleClient> for Lines<R, W> {
    type Error = io::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        if let JsonRpcMessage::Request(asked) = &item
            && matches!(asked.request, ClientRequest::DiscoverRequest(_))
        {
            self.probe = Some((asked.id.clone(), Some(self.probe_timeout.until())));
        }
        let (writer, state) = (self.writer.clone(), self.filter.state.clone());
        state.sends(&item);
        let mark_answered = answered(&item);
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let write = async {
                let mut writer = writer.lock().await;
                let pipe = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
                pipe.write_all(&line).await?;
                pipe.flush().await
            };
            // A server that does not read its input would block the writer for ever.
            let written = tokio::select! {
                written = write => written,
                () = state.closed() => Err(io::ErrorKind::NotConnected.into()),
            };
            if let Some(id) = mark_answered {
                state.mark_answered(&id);
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.next().await {
                Next::Line => {}
                Next::End => return None,
                Next::Unanswered(id) => {
                    self.probe = Some((id.clone(), None));
                    self.filter.state.is_silent();
                    return Some(unanswered(id));
                }
            }
            let verdict = match read(&self.line, &self.redactor).map(|read| read.message) {
                Some(message) if self.is_too_late(&message) => self.filter.garbage(self.line.len()),
                Some(message) => self.filter.judge(message, self.line.len()),
                None => self.filter.garbage(self.line.len()),
            };
            self.line.clear();
            // One long message must not keep its memory for ever.
            self.line.shrink_to(64 * 1024);
            match verdict {
                Verdict::Pass(message) if !self.is_bearable(&message) => return None,
                Verdict::Pass(message) => return Some(*message),
                Verdict::Drop => {}
                Verdict::HangUp => return None,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // The writer lets go of the pipe first.
        self.filter.state.close();
        drop(self.writer.lock().await.take());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::JsonRpcMessage;
    use serde_json::json;
    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::outside::{filter::ConnectionState, probe::tests::probe_timeout};

    fn nothing() -> Arc<Redactor> {
        Arc::new(Redactor::new([""; 0]))
    }

    fn ping(id: u32) -> TxJsonRpcMessage<RoleClient> {
        serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).expect("a ping")
    }

    async fn receive_all(text: Vec<u8>) -> (Vec<String>, Option<String>) {
        let state = Arc::<ConnectionState>::default();
        let mut lines = Lines::new(
            io::Cursor::new(text),
            tokio::io::sink(),
            Filter::new(state.clone()),
            probe_timeout(),
            nothing(),
        );
        for id in [1, 2] {
            drop(lines.send(ping(id)));
        }
        let mut received = Vec::new();
        while let Some(message) = lines.receive().await {
            received.push(match message {
                JsonRpcMessage::Response(response) => format!("answer {}", response.id),
                JsonRpcMessage::Error(error) => format!("error {:?}", error.id.map(|id| id.to_string())),
                JsonRpcMessage::Request(request) => format!("request {}", request.id),
                JsonRpcMessage::Notification(_) => "notice".into(),
            });
        }
        (received, state.why())
    }

    #[tokio::test]
    async fn messages_are_found_among_garbage() {
        let text = "starting up\n\n{\"half\": \n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r\n\
                    {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\
                    {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\
                    {\"jsonrpc\":\"2.0\",\"id\":2,\"error\":\"no\"}\nlast words";
        let (received, why) = receive_all(text.as_bytes().to_vec()).await;
        assert_eq!(received, ["answer 1", "request 7", "error Some(\"2\")"]);
        assert_eq!(why.as_deref(), Some("its output ended"));
    }

    #[tokio::test]
    async fn a_pipe_without_a_reader_can_be_closed() {
        let state = Arc::<ConnectionState>::default();
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut lines = Lines::new(tokio::io::empty(), ours, Filter::new(state.clone()), probe_timeout(), nothing());
        let (first, second) = (tokio::spawn(lines.send(ping(1))), tokio::spawn(lines.send(ping(2))));
        // The first has filled the pipe and waits; the second waits for the first.
        let mut begin = [0; 4];
        theirs.read_exact(&mut begin).await.expect("some of it was written");
        lines.close().await.expect("it closes");
        for sent in [first, second] {
            assert!(sent.await.expect("it ends").is_err());
        }
        let mut rest = Vec::new();
        theirs.read_to_end(&mut rest).await.expect("the pipe has ended");
    }

    #[tokio::test]
    async fn a_line_without_end_and_endless_garbage_are_hung_up_on() {
        let (received, why) = receive_all(vec![b'x'; LONGEST_MESSAGE + 1]).await;
        assert_eq!(received, Vec::<String>::new());
        assert_eq!(why.as_deref(), Some("connection closed: it sent a message of more than 8388608 bytes"));
        let (received, why) = receive_all(format!("{}\n", "garbage ".repeat(1024)).repeat(3 * 1024).into_bytes()).await;
        assert_eq!(received, Vec::<String>::new());
        assert!(why.is_some_and(|why| why.contains("unsolicited bytes")));
    }

    #[tokio::test]
    async fn answers_without_a_request_are_noise() {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{{\"x\":\"{}\"}}}}\n", "x".repeat(1024 * 1024));
        let (received, why) = receive_all(line.repeat(17).into_bytes()).await;
        assert_eq!(received, Vec::<String>::new());
        assert!(why.is_some_and(|why| why.contains("unsolicited bytes")));
        // Short ones cost more than their bytes.
        let line = "{\"jsonrpc\":\"2.0\",\"id\":77,\"error\":{\"code\":1,\"message\":\"\"}}\n";
        let (received, why) = receive_all(line.repeat(33_000).into_bytes()).await;
        assert_eq!(received, Vec::<String>::new());
        assert!(why.is_some_and(|why| why.contains("unsolicited bytes")));
    }

    #[tokio::test]
    async fn who_asks_without_taking_the_answers_is_hung_up_on() {
        let ask = |id: usize| format!("{{\"jsonrpc\":\"2.0\",\"id\":\"q{id}\",\"method\":\"ping\"}}\n");
        let (received, why) = receive_all((0..100).map(ask).collect::<String>().into_bytes()).await;
        assert_eq!(received.len(), MOST_UNANSWERED);
        let said = "connection closed: it sent more than 64 requests without reading the responses";
        assert_eq!(why.as_deref(), Some(said));
        // Who takes them may ask on.
        let state = Arc::<ConnectionState>::default();
        let text = (0..100).map(ask).collect::<String>().into_bytes();
        let mut lines = Lines::new(
            io::Cursor::new(text),
            tokio::io::sink(),
            Filter::new(state.clone()),
            probe_timeout(),
            nothing(),
        );
        let mut asked = 0;
        while let Some(JsonRpcMessage::Request(request)) = lines.receive().await {
            asked += 1;
            let answer = json!({"jsonrpc": "2.0", "id": request.id, "result": {}});
            lines.send(serde_json::from_value(answer).expect("an answer")).await.expect("it is written");
        }
        assert_eq!((asked, state.why().as_deref()), (100, Some("its output ended")));
    }
}
