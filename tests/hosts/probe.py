#!/usr/bin/env python3
"""An MCP server that writes down all that a client sends: how FACTS.md came about.

    probe.py LOG                stdio
    probe.py LOG http           HTTP on a free loopback port, which is printed
    ... --legacy                does not know 2026-07-28

Its tools: `echo {text}`; `both`, which answers a text and another `structuredContent`; and `wait {seconds, progress}`, which
answers after `seconds`, with a progress notification every `progress` seconds when that is not 0. What clients send meanwhile, and when they hang up, is in the log, one JSON a line.
"""

import json
import select
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LEGACY = "--legacy" in sys.argv
LOG = open(sys.argv[1], "a", buffering=1)
STARTED = time.monotonic()
INFO = {"name": "probe", "version": "1"}


def tool(name, **properties):
    return {"name": name, "description": name, "inputSchema": {"type": "object", "properties": properties}}


TOOLS = [tool("echo", text={"type": "string"}), tool("both"), tool("wait", seconds={"type": "number"}, progress={"type": "number"})]


def note(what, **more):
    LOG.write(json.dumps({"at": round(time.monotonic() - STARTED, 2), "what": what, **more}) + "\n")


def answer(frame, send, gone):
    """Answers one frame with `send`; `gone()` says that nobody listens any more."""
    method, params, ident = frame.get("method"), frame.get("params") or {}, frame.get("id")
    meta = params.get("_meta") or {}
    modern = "io.modelcontextprotocol/protocolVersion" in meta
    if ident is None:
        return None

    def done(result):
        if modern:
            result = {"resultType": "complete", **result}
        return {"jsonrpc": "2.0", "id": ident, "result": result}

    cached = {"ttlMs": 0, "cacheScope": "private"} if modern else {}
    if method == "server/discover" and not LEGACY:
        about = {"_meta": {"io.modelcontextprotocol/serverInfo": INFO}, "ttlMs": 0, "cacheScope": "private"}
        return done({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **about})
    if method == "initialize":
        return done(
            {"protocolVersion": params.get("protocolVersion"), "capabilities": {"tools": {}}, "serverInfo": INFO}
        )
    if method == "ping":
        return done({})
    if method == "tools/list":
        return done({"tools": TOOLS, **cached})
    if method == "tools/call":
        arguments = params.get("arguments") or {}
        text = arguments.get("text", "waited")
        end = time.monotonic() + float(arguments.get("seconds", 0))
        every = float(arguments.get("progress", 0)) or 1e9
        beat = time.monotonic() + every
        count = 0
        while (now := time.monotonic()) < end:
            if gone(min(end, beat) - now):
                note("hung up while waiting", id=ident)
                return None
            if time.monotonic() >= beat:
                beat += every
                count += 1
                token = {"progressToken": meta.get("progressToken"), "progress": count, "message": f"beat {count}"}
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": token})
        note("answered", id=ident)
        if params.get("name") == "both":
            return done({"content": [{"type": "text", "text": "in content"}], "structuredContent": {"in": "structuredContent"}})
        return done({"content": [{"type": "text", "text": text}]})
    return {"jsonrpc": "2.0", "id": ident, "error": {"code": -32601, "message": f"no method {method}"}}


def stdio():
    lock = threading.Lock()

    def send(frame):
        with lock:
            print(json.dumps(frame), flush=True)

    def gone(seconds):
        time.sleep(max(0, seconds))
        return False

    def work(frame):
        reply = answer(frame, send, gone)
        if reply:
            send(reply)

    note("started", argv=sys.argv[1:])
    for line in sys.stdin:
        note("frame", frame=json.loads(line))
        threading.Thread(target=work, args=(json.loads(line),), daemon=True).start()
    note("stdin ended")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def wanted(self):
        names = (
            "accept",
            "authorization",
            "mcp-session-id",
            "mcp-protocol-version",
            "mcp-method",
            "mcp-name",
            "user-agent",
        )
        return {name: self.headers[name] for name in names if self.headers[name] and name != "authorization"} | {
            "authorization": bool(self.headers["authorization"])
        }

    def gone(self, seconds):
        readable, _, _ = select.select([self.connection], [], [], max(0, seconds))
        try:
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def send(self, frame):
        data = f"event: message\ndata: {json.dumps(frame)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def do_POST(self):
        frame = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        note("POST", headers=self.wanted(), frame=frame)
        stream = frame.get("method") == "tools/call"
        if "id" not in frame:
            return self.finish_with(202, b"")
        if not stream:
            reply = answer(frame, None, self.gone)
            status = 400 if "error" in reply and frame["method"] == "server/discover" else 200
            return self.finish_with(status, json.dumps(reply).encode(), frame["method"] == "initialize")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            reply = answer(frame, self.send, self.gone)
            if reply is None:
                self.close_connection = True
                return None
            self.send(reply)
            self.wfile.write(b"0\r\n\r\n")
        except OSError as error:
            note("hung up", error=str(error))
        return None

    def finish_with(self, status, data, session=False):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if session:
            self.send_header("Mcp-Session-Id", "probe-session")
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        note("GET", headers=self.wanted())
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while not self.gone(60):
            pass
        note("GET ended")
        self.close_connection = True

    def do_DELETE(self):
        note("DELETE", headers=self.wanted())
        self.finish_with(200, b"")

    def log_message(self, *_):
        pass


if "http" in sys.argv[2:]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
else:
    stdio()
