"""Anthropic's Messages, streamed: what Claude Code speaks."""

import json

from .asked import Asked, text_of

PATH = "/v1/messages"


def read(body):
    asked = Asked(tools=[tool["name"] for tool in body.get("tools", [])], model=body.get("model", ""))
    for message in body.get("messages", []):
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for block in blocks:
            if block.get("type") == "tool_result":
                asked.results.append(text_of(block.get("content", "")))
            elif block.get("type") == "text" and message.get("role") == "user":
                asked.prompt += block.get("text") or ""
    return asked


def events(number, model, text, call):
    """The stream's `(event, data)` of an answer: `text`, or a `call` of `(name, input)`."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model, "content": []}
    yield "message_start", {"message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    if call:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": call[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[1])}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": text}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    reason = "tool_use" if call else "end_turn"
    yield "message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield "message_stop", {}


def frames(number, model, text, call):
    for event, data in events(number, model, text, call):
        yield f"event: {event}\ndata: {json.dumps({'type': event, **data})}\n\n"
