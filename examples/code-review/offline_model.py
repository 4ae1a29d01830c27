#!/usr/bin/env python3
"""Serves the scripted reviewer over Anthropic's Messages API on loopback, so that Drawloom asks it as it would ask a provider.
It prints its port and serves until it is ended."""

import argparse
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from reviewer import Called, Conversation, answer


def text_of(content):
    """The text of a content, which is a text or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def conversation(body):
    """What a request of the Messages API tells."""
    prompt, calls, called = "", {}, []
    for message in body["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        calls |= {block["id"]: block for block in blocks if block["type"] == "tool_use"}
        for block in blocks:
            if block["type"] == "tool_result":
                call, failed = calls[block["tool_use_id"]], block.get("is_error", False)
                called.append(Called(call["name"], call["input"], text_of(block["content"]), failed))
        if message["role"] == "user":
            prompt += text_of(message["content"])
    return Conversation(text_of(body.get("system", "")), prompt, called)


def content(turn, turns):
    """The blocks of an answer. Ids come from the place in the conversation, so a repeated request gets the same ones."""
    calls = [
        {"type": "tool_use", "id": f"toolu_{turns}_{index}", "name": name, "input": value}
        for index, (name, value) in enumerate(turn.calls)
    ]
    return ([{"type": "text", "text": turn.text}] if turn.text else []) + calls


def stream(body, blocks):
    """An answer as events."""
    usage = {"input_tokens": len(json.dumps(body)) // 4, "output_tokens": 1}
    start = {"id": "msg_0", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    yield "message_start", {"message": {**start, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    for index, block in enumerate(blocks):
        match block["type"]:
            case "text":
                empty, deltas = {"text": ""}, [{"type": "text_delta", "text": block["text"]}]
            case "thinking":
                empty = {"thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
                deltas += [{"type": "signature_delta", "signature": block["signature"]}]
            case _:
                empty, deltas = {"input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield "content_block_start", {"index": index, "content_block": {**block, **empty}}
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    reason = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    usage["output_tokens"] = len(json.dumps(blocks)) // 4
    yield "message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield "message_stop", {}


def events(body, blocks):
    return "".join(f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n" for name, data in stream(body, blocks))


def turns(body):
    """How often the model has spoken in a conversation."""
    return sum(message["role"] == "assistant" for message in body["messages"])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            answered = self.server.answer(self.path, body)
        except (KeyError, ValueError) as problem:
            error = {"type": "invalid_request_error", "message": f"the scripted reviewer does not understand: {problem!r}"}
            answered = 400, "application/json", json.dumps({"type": "error", "error": error})
        self.reply(*answered)

    def reply(self, status, kind, text, headers=()):
        try:
            self.send_response(status)
            for name, value in (("Content-Type", kind), ("Content-Length", len(text.encode())), *headers):
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(text.encode())
        except OSError:
            # The server that asked was stopped. It asks again when it is back.
            self.close_connection = True

    def log_message(self, *_):
        pass


class Model(ThreadingHTTPServer):
    """The model on a port of its own."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.port = self.server_address[1]

    def handle_error(self, request, client_address):
        """A server that was stopped leaves a broken connection; that is no fault of the model."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def answer(self, path, body):
        """Status, kind and text of the answer to a request."""
        if path != "/v1/messages":
            return 404, "application/json", json.dumps({"type": "error", "error": {"type": "not_found_error", "message": path}})
        return 200, "text/event-stream", events(body, content(self.turn(conversation(body)), turns(body)))

    def turn(self, conversation):
        """What the model says next."""
        return answer(conversation)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="the port; a free one when absent")
    model = Model(parser.parse_args().port)
    print(model.port, flush=True)
    try:
        model.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
