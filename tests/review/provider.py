"""Fake providers for the review: the scripted reviewer of the example behind the wire formats of Anthropic and DeepSeek, as strict
as these are, and with faults: a limit of calls in flight, and an end in the middle."""

import hashlib
import json
import re
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/code-review"
sys.dont_write_bytecode = True
sys.path.insert(0, str(EXAMPLE))

from offline_model import Handler, Model, content, conversation, events, text_of, turns  # noqa: E402
from reviewer import Called, Conversation, Turn  # noqa: E402


class Rejected(Exception):
    """A request that the real API rejects."""


def proof(model, thought):
    """By what a provider knows a thought as its own."""
    return hashlib.sha256(f"{model}\0{thought}".encode()).hexdigest()[:24]


class Provider(Model):
    """A provider with faults.

    `limit`: with more calls in flight, a call is answered with 429. `fails_from`: from this call on nothing is answered any more;
    the first such call breaks off in the middle of its stream, the others are told that the provider is overloaded, or, with
    `hangs_up`, told nothing. `delay`: how long an answer takes, in seconds."""

    def __init__(self, limit=None, fails_from=None, hangs_up=False, delay=0.0):
        super().__init__()
        self.limit, self.fails_from, self.hangs_up, self.delay = limit, fails_from, hangs_up, delay
        self.lock = threading.Lock()
        self.asked = self.answered = self.in_flight = self.most_in_flight = 0
        self.throttled = self.failed = self.thought = 0
        self.rejected = []
        self.seen = set()
        """What `canary` found in requests."""
        self.canary = None
        """A regular expression."""
        self.on_call = None
        """Called with the number of a call before it is answered."""
        self.RequestHandlerClass = BreakingHandler
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()

    @contextmanager
    def flight(self):
        """Counts a call while it is answered. What is yielded is its number, and how many are in flight with it."""
        with self.lock:
            self.asked += 1
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            number, at_once = self.asked, self.in_flight
        try:
            yield number, at_once
        finally:
            with self.lock:
                self.in_flight -= 1

    def answer(self, path, body):
        with self.flight() as (number, at_once):
            if self.on_call:
                self.on_call(number)
            if self.canary:
                found = set(re.findall(self.canary, json.dumps(body)))
                with self.lock:
                    self.seen |= found
            if self.limit is not None and at_once > self.limit:
                with self.lock:
                    self.throttled += 1
                return 429, "application/json", self.error("rate_limit_error", "too many calls at once")
            if self.fails_from is not None and number >= self.fails_from:
                with self.lock:
                    self.failed += 1
                if number == self.fails_from:
                    kind, text = "text/event-stream", self.stream(body, self.blocks(body, Turn("I begin, and")))
                    return 200, kind, text[: len(text) // 2]
                if self.hangs_up:
                    raise ConnectionAbortedError
                return 529, "application/json", self.error("overloaded_error", "overloaded")
            try:
                self.check(path, body)
            except Rejected as problem:
                with self.lock:
                    self.rejected.append(str(problem))
                return 400, "application/json", self.error("invalid_request_error", str(problem))
            if self.delay:
                threading.Event().wait(self.delay)
            with self.lock:
                self.answered += 1
            return 200, "text/event-stream", self.stream(body, self.blocks(body, self.turn(self.read(body))))

    def turn(self, conversation):
        """The reviewer, and a control that says what it reads: `leak=PATH`."""
        leak = re.search(r"leak=(\S+)", conversation.prompt)
        if not leak:
            return super().turn(conversation)
        if not conversation.called:
            return Turn(calls=[("Read", {"path": leak[1]})])
        return Turn(conversation.called[-1].answer)

    def error(self, kind, message):
        return json.dumps({"type": "error", "error": {"type": kind, "message": message}})


class BreakingHandler(Handler):
    """Ends the connection after a stream that breaks off."""

    def reply(self, status, kind, text, headers=()):
        whole = status != 200 or text.rstrip().endswith(("[DONE]", '{"type": "message_stop"}'))
        if not whole:
            self.close_connection = True
        super().reply(status, kind, text, headers if whole else [("Connection", "close"), *headers])


class Anthropic(Provider):
    """Messages. A thought has a signature, and comes back unchanged or not at all; a turn of tools that thinks begins with one."""

    def read(self, body):
        return conversation(body)

    def stream(self, body, blocks):
        return events(body, blocks)

    def blocks(self, body, turn):
        thinks = body.get("thinking", {}).get("type") in ("enabled", "adaptive")
        self.thought += thinks
        thought = f"Turn {turns(body) + 1}: what did the tools say?"
        signed = {"type": "thinking", "thinking": thought, "signature": proof(body["model"], thought)}
        return ([signed] if thinks else []) + content(turn, turns(body))

    def check(self, path, body):
        if path != "/v1/messages":
            raise Rejected(f"nothing is at {path}")
        open_calls, seen = set(), set()
        for at, message in enumerate(body["messages"]):
            blocks = message["content"] if isinstance(message["content"], list) else [{"type": "text", "text": message["content"]}]
            results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            if set(results) != open_calls or len(set(results)) != len(results):
                raise Rejected(f"messages.{at}: results {results} for calls {sorted(open_calls)}")
            open_calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
            if open_calls & seen or not all(re.fullmatch(r"[A-Za-z0-9_-]+", call) for call in open_calls):
                raise Rejected(f"messages.{at}: ids of calls are not unique, or not valid: {sorted(open_calls)}")
            seen |= open_calls
            for block in blocks:
                if block["type"] == "thinking" and block["signature"] != proof(body["model"], block["thinking"]):
                    raise Rejected(f"messages.{at}: Invalid `signature` in `thinking` block")
                if block["type"] == "text" and not block["text"].strip():
                    raise Rejected(f"messages.{at}: text content blocks must contain non-whitespace text")
        if open_calls:
            raise Rejected(f"calls without results: {sorted(open_calls)}")
        last = next((m for m in reversed(body["messages"]) if m["role"] == "assistant"), None)
        if body.get("thinking", {}).get("type") == "enabled" and last and last["content"][0]["type"] != "thinking":
            raise Rejected("Expected `thinking`: a final `assistant` message must start with a thinking block")


class Deepseek(Provider):
    """Chat Completions. A model that thinks wants the reasoning of every turn back once tools were called, and only its own."""

    FIELDS = {
        "model", "messages", "stream", "stream_options", "max_tokens", "temperature", "top_p", "frequency_penalty",
        "presence_penalty", "stop", "tools", "tool_choice", "thinking", "reasoning_effort", "response_format",
    }  # fmt: skip

    carried = 0
    """Requests with calls that another provider's model made."""

    def thinks(self, body):
        return body.get("thinking", {}).get("type") != "disabled" and body["model"] != "deepseek-chat"

    def read(self, body):
        system, prompt, calls, called = "", "", {}, []
        for message in body["messages"]:
            match message["role"]:
                case "system":
                    system += text_of(message["content"])
                case "user":
                    prompt += text_of(message["content"])
                case "assistant":
                    calls |= {call["id"]: call["function"] for call in message.get("tool_calls") or []}
                case "tool":
                    call = calls[message["tool_call_id"]]
                    text = text_of(message["content"])
                    called.append(Called(call["name"], json.loads(call["arguments"]), text, text.startswith("The call failed: ")))
        return Conversation(system, prompt, called)

    def blocks(self, body, turn):
        return turn

    def stream(self, body, turn):
        number = turns(body)
        self.thought += self.thinks(body)
        thought = f"Turn {number + 1}: what did the tools say?"
        reasoning = [{"reasoning_content": f"{thought} [{proof(body['model'], thought)}]"}] if self.thinks(body) else []
        calls = [
            {"index": index, "id": f"call_{number}_{index}", "type": "function", "function": {"name": name, "arguments": json.dumps(value)}}
            for index, (name, value) in enumerate(turn.calls)
        ]  # fmt: skip
        deltas = [*reasoning, {"content": turn.text}, *([{"tool_calls": calls}] if calls else []), {}]
        base = {"id": "c_0", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
        reason = "tool_calls" if calls else "stop"
        chunks = [
            {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else reason}]} for delta in deltas
        ]
        read, written = len(json.dumps(body)) // 4, len(json.dumps(deltas)) // 4
        usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        chunks.append({**base, "choices": [], "usage": usage})
        return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"

    def check(self, path, body):
        if not path.endswith("/chat/completions"):
            raise Rejected(f"nothing is at {path}")
        if unknown := body.keys() - self.FIELDS:
            raise Rejected(f"Unrecognized request argument supplied: {sorted(unknown)}")
        open_calls, called, missing = [], False, False
        with self.lock:
            self.carried += '"id": "toolu_' in json.dumps(body["messages"])
        for message in [*body["messages"], {"role": "user"}]:
            if message["role"] == "tool":
                if message["tool_call_id"] not in open_calls:
                    raise Rejected(f"a result without a call: {message['tool_call_id']}")
                open_calls.remove(message["tool_call_id"])
                continue
            if open_calls:
                raise Rejected(f"calls without results: {open_calls}")
            if message["role"] == "user":
                if self.thinks(body) and called and missing:
                    raise Rejected("The reasoning_content in the thinking mode must be passed back to the API.")
                called = missing = False
            if message["role"] == "assistant":
                open_calls = [call["id"] for call in message.get("tool_calls") or []]
                called = called or bool(open_calls)
                reasoning = message.get("reasoning_content")
                missing = missing or not isinstance(reasoning, str)
                if isinstance(message.get("content"), list):
                    raise Rejected("blocks of another API in an assistant's content")
                own = re.fullmatch(r"(.*) \[(\w+)\]", reasoning or "", re.DOTALL)
                if reasoning and not (own and own[2] == proof(body["model"], own[1])):
                    raise Rejected("The reasoning_content is not of this model.")

    def error(self, kind, message):
        return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": kind}})
