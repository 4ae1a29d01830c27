"""The server: one address for all wire formats. It keeps nothing between requests: what tools have answered in a
conversation says where in its play the host is, so a request that is sent again gets the same answer."""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from . import anthropic, chat, responses

SHAPES = {shape.PATH: shape for shape in (anthropic, responses, chat)}


@dataclass
class Call:
    """A step of a play: the model calls our `tool`."""

    tool: str
    arguments: dict = field(default_factory=dict)

    def answer(self, asked):
        name = asked.offered(self.tool)
        if name is None:
            return f"the tool {self.tool} is not on offer", None
        return "", (name, self.arguments)


@dataclass
class Say:
    """The end of a play: what the model says."""

    text: str

    def answer(self, asked):
        return self.text, None


class Scripted:
    """The model of one host, and of the agents behind our server, whose answers wait at a gate.

    `play` is given what tools have answered so far and returns the next step.
    """

    AGENT = "agent-model"

    def __init__(self, play, record=None):
        self.play = play
        self.record = record
        self.requests = []
        self.gate = threading.Event()
        """Agents answer once it is open; see `open` and `let_through`."""
        self.permits = 0
        self.changed = threading.Condition()
        self.agent = lambda asked: (f"woven: {asked.prompt.strip()}", None)
        """What the agents' model answers: a text, or a call."""
        self.agents_asked = []
        """Prompts that agents brought, one for each request."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self):
        self.open()
        self._http.shutdown()
        self._http.server_close()

    def open(self):
        """Lets every agent answer, from now on."""
        self.gate.set()
        self.let_through(0)

    def let_through(self, count):
        """Lets so many requests of agents be answered."""
        with self.changed:
            self.permits += count
            self.changed.notify_all()

    def pass_gate(self):
        with self.changed:
            self.changed.wait_for(lambda: self.gate.is_set() or self.permits > 0)
            self.permits -= 1

    def wait_for(self, what, seconds):
        """Waits until `what()` holds; says whether it does. Looked at whenever a request comes in."""
        with self.changed:
            return self.changed.wait_for(what, seconds)

    def conversation(self):
        """The requests of the host itself: those that were offered tools."""
        return [asked for asked in self.requests if asked.tools]

    def tools(self):
        return next((asked.tools for asked in self.conversation()), [])

    def results(self):
        """What tools have answered, as the host told the model in its newest request."""
        return max((asked.results for asked in self.conversation()), key=len, default=[])

    def answer(self, asked):
        if asked.model == self.AGENT:
            self.pass_gate()
            return self.agent(asked)
        if not asked.tools:
            return "Weaving", None
        return self.play(asked.results).answer(asked)

    def took(self, path, body, asked):
        with self.changed:
            if asked.model == self.AGENT:
                self.agents_asked.append(asked.prompt)
            else:
                self.requests.append(asked)
                if self.record:
                    self.record.write(json.dumps({"path": path, "body": body}) + "\n")
                    self.record.flush()
            self.changed.notify_all()
            return len(self.requests) + len(self.agents_asked)

    def _handler(scripted):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
                path = self.path.split("?")[0]
                if path.endswith("/count_tokens"):
                    return self.reply(200, "application/json", json.dumps({"input_tokens": 10}))
                shape = SHAPES.get(path)
                if shape is None:
                    return self.reply(404, "application/json", json.dumps({"error": {"message": f"nothing at {path}"}}))
                asked = shape.read(body)
                number = scripted.took(path, body, asked)
                text, call = scripted.answer(asked)
                self.reply(200, "text/event-stream", "".join(shape.frames(number, asked.model, text, call)))

            def do_GET(self):
                self.reply(200, "application/json", json.dumps({"object": "list", "data": [], "models": []}))

            def do_HEAD(self):
                self.reply(200, "application/json", "")

            def reply(self, status, kind, text):
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(text.encode())))
                    self.end_headers()
                    self.wfile.write(text.encode())
                except OSError:
                    # Who asked is gone: a host that was stopped, a server that was killed.
                    self.close_connection = True

            def log_message(self, *_):
                pass

        return Handler
